"""One queue of a clustering group: who owns it, who asks for it, who owned it before."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.lives import Life, Move
from aerobee.remoting.net.connection import Connection

FORMERS_MAX: Final = 16  # of one queue: those before have long ceased to pull

_Place = TypeVar("_Place")


class Verdict(enum.Enum):
    """How a request for a queue's offset is answered."""

    OFFSET = "with the offset, or that there is none"
    PENDING = "with HANDOVER_PENDING: ask again at once"


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> None:
        """Let it not happen."""


Later = Callable[[float, Callable[[], None]], Timer]
"""Has something done after some seconds."""


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

    def is_to_pull(self, now_ms: int) -> None:
        """Its pull that waited is ended, upon which it pulls again and shows itself."""
        self.ended_ms = now_ms

    def is_to_show_itself(self) -> None:
        """It seems to have given the queue up: only a pull that is to come says otherwise."""
        self.pulled_ms = 0


@dataclass(slots=True, eq=False)
class Ask:
    """A request for the offset that waits for the owner; `timer` ends its wait."""

    holder: Holder
    queue: "OwnedQueue"
    answer: Callable[[Verdict], None]
    came_ms: int
    timer: Timer | None = None


class Claim(enum.Enum):
    """The states of a queue; each value says who may have it."""

    FREE = "nobody owns it: the next one who asks, or still pulls, has it"
    KEPT = "nobody owns it: it is for who asks, or was told to ask again"
    OWNED = "its owner pulls and commits"
    CONTESTED = "somebody else asks, or will again: the owner's pulls wait, and its time runs"
    OVERDUE = "the owner has had its time: the next one who asks has it"


LIFE: Final = Life(
    "queue of a group",
    Move(Claim.FREE, "give", Claim.OWNED, "a member asks (14), or still pulls"),
    Move(Claim.KEPT, "give", Claim.OWNED, "who asks has it at once, whoever it is"),
    Move(Claim.OWNED, "give", Claim.OWNED, "it had let go already, or asks on a new connection"),
    Move(Claim.CONTESTED, "give", Claim.OWNED, "the owner has let go or finished; an ask is due"),
    Move(Claim.OVERDUE, "give", Claim.OWNED, "who asks has it at once"),
    Move(Claim.OWNED, "contest", Claim.CONTESTED, "somebody else asks (14)"),
    Move(Claim.CONTESTED, "time_is_up", Claim.OVERDUE, "by the table below"),
    Move(Claim.OWNED, "vacate", Claim.FREE, "42, or its connection or membership ends"),
    Move(Claim.CONTESTED, "vacate", Claim.KEPT, "the same"),
    Move(Claim.OVERDUE, "vacate", Claim.KEPT, "the same"),
    Move(Claim.KEPT, "unasked", Claim.FREE, "nobody asks again in its time"),
    Move(Claim.CONTESTED, "unasked", Claim.OWNED, "nobody asks any more"),
    Move(Claim.OVERDUE, "unasked", Claim.OWNED, "nobody asks any more"),
)


class Alarm:
    """One thing that is to happen at a time: set anew, it happens only then."""

    __slots__ = ("_timer",)

    def __init__(self) -> None:
        self._timer: Timer | None = None

    @property
    def is_set(self) -> bool:
        """Whether it is to happen."""
        return self._timer is not None

    def set(self, timer: Timer) -> None:
        """Let it happen when `timer` says."""
        self.stop()
        self._timer = timer

    def stop(self) -> None:
        """Let it not happen, or note that it has."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Signs:
    """What an owner has let be seen of giving its queue up.

    Each is the number of a change of its group: `committed_in` the one after which its latest
    commit came, `rebalanced_in` that after which its heartbeat said that its queues have changed,
    `let_go_in` the one for which it has given the queue up by these signs (0: none). `for_good`
    says that further changes do not matter.
    """

    __slots__ = ("committed_in", "for_good", "let_go_in", "rebalanced_in")

    def __init__(self) -> None:
        self.committed_in = 0
        self.rebalanced_in = 0
        self.let_go_in = 0
        self.for_good = False

    def committed(self, change: int) -> None:
        """The owner has committed after a change: it has not let go of it before that for good."""
        self.for_good = False
        self.committed_in = change

    def rebalanced(self, change: int) -> None:
        """The owner's heartbeat says that its queues are others since a change."""
        self.rebalanced_in = change
        if self.let_go_in == change:
            self.for_good = True

    def let_go(self, change: int) -> None:
        """The owner has given the queue up for a change."""
        self.let_go_in = change

    def none(self) -> None:
        """The owner uses the queue: whatever it showed, it has not given it up."""
        self.let_go_in, self.for_good = 0, False

    def has_let_go(self, change: int) -> bool:
        """Whether the owner has given the queue up after a change."""
        return self.for_good or (self.let_go_in == change and change > 0)


class OwnedQueue:
    """Who owns a queue, who asks for it, and who owned it before.

    `LIFE` has the moves of its `claim`. Beside that, and until the next owner: the owner is
    `leaving` when it has left its group, while what it commits still counts; the queue is
    `draining` while it rests until what was fetched is consumed; the owner is `unseen` that has not
    pulled since its 14 was answered; `began` is the offset of its first pull, where nothing was
    committed. `floor` is an offset below which commits are not taken: those of an owner that has
    the queue again after somebody else had committed more; it has `returned` until it pulls, for
    that pull may have to be sent there.

    `limit` is the end of the owner's time, `renewal` that of waiting for who was told to ask again,
    `look` the next look whether the owner pulls, while a former one does.
    """

    __slots__ = (
        "asks",
        "began",
        "claim",
        "draining",
        "floor",
        "formers",
        "key",
        "leaving",
        "limit",
        "look",
        "owner",
        "renewal",
        "returned",
        "signs",
        "unseen",
    )

    def __init__(self, key: GroupQueue) -> None:
        self.key = key
        self.claim = Claim.FREE
        self.asks: list[Ask] = []  # in the order they came
        self.formers: dict[Connection, Holder] = {}  # in the order they lost it
        self.limit, self.renewal, self.look = Alarm(), Alarm(), Alarm()
        self._begin_anew(None)

    def _begin_anew(self, owner: Holder | None) -> None:
        self.owner = owner
        self.signs = Signs()
        self.leaving = self.draining = self.returned = False
        self.unseen = owner is not None
        self.began: int | None = None
        self.floor = 0

    # --- its life ---

    def give(self, holder: Holder) -> None:
        """Make somebody the owner."""
        self.claim = LIFE.after(self.claim, "give")
        self.stop_alarms()
        self._begin_anew(holder)
        self.formers.pop(holder.connection, None)

    def contest(self, limit: Timer) -> None:
        """Let pulls of the owner wait, whose time ends with `limit`."""
        self.claim = LIFE.after(self.claim, "contest")
        self.limit.set(limit)

    def time_is_up(self) -> None:
        """The owner did not give the queue up in its time."""
        self.claim = LIFE.after(self.claim, "time_is_up")
        self.limit.stop()

    def vacate(self) -> None:
        """The owner is none any more."""
        self.claim = LIFE.after(self.claim, "vacate")
        self.limit.stop()
        self._begin_anew(None)

    def unasked(self) -> None:
        """Nobody asks any more, and nobody is expected to."""
        self.claim = LIFE.after(self.claim, "unasked")
        self.limit.stop()

    def forget_all(self) -> None:
        """Have to do with nobody any more: owners are not known from now on."""
        self.claim = Claim.FREE
        self.stop_alarms()
        self._begin_anew(None)
        self.formers.clear()

    def stop_alarms(self) -> None:
        """Let nothing happen any more."""
        for alarm in (self.limit, self.renewal, self.look):
            alarm.stop()

    @property
    def contested(self) -> bool:
        """Whether somebody else asks for what is owned, or was told to ask again."""
        return self.claim in _CONTESTED

    @property
    def waits(self) -> bool:
        """Whether pulls of the owner wait."""
        return self.draining or self.contested

    @property
    def idle(self) -> bool:
        """Whether nobody has to do with the queue any more."""
        return self.owner is None and not self.asks and not self.formers

    def is_owned_by(self, connection: Connection) -> bool:
        """Whether this very connection owns the queue."""
        return self.owner is not None and self.owner.connection is connection

    # --- others: who asks, and who owned it before ---

    def asked(self, ask: Ask) -> None:
        """Somebody begins to wait for the owner."""
        self.asks.append(ask)
        self.renewal.stop()

    def answered(self, ask: Ask) -> None:
        """Somebody waits no longer."""
        self.asks.remove(ask)

    def remember(self, former: Holder) -> Connection | None:
        """Know a former owner; return the one that is known no more, where there are too many."""
        self.formers[former.connection] = former
        if len(self.formers) <= FORMERS_MAX:
            return None
        oldest = next(iter(self.formers))
        del self.formers[oldest]
        return oldest

    def forget(self, connection: Connection) -> bool:
        """Know a former owner no more; whether it was one."""
        return self.formers.pop(connection, None) is not None

    # --- what the owner does ---

    def leave(self) -> None:
        """The owner has left its group; what it commits still counts."""
        self.leaving = True

    def stay(self) -> None:
        """The owner is a member, whatever was seen before."""
        self.leaving = False

    def rest(self) -> None:
        """Let pulls of the owner wait until what it has fetched is consumed."""
        self.draining = True

    def go_on(self) -> None:
        """Let the owner fetch on."""
        self.draining = False

    def seen(self, began: int | None) -> None:
        """The owner pulls; `began` is where, if that shows that it has fetched nothing."""
        self.unseen = False
        self.began = began

    def resumed(self, committed: int) -> None:
        """The owner goes on with what it had before: what others committed must not go back."""
        self.unseen = False
        self.floor = committed

    def comes_back(self) -> None:
        """The owner knows nothing of what others have done since it had the queue."""
        self.returned = True

    def is_back(self) -> int:
        """The owner pulls again: return the offset to which it is sent, once, if it is below."""
        self.returned = False
        return self.floor

    def take_from(self, floor: int) -> None:
        """Take commits of the owner from an offset on; 0: all."""
        self.floor = floor


_CONTESTED: Final = frozenset({Claim.CONTESTED, Claim.OVERDUE})


def unlink(
    table: dict[_Place, dict[GroupQueue, OwnedQueue]], place: _Place, queue: OwnedQueue
) -> None:
    """Take a queue out of those that are found at a place, and the place if it was the last."""
    queues = table.get(place)
    if queues is not None and queues.pop(queue.key, None) is not None and not queues:
        del table[place]
