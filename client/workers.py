"""A bounded number of workers that take what is ready, in the order in which it came."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Final, Generic, TypeVar

from aerobee.remoting.net.tasks import Tasks

TURN_S: Final = 0.002  # handlers that never wait give the event loop a turn after so long

W = TypeVar("W")


class Workers(ABC, Generic[W]):
    """Up to `concurrency` tasks over one queue of work; a subclass says what a worker does.

    There is no task per message: a worker takes one after the other, and while it waits for
    something the next worker goes on. A worker that found work calls `_wake` before it may wait.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._ready: deque[W] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._waking = False  # a worker was woken and has not run yet
        self._count = 0
        self._tasks = Tasks()
        self._timers: set[asyncio.TimerHandle] = set()

    @abstractmethod
    async def _work(self) -> None:
        """Take what is ready, and park when there is nothing, for ever."""

    async def close(self) -> None:
        """Stop at once: nothing begins any more, and what runs is cancelled."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._ready.clear()
        await self._tasks.close()

    def _add(self, work: W) -> None:
        """Let work wait for a worker."""
        self._ready.append(work)
        self._wake()

    def _add_later(self, work: W, seconds: float) -> None:
        """Let work wait for a worker, `seconds` from now."""

        def due() -> None:
            self._timers.discard(timer)
            self._add(work)

        timer = asyncio.get_running_loop().call_later(seconds, due)
        self._timers.add(timer)

    def _wake(self) -> None:
        """See to it that one more worker looks for work."""
        if self._waking:
            return
        if self._idle:
            self._waking = True
            self._idle.pop().set_result(None)
        elif self._count < self._concurrency:
            self._waking = True
            self._count += 1
            self._tasks.start(self._work(), "handler")

    async def _park(self) -> None:
        """Wait until there is something ready."""
        while not self._ready:
            parked = asyncio.get_running_loop().create_future()
            self._idle.append(parked)
            await parked
            self._waking = False
