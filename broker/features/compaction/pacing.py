"""Threads of copies and rounds: beside the loop, and never for long at a time."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from aerobee.broker.cold.threads import DiskThreads

T = TypeVar("T")

WORK_S: Final = 0.0005  # of a round at a time: as long the loop may have to wait for it
REST: Final = 3.0  # times as long it rests then


class Stopped(Exception):
    """The broker stops: a round leaves off."""


class Threads:
    """So many threads; `done` is called on the loop with what the work returned or raised."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = DiskThreads(count)
        self.running = 0
        self.closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def run(
        self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]
    ) -> bool:
        """Have it done; False when no thread can be had."""
        if self.closed or not (self._threads.has_room(self.running) or self._threads.count):
            return False
        self.running += 1
        self._idle.clear()
        self._threads.put(partial(self._work, work, done))
        return True

    async def idle(self) -> None:
        """Return when nothing is under way."""
        await self._idle.wait()

    def close(self) -> None:
        """Begin nothing more; nobody hears of what is under way."""
        self.closed = True
        self._threads.close()

    def _work(
        self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]
    ) -> None:
        result: T | None = None
        failure: Exception | None = None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  it is the outcome
            failure = error
        try:
            self._loop.call_soon_threadsafe(self._ended, done, result, failure)
        except RuntimeError:  # the loop is no more
            self.running -= 1

    def _ended(
        self,
        done: Callable[[T | None, Exception | None], None],
        result: T | None,
        failure: Exception | None,
    ) -> None:
        self.running -= 1
        if not self.running:
            self._idle.set()
        done(result, failure)


class Pacer:
    """What a round calls every some records: it rests after WORK_S of work, and ends at a stop."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        self._began_s = time.perf_counter()

    def __call__(self) -> None:
        """Rest, where it is time to."""
        if self._stopped():
            raise Stopped
        worked_s = time.perf_counter() - self._began_s
        if worked_s >= WORK_S:
            time.sleep(min(worked_s * REST, 0.05))
            self._began_s = time.perf_counter()
