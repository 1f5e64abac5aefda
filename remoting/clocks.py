"""The two clocks of the project, in milliseconds; whoever needs one is given it, so tests can."""

import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

LATE_INTERVALS: Final = 2  # after so many a look says nothing of those it looks at


def wall_clock_ms() -> int:
    """Return milliseconds since 1970, as records and headers carry them."""
    return time.time_ns() // 1_000_000


def steady_clock_ms() -> int:
    """Return milliseconds of a clock that never goes back, from an arbitrary start."""
    return time.monotonic_ns() // 1_000_000


class LateLooks:
    """Tells a look for silent peers that comes late from one that may be believed.

    A process that was stopped or starved has not heard what its peers said meanwhile: it waits in
    sockets. So the look after a pause of more than two intervals is to do nothing, and the next
    one, when the sockets have been read for an interval, counts. It always does, so that a process
    which is late all the time forgets the dead, too. `clock_ms` never goes back.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._looked_ms = clock_ms()
        self.late = False  # the last look was

    def begin(self) -> None:
        """Looks begin now."""
        self._looked_ms = self._clock_ms()

    def is_late(self, interval_ms: int, what: str) -> bool:
        """Note a look that should come every `interval_ms`; whether it is to do nothing."""
        now_ms, before_ms = self._clock_ms(), self._looked_ms
        self._looked_ms = now_ms
        self.late = not self.late and now_ms - before_ms > LATE_INTERVALS * interval_ms
        if self.late:
            log.warning(
                "this process was stopped or starved: %s are looked at after_ms=%d interval_ms=%d;"
                " nobody expires before the next look", what, now_ms - before_ms, interval_ms,
            )  # fmt: skip
        return self.late
