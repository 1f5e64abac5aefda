"""Whether the wall clock can be believed where something is removed by its age."""

import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

STEP_S: Final = 3600.0  # more than that is no correction but another time
REST_S: Final = 3600.0


class WallTime:
    """The time by which files and messages are old; it rests for an hour after a step forward.

    A clock that is set years ahead by mistake makes everything old at once. So after a step of
    more than an hour against the steady clock nothing is old until an hour has passed, in which
    somebody may set it right; what a machine has slept counts as a step. A step backward makes
    nothing older. Not seen is what the clock did while no store was open.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        steady_clock: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock or time.time
        self._steady_clock = steady_clock or time.monotonic
        self._rests_until_s = self._steady_clock()
        self._ahead_s = self._clock() - self._rests_until_s

    def now(self) -> float | None:
        """Return seconds since 1970, None while the clock is not believed; called now and then."""
        wall_s, steady_s = self._clock(), self._steady_clock()
        ahead_s = wall_s - steady_s
        step_s, self._ahead_s = ahead_s - self._ahead_s, ahead_s
        if step_s > STEP_S:
            self._rests_until_s = steady_s + REST_S
            log.error("clock_stepped seconds=%.0f removes_by_age_in_seconds=%.0f", step_s, REST_S)
        elif step_s < -STEP_S:  # set right again
            self._rests_until_s = steady_s
        return wall_s if steady_s >= self._rests_until_s else None
