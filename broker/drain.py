"""One finishing of a group's members: whose work is under way, and who goes on meanwhile."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from aerobee.broker.owned_queue import OwnedQueue, Timer
from aerobee.remoting.net.connection import Connection

Key = tuple[str, Connection | None]
"""A group, and the member that is drained alone."""


@dataclass(slots=True, eq=False)
class Drain:
    """Members of a group that finish, all or one `alone`; `left` are queues with work under way.

    Those that take long are `slow`, by owner. As long as there are some, members without any go on:
    they fetch a batch of a queue when the one before is consumed, so that they finish quickly after
    the last of the slow. `asked` counts the questions for the members since they were told, by who
    has asked.
    """

    group: str
    alone: Connection | None
    began_ms: int
    queues: list[OwnedQueue]
    left: dict[OwnedQueue, None]
    slow: dict[Connection, set[OwnedQueue]] = field(default_factory=dict)
    timer: Timer | None = None
    told: bool = False
    asked: Counter[Connection] = field(default_factory=Counter)
    went_on_ms: int | None = None  # since when the others went on
    rested_again_ms: int | None = None

    @property
    def key(self) -> Key:
        """What tells this one from others."""
        return self.group, self.alone

    def finished(self, queue: OwnedQueue, now_ms: int) -> bool:
        """A queue's owner has consumed all that it fetched; whether it may fetch one batch more."""
        assert queue.owner is not None, "only owners finish"
        owner = queue.owner.connection
        if self.slow and owner not in self.slow and not queue.contested:
            self.left[queue] = None
            return True
        self.left.pop(queue, None)
        if queue in self.slow.get(owner, ()):
            self.slow[owner].discard(queue)
            self._end_slowness(now_ms)
        return False

    def keep(self, rests: Callable[[OwnedQueue], bool], now_ms: int) -> None:
        """Wait only for queues that rest for this drain still."""
        self.left = {queue: None for queue in self.left if rests(queue)}
        if self.slow:
            for owner, queues in self.slow.items():
                self.slow[owner] = {
                    queue for queue in queues if queue.is_owned_by(owner) and queue in self.left
                }
            self._end_slowness(now_ms)

    def let_others_go_on(self, now_ms: int) -> None:
        """Let the members fetch on that have finished, until the others have, too."""
        for queue in self.left:
            if queue.owner is not None:
                self.slow.setdefault(queue.owner.connection, set()).add(queue)
        self.went_on_ms = now_ms
        self.left = dict.fromkeys(queue for queue in self.queues if queue.draining)

    def stop_others(self, now_ms: int) -> None:
        """Let everybody finish."""
        if self.slow:
            self.slow, self.rested_again_ms = {}, now_ms

    def rested_ms(self, now_ms: int) -> int:
        """How long all members have rested."""
        went_on_ms = 0
        if self.went_on_ms is not None:
            went_on_ms = (self.rested_again_ms or now_ms) - self.went_on_ms
        return now_ms - self.began_ms - went_on_ms

    def _end_slowness(self, now_ms: int) -> None:
        self.slow = {owner: queues for owner, queues in self.slow.items() if queues}
        if not self.slow:
            self.rested_again_ms = now_ms
