"""A bounded number of workers that take what is ready, in the order in which it came."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from aerobee.remoting.net.tasks import Tasks

TURN_S: Final = 0.002  # handlers that never wait give the event loop a turn after so long
CANCELLED_S: Final = 10.0  # how long `close` waits for handlers that do not mind their cancellation
REPLACED_S: Final = 0.1  # after the end of a worker; a loop that is closed has ended until then

W = TypeVar("W")


class Workers(ABC, Generic[W]):
    """Up to `concurrency` tasks over one queue of work; a subclass says what a worker does.

    There is no task per message: a worker takes one after the other, and while it waits for
    something the next worker goes on. A worker that found work calls `_wake` before it may wait.
    One that ends before the close, for whatever reason, makes room for another.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._ready: deque[W] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._waking = False  # a worker was woken and has not run yet
        self._count = 0
        self._closed = False
        self._tasks = Tasks()
        self._spared: set[asyncio.Task[Any]] = set()  # workers that `close` lets end by themselves
        self._timers: set[asyncio.TimerHandle] = set()

    @abstractmethod
    async def _work(self) -> None:
        """Take what is ready, and park when there is nothing, until the close."""

    async def close(self) -> None:
        """Stop at once: nothing begins any more, and what runs is cancelled, but for the spared."""
        self._closed = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._ready.clear()
        await self._tasks.close(spared=self._spared, timeout_s=CANCELLED_S)

    def _add(self, work: W) -> None:
        """Let work wait for a worker."""
        self._ready.append(work)
        self._wake()

    def _add_later(self, work: W, seconds: float) -> None:
        """Let work wait for a worker, `seconds` from now."""
        self._later(seconds, lambda: self._add(work))

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        if self._closed:
            return

        def due() -> None:
            self._timers.discard(timer)
            action()

        timer = asyncio.get_running_loop().call_later(seconds, due)
        self._timers.add(timer)

    def _wake(self) -> None:
        """See to it that one more worker looks for work."""
        if self._waking or self._closed:
            return
        while self._idle:
            parked = self._idle.pop()
            if not parked.done():  # else its worker was cancelled there
                self._waking = True
                parked.set_result(None)
                return
        if self._count < self._concurrency:
            self._waking = True
            self._count += 1
            self._tasks.start(self._live(), "handler")

    async def _live(self) -> None:
        """Work, and let another worker begin where this one ends."""
        try:
            await self._work()
        finally:
            self._count -= 1
            self._waking = False  # it may have been this one that was woken
            self._later(REPLACED_S, self._replace)

    def _replace(self) -> None:
        if self._ready:
            self._wake()

    async def _park(self) -> bool:
        """Wait until there is something ready; False when there will be nothing any more."""
        while not self._ready and not self._closed:
            parked = asyncio.get_running_loop().create_future()
            self._idle.append(parked)
            await parked
            self._waking = False
        return not self._closed
