"""Who works on what was handed out, so that it is known when that is consumed."""

import asyncio
from contextvars import ContextVar
from typing import Final, Protocol


class Taker(Protocol):
    """Who works on what was handed out: a task, or a thread that waits for one."""

    def done(self) -> bool:
        """Whether it has ended, and with it the work."""
        ...


TAKER: Final[ContextVar[Taker | None]] = ContextVar("taker", default=None)
"""In whose name a task asks, where that is not its own."""


def taker() -> Taker | None:
    """Return who asks."""
    return TAKER.get() or asyncio.current_task()
