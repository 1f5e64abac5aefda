"""Virtual time without an event loop: what is due happens when somebody lets time pass."""

import heapq
from collections.abc import Callable, Sequence

from aerobee.storage.disk.files import wait_readable

EPOCH_S = 1_772_000_000  # what wall clocks show when a run begins


class Clock:
    """Seconds since the run began, and what is to happen at which of them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    def monotonic(self) -> float:
        """Return what `time.monotonic` is to return."""
        return self.now_s

    def time(self) -> float:
        """Return what `time.time` is to return."""
        return EPOCH_S + self.now_s

    def after(self, delay_s: float, do: Callable[[], object]) -> None:
        """Have something done a while from now."""
        self._count += 1
        heapq.heappush(self._events, (self.now_s + delay_s, self._count, do))

    def advance(self, seconds: float) -> None:
        """Let time pass, with all that happens meanwhile."""
        ends_s = self.now_s + seconds
        while self._events and self._events[0][0] <= ends_s:
            self.step()
        self.now_s = max(self.now_s, ends_s)

    def step(self) -> bool:
        """Jump to what happens next; False if nothing ever will."""
        if not self._events:
            return False
        at_s, _, do = heapq.heappop(self._events)
        self.now_s = max(self.now_s, at_s)
        do()
        return True

    def forget(self) -> None:
        """Let nothing happen of what was to come: the machine is off."""
        self._events.clear()

    @staticmethod
    def readable(fds: Sequence[int]) -> list[int]:
        """Return which file numbers are readable."""
        return wait_readable(fds, 0)

    def wait_readable(self, fds: Sequence[int], timeout_s: float) -> list[int]:
        """Wait as the product's `wait_readable` does, in virtual time."""
        ends_s = self.now_s + max(0.0, timeout_s)
        while True:
            if ready := self.readable(fds):
                return ready
            if not self._events or self._events[0][0] > ends_s:
                self.now_s = max(self.now_s, ends_s)
                return []
            self.step()
