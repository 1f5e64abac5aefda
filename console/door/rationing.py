"""How often somebody may do something: tokens that come back with time."""

import time
from collections.abc import Callable
from typing import Final

CALLERS_MAX: Final = 10_000
"""Callers that are remembered; with more the one that came longest ago is forgotten."""


class Rations:
    """Gives each caller `burst` tokens, and `per_s` a second afterwards."""

    def __init__(
        self, burst: int, per_s: float, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst = burst
        self._per_s = per_s
        self._clock_s = clock_s
        self._left: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        """Return how many callers are remembered."""
        return len(self._left)

    def take(self, caller: str) -> float:
        """Take a token; return 0.0, or where there is none after how many seconds there is."""
        now_s = self._clock_s()
        left, at_s = self._left.pop(caller, (float(self._burst), now_s))
        left = min(self._burst, left + (now_s - at_s) * self._per_s)
        wait_s = 0.0 if left >= 1 else (1 - left) / self._per_s
        if not wait_s:
            left -= 1
        while len(self._left) >= CALLERS_MAX:
            del self._left[next(iter(self._left))]
        self._left[caller] = left, now_s
        return wait_s
