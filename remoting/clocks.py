"""The two clocks of the project, in milliseconds; whoever needs one is given it, so tests can."""

import time


def wall_clock_ms() -> int:
    """Return milliseconds since 1970, as records and headers carry them."""
    return time.time_ns() // 1_000_000


def steady_clock_ms() -> int:
    """Return milliseconds of a clock that never goes back, from an arbitrary start."""
    return time.monotonic_ns() // 1_000_000
