"""Wait for a condition with a deadline, never for a guessed time."""

import asyncio
import time
from collections.abc import Callable


async def until(
    condition: Callable[[], object], timeout_s: float = 10.0, what: str = "the condition"
) -> None:
    """Return as soon as `condition()` is true; fail after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} did not hold within {timeout_s:g} s"
        await asyncio.sleep(0.005)
