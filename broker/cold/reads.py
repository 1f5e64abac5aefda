"""Threads that wait for the disk in place of the loop, shared fairly among groups."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from aerobee.broker.live import Live
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class _Read:
    """One read that waits for a thread."""

    work: Callable[[], Any]
    bytes_max: int
    done: Callable[[Any, Exception | None], None]
    still_wanted: Callable[[], bool]


class ColdReads:
    """Runs reads of what is not in memory, for groups in turn and for each in the order it asked.

    `coldReadThreads` run at once, one of a group, and their bytes together stay below
    `coldReadBytesMax` (a single larger read runs alone). `coldReadsMax` may wait in all, a
    sixteenth of them of one group; what waits holds no bytes. What a read raises is its outcome.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, live: Live) -> None:
        self._loop = loop
        self._live = live
        self._pool: ThreadPoolExecutor | None = None  # most brokers never read what is cold
        self._waiting: dict[str, deque[_Read]] = {}  # groups, the next in turn first
        self._running: set[str] = set()
        self._running_bytes = 0
        self._closed = False
        self.waiting = 0
        self.begun = 0
        self.failed = 0

    def begin(
        self,
        group: str,
        work: Callable[[], T],
        bytes_max: int,
        done: Callable[[T | None, Exception | None], None],
        still_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Run `work` in a thread and call `done` with its result, or error, on the loop.

        It is left out, without a call, if it is not `still_wanted` when its turn comes. Raises
        RequestError (SYSTEM_BUSY) when too many wait.
        """
        reads_max = self._live.current.cold_reads_max
        of_group = self._waiting.get(group)
        if (
            self._closed
            or self.waiting >= reads_max
            or (of_group is not None and len(of_group) >= max(1, reads_max // 16))
        ):
            raise RequestError(
                ResponseCode.SYSTEM_BUSY, "too many reads wait for the broker's disk (coldReadsMax)"
            )
        self._waiting.setdefault(group, deque()).append(_Read(work, bytes_max, done, still_wanted))
        self.waiting += 1
        self._go_on()

    async def run(self, group: str, work: Callable[[], T], bytes_max: int = 0) -> T:
        """Return what `work` returns, or raise what it raises; for requests that wait."""
        outcome: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Any, error: Exception | None) -> None:
            if outcome.done():
                return
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)

        self.begin(group, work, bytes_max, done, lambda: not outcome.done())
        result: T = await outcome
        return result

    def close(self) -> None:
        """Begin no more reads; those under way end by themselves, and nobody hears of them."""
        self._closed = True
        self._waiting.clear()
        self.waiting = 0
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _go_on(self) -> None:
        """Give free threads to the groups in turn."""
        settings = self._live.current
        for group in list(self._waiting):
            if len(self._running) >= settings.cold_read_threads:
                return
            if group in self._running:
                continue
            read = self._next_of(group)
            if read is None:
                continue
            if self._running and (
                self._running_bytes + read.bytes_max > settings.cold_read_bytes_max
            ):
                reads = self._waiting.pop(group, deque())
                reads.appendleft(read)
                self._waiting = {group: reads, **self._waiting}  # it is the next in turn
                self.waiting += 1
                return
            self._start(group, read)

    def _next_of(self, group: str) -> _Read | None:
        """Take the next read of a group that is still wanted; the group goes to the end."""
        reads = self._waiting.pop(group)
        while reads:
            read = reads.popleft()
            self.waiting -= 1
            if read.still_wanted():
                if reads:
                    self._waiting[group] = reads
                return read
        return None

    def _start(self, group: str, read: _Read) -> None:
        if self._pool is None:
            threads = self._live.current.cold_read_threads
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cold-read")
        self._running.add(group)
        self._running_bytes += read.bytes_max
        self.begun += 1
        self._pool.submit(self._work, group, read)

    def _work(self, group: str, read: _Read) -> None:
        """Do it; this is the thread's part."""
        result, failure = None, None
        try:
            result = read.work()
        except Exception as error:  # noqa: BLE001  it is the outcome
            failure = error
        try:
            self._loop.call_soon_threadsafe(partial(self._ended, group, read, result, failure))
        except RuntimeError:  # the loop is no more, and with it whoever waited
            log.debug("cold_read_unheard group=%s", group)

    def _ended(self, group: str, read: _Read, result: Any, error: Exception | None) -> None:
        self._running.discard(group)
        self._running_bytes -= read.bytes_max
        self.failed += error is not None
        if self._closed:
            return
        if group in self._waiting:  # it had its turn
            self._waiting[group] = self._waiting.pop(group)
        try:
            read.done(result, error)
        finally:
            self._go_on()
