"""Time that passes only when a test says so, and timers that fire then."""

import heapq
from collections.abc import Callable
from itertools import count


class VirtualTimer:
    """One call that is to come."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Let it not happen."""
        self.call = None


class VirtualTime:
    """A clock in milliseconds with `later`, as loops have it."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms
        self._order = count()
        self._timers: list[tuple[int, int, VirtualTimer]] = []

    def clock_ms(self) -> int:
        """Return the time."""
        return self.now_ms

    def later(self, delay_s: float, call: Callable[[], object]) -> VirtualTimer:
        """Call `call` after `delay_s` seconds."""
        timer = VirtualTimer(call)
        at_ms = self.now_ms + round(delay_s * 1000)
        heapq.heappush(self._timers, (at_ms, next(self._order), timer))
        return timer

    def advance(self, ms: int) -> None:
        """Let time pass, and happen what is due meanwhile, each at its time."""
        until_ms = self.now_ms + ms
        while self._timers and self._timers[0][0] <= until_ms:
            at_ms, _, timer = heapq.heappop(self._timers)
            self.now_ms = max(self.now_ms, at_ms)
            if timer.call is not None:
                timer.call()
        self.now_ms = until_ms

    @property
    def pending(self) -> int:
        """How many calls are to come."""
        return sum(timer.call is not None for *_, timer in self._timers)
