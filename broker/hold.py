"""Pulls that found nothing and wait in the broker: long polling (PullRequestHoldService)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aerobee.broker.topic_queues import TopicQueue

if TYPE_CHECKING:
    from aerobee.broker.pulling import Pull

SWEEP_INTERVAL_MS: Final = 100


class HeldPull:
    """One waiting pull and the sweep that ends its wait."""

    __slots__ = ("pull", "queue", "sweep")

    def __init__(self, pull: "Pull", queue: TopicQueue, sweep: int) -> None:
        self.pull = pull
        self.queue = queue
        self.sweep = sweep


class Holds:
    """All waiting pulls, found by queue when a message arrives and by deadline when none does.

    `serve_again(pull, expired)` runs the pull once more and answers it; False means that it still
    found nothing that its filter wants and waits on. `clock_ms` must never go back.
    """

    def __init__(
        self,
        serve_again: "Callable[[Pull, bool], bool]",
        clock_ms: Callable[[], int],
        held_max: int,
    ) -> None:
        self._serve_again = serve_again
        self._clock_ms = clock_ms
        self._held_max = held_max
        self._sweeps: dict[int, set[HeldPull]] = {}
        self._next_sweep = clock_ms() // SWEEP_INTERVAL_MS
        self.count = 0

    def hold(self, pull: "Pull", queue: TopicQueue, timeout_ms: int) -> bool:
        """Keep a pull until a message arrives, or for `timeout_ms`; False when too many wait."""
        if self.count >= self._held_max:
            return False
        sweep = max((self._clock_ms() + timeout_ms) // SWEEP_INTERVAL_MS, self._next_sweep)
        held = HeldPull(pull, queue, sweep)
        queue.holds.append(held)
        self._sweeps.setdefault(sweep, set()).add(held)
        self.count += 1
        return True

    def wake(self, queues: list[TopicQueue]) -> None:
        """Messages arrived in `queues` (repeats allowed): serve those who wait for them."""
        for queue in queues:
            waiting = queue.holds
            if not waiting:
                continue
            queue.holds = []
            for held in waiting:
                if held.pull.connection.closed or self._serve_again(held.pull, False):
                    self._forget(held)
                else:
                    queue.holds.append(held)

    def sweep(self) -> None:
        """Answer the pulls whose time is up; to be called every SWEEP_INTERVAL_MS."""
        due = self._clock_ms() // SWEEP_INTERVAL_MS
        while self._next_sweep < due:
            expired = self._sweeps.pop(self._next_sweep, None)
            self._next_sweep += 1
            for held in expired or ():
                held.queue.holds.remove(held)
                self.count -= 1
                if not held.pull.connection.closed:
                    self._serve_again(held.pull, True)

    def release(self, queue: TopicQueue) -> None:
        """Answer everybody who waits on a queue that goes away."""
        waiting, queue.holds = queue.holds, []
        for held in waiting:
            self._forget(held)
            if not held.pull.connection.closed:
                self._serve_again(held.pull, True)

    def _forget(self, held: HeldPull) -> None:
        self.count -= 1
        waiting = self._sweeps.get(held.sweep)
        if waiting is not None:
            waiting.discard(held)
            if not waiting:
                del self._sweeps[held.sweep]
