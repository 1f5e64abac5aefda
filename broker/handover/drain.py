"""One finishing of a group's members: whose work is under way, and who goes on meanwhile."""

from collections import Counter
from collections.abc import Callable

import msgspec

from aerobee.broker.handover.owned_queue import OwnedQueue, Timer
from aerobee.remoting.net.connection import Connection

Key = tuple[str, Connection | None]
"""A group, and the member that is drained alone."""


class Drain(msgspec.Struct, eq=False):
    """Members of a group that finish, all or one `alone`; `left` are queues with work under way,
    `later` those that members were given since, which rest as well.

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
    later: list[OwnedQueue] = msgspec.field(default_factory=list)
    slow: dict[Connection, set[OwnedQueue]] = msgspec.field(default_factory=dict)
    timer: Timer | None = None
    told: bool = False
    in_vain: bool = False  # a handler was seen to take longer than anybody waits
    quick: bool = False  # all handlers are seen to end, so that only the work left matters
    work: int = 0  # messages that were unfinished when they were counted first
    work_left: int = 0
    asked: Counter[Connection] = msgspec.field(default_factory=Counter)
    went_on_ms: int | None = None  # since when the others went on
    rested_again_ms: int | None = None

    @property
    def key(self) -> Key:
        """What tells this one from others."""
        return self.group, self.alone

    @property
    def resting(self) -> list[OwnedQueue]:
        """All queues that were to rest."""
        return [*self.queues, *self.later]

    @property
    def unfinished(self) -> list[OwnedQueue]:
        """The queues that have not shown yet that all is consumed, but for those that go on."""
        if self.slow:
            return [queue for queues in self.slow.values() for queue in queues]
        return list(self.left)

    def note_work(self, unfinished: int) -> None:
        """Note how many messages are unfinished."""
        self.work, self.work_left = max(self.work, unfinished), unfinished

    def ends_within(self, limit_ms: int, now_ms: int) -> bool:
        """Whether what is left will be done in a time, at the pace until now."""
        waited_ms = now_ms - self.began_ms
        done = self.work - self.work_left
        return self.work_left * waited_ms <= done * (limit_ms - waited_ms)

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
