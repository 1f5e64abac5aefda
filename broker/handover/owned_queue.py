"""One queue of a clustering group: who owns it, who asks for it, who owned it before."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from aerobee.broker.members.queue_key import QueueKey
from aerobee.remoting.net.connection import Connection

_Place = TypeVar("_Place")


class Verdict(enum.Enum):
    """How a request for a queue's offset is answered."""

    OFFSET = "with the offset, or that there is none"
    PENDING = "with HANDOVER_PENDING: ask again at once"


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> None:
        """Let it not happen."""


@dataclass(slots=True, eq=False)
class Holder:
    """A member as owner of one queue, now or once, or as one who asks for it."""

    connection: Connection
    client_id: str
    timeout_ms: int | None  # within which a member of ours gives up what it lost; others: None
    pulled_ms: int = 0  # when its latest pull of the queue came, while somebody watches
    ended_ms: int = 0  # when one that waited was last ended, for it to pull again and show itself
    shown_ms: int = 0  # how old what its latest pull shows may be: it may have been long on the way

    def pulls(self, now_ms: int) -> None:
        """A pull has come, which was sent after the one before was answered, whenever that was."""
        self.shown_ms = max(self.pulled_ms, self.ended_ms)
        self.pulled_ms = now_ms


@dataclass(slots=True, eq=False)
class Ask:
    """A request for the offset that waits for the owner; `timer` ends its wait."""

    holder: Holder
    queue: "OwnedQueue"
    answer: Callable[[Verdict], None]
    came_ms: int
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class OwnedQueue:
    """Who owns a queue, and what its owner has let be seen of giving it up.

    Numbers of changes count the changes of the owner's group: `committed_in` is the one after which
    the owner's latest commit came, `rebalanced_in` that after which its heartbeat said that its
    queues have changed, `let_go_in` the one for which its signs say that it has given
    the queue up (0: never). `let_go_for_good` says that further changes do not matter.
    `floor` is an offset below which commits are not taken: those that an owner makes who has the
    queue again after somebody else had committed more. `returned` says that it has not pulled
    since, so that its next pull may have to be sent there.
    """

    key: QueueKey
    owner: Holder | None = None
    asks: list[Ask] = field(default_factory=list)  # in the order they came
    formers: dict[Connection, Holder] = field(default_factory=dict)  # in the order they lost it
    contested: bool = False  # somebody else has asked: pulls of the owner wait
    draining: bool = False  # they wait until what it has fetched is consumed
    overdue: bool = False  # the owner has had its time
    unseen: bool = False  # the owner has not pulled since its 14 was answered
    began: int | None = None  # the offset of its first pull, where nothing was committed
    leaving: bool = False  # the owner has left its group; what it commits still counts
    committed_in: int = 0
    rebalanced_in: int = 0
    let_go_in: int = 0
    let_go_for_good: bool = False
    floor: int = 0
    returned: bool = False
    limit: Timer | None = None  # the end of the owner's time
    renewal: Timer | None = None  # the end of waiting for an asker to ask again
    look: Timer | None = None  # the next look whether the owner pulls, while a former one does

    def forget_signs(self) -> None:
        """Begin anew with an owner that has given no sign yet."""
        self.committed_in = self.rebalanced_in = self.let_go_in = self.floor = 0
        self.let_go_for_good = self.overdue = self.leaving = self.draining = False
        self.returned = self.unseen = False
        self.began = None

    def forget_all(self) -> None:
        """Have to do with nobody any more."""
        self.stop_timers()
        self.forget_signs()
        self.owner, self.contested = None, False
        self.formers.clear()

    def has_let_go(self, change: int) -> bool:
        """Whether the owner's signs say that it has given the queue up after `change`."""
        return self.let_go_for_good or (self.let_go_in == change and change > 0)

    @property
    def waits(self) -> bool:
        """Whether pulls of the owner wait."""
        return self.contested or self.draining

    def is_owned_by(self, connection: Connection) -> bool:
        """Whether this very connection owns the queue."""
        return self.owner is not None and self.owner.connection is connection

    def stop_timers(self) -> None:
        """Let nothing happen any more."""
        for timer in (self.limit, self.renewal, self.look):
            if timer is not None:
                timer.cancel()
        self.limit = self.renewal = self.look = None

    @property
    def idle(self) -> bool:
        """Whether nobody has to do with the queue any more."""
        return self.owner is None and not self.asks and not self.formers


def unlink(
    table: dict[_Place, dict[QueueKey, OwnedQueue]], place: _Place, queue: OwnedQueue
) -> None:
    """Take a queue out of those that are found at a place, and the place if it was the last."""
    queues = table.get(place)
    if queues is not None and queues.pop(queue.key, None) is not None and not queues:
        del table[place]
