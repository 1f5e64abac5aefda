"""Wait for a condition with a deadline, never for a guessed time."""

import asyncio
import select
import time
from collections.abc import Callable
from typing import Protocol


async def until(
    condition: Callable[[], object], timeout_s: float = 30.0, what: str = "the condition"
) -> None:
    """Return as soon as `condition()` is true; fail after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} did not hold within {timeout_s:g} s"
        await asyncio.sleep(0.005)


class HasFileNumber(Protocol):
    """What a file number can be had of."""

    def fileno(self) -> int:
        """Return the number."""
        ...


def readable(source: HasFileNumber | int, timeout_s: float) -> bool:
    """Tell whether there is something to read within `timeout_s`, whatever its file number."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
