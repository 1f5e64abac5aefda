"""Threads that wait for the disk in place of the loop, shared fairly among groups."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from aerobee.broker.cold.threads import DiskThreads
from aerobee.broker.settings.live import Live
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

T = TypeVar("T")

UNSENT_LOOK_S: Final = 0.02  # how often peers are looked at that did not take their replies


class _Read(msgspec.Struct, eq=False):
    """One read that waits for a thread, or is in one."""

    group: str
    work: Callable[[], Any]
    bytes_max: int
    done: Callable[[Any, Exception | None], None]
    peer: Connection | None
    still_wanted: Callable[[], bool]


class ColdReads:
    """Runs reads of what is not in memory: for groups in turn, for each in the order it asked.

    `coldReadThreads` run at once, one of a group and one of a connection, and their bytes together
    stay below `coldReadBytesMax` (a single larger read runs alone). So a connection's reads, too,
    are answered in the order it asked for them, whatever their groups; while it does not take its
    replies none is begun for it. `coldReadsMax` may wait in all, a sixteenth of them of one group;
    what waits holds no bytes. What a read raises is its outcome.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, live: Live) -> None:
        self._loop = loop
        self._live = live
        self._threads = DiskThreads(live.current.cold_read_threads)
        self._waiting: dict[str, deque[_Read]] = {}  # groups, the next in turn first
        self._of: dict[Connection, deque[_Read]] = {}  # waiting and running, the oldest first
        self._running: set[str] = set()
        self._running_bytes = 0
        self._look: asyncio.TimerHandle | None = None
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
        peer: Connection | None = None,
        still_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Run `work` in a thread and call `done` with its result, or error, on the loop.

        It is left out, without a call, if its peer has gone, or it is not `still_wanted`, when its
        turn comes. Raises RequestError (SYSTEM_BUSY) when too many wait, or no thread can be had.
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
        if not self._threads.count and not self._threads.has_room(0):
            raise RequestError(
                ResponseCode.SYSTEM_BUSY, "the broker can start no thread to wait for its disk"
            )
        read = _Read(group, work, bytes_max, done, peer, still_wanted)
        self._waiting.setdefault(group, deque()).append(read)
        if peer is not None:
            self._of.setdefault(peer, deque()).append(read)
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

        self.begin(group, work, bytes_max, done, None, lambda: not outcome.done())
        result: T = await outcome
        return result

    def closed(self, peer: Connection) -> None:
        """Forget the reads of a connection that is gone, or they take others' room."""
        for group in {read.group for read in self._of.pop(peer, ())}:
            waiting = self._waiting.get(group, deque())
            kept = deque(read for read in waiting if read.peer is not peer)
            self.waiting -= len(waiting) - len(kept)
            if kept:
                self._waiting[group] = kept
            else:
                self._waiting.pop(group, None)

    def close(self) -> None:
        """Begin no more reads; those under way end by themselves, and nobody hears of them."""
        self._closed = True
        self._waiting.clear()
        self._of.clear()
        self.waiting = 0
        if self._look is not None:
            self._look.cancel()
        self._threads.close()

    def _go_on(self) -> None:
        """Give free threads to the groups in turn."""
        settings, unsent = self._live.current, False
        if len(self._running) >= self._threads.count_max:
            return  # the next that ends comes back
        for group in list(self._waiting):
            if group in self._running:
                continue
            read = self._first(group)
            if read is None:
                continue
            if (peer := read.peer) is not None:
                if self._of[peer][0] is not read:
                    continue  # it asked for something else before
                if peer in peer.budget.unsent:
                    unsent = True
                    continue
            if self._running and (
                self._running_bytes + read.bytes_max > settings.cold_read_bytes_max
            ):
                break  # nobody overtakes it
            if not self._threads.has_room(len(self._running)):
                break
            self._start(read)
        if unsent and self._look is None:
            self._look = self._loop.call_later(UNSENT_LOOK_S, self._look_again)

    def _look_again(self) -> None:
        """See whether those that did not take their replies do now."""
        self._look = None
        self._go_on()

    def _first(self, group: str) -> _Read | None:
        """Return the next read of a group that is still wanted; the others are forgotten."""
        reads = self._waiting[group]
        while reads and not reads[0].still_wanted():
            self._leave(reads.popleft())
            self.waiting -= 1
        if reads:
            return reads[0]
        del self._waiting[group]
        return None

    def _start(self, read: _Read) -> None:
        reads = self._waiting.pop(read.group)
        reads.popleft()
        if reads:
            self._waiting[read.group] = reads  # behind the others
        self.waiting -= 1
        self._running.add(read.group)
        self._running_bytes += read.bytes_max
        self.begun += 1
        self._threads.put(partial(self._work, read))

    def _work(self, read: _Read) -> None:
        """Do it; this is the thread's part."""
        result, failure = None, None
        try:
            result = read.work()
        except Exception as error:  # noqa: BLE001  it is the outcome
            failure = error
        except BaseException as error:  # noqa: BLE001  or its group would never be read for again
            failure = RuntimeError(f"{type(error).__name__}: {error}")
        try:
            self._loop.call_soon_threadsafe(partial(self._ended, read, result, failure))
        except RuntimeError:  # the loop is no more, and with it whoever waited
            log.debug("cold_read_unheard group=%s", read.group)

    def _ended(self, read: _Read, result: Any, error: Exception | None) -> None:
        self._running.discard(read.group)
        self._running_bytes -= read.bytes_max
        self.failed += error is not None
        if self._closed:
            return
        self._leave(read)
        if read.group in self._waiting:  # it had its turn
            self._waiting[read.group] = self._waiting.pop(read.group)
        try:
            read.done(result, error)
        finally:
            self._go_on()

    def _leave(self, read: _Read) -> None:
        """Let the next read of its connection be the oldest."""
        if read.peer is None or (reads := self._of.get(read.peer)) is None:
            return
        reads.remove(read)  # it is the first, but for one that is not wanted any more
        if not reads:
            del self._of[read.peer]
