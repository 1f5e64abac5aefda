"""How much of the log the kernel keeps in memory: what is old enough makes room for what comes.

A log that only grows takes ever more of the page cache, and the first touch of a fresh page costs
far more than that of one which was just given up, most of all on virtual machines.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from aerobee.storage.disk.residency import unmap_pages
from aerobee.storage.disk.worker import Job
from aerobee.storage.log.allocator import Allocator
from aerobee.storage.log.commit_log import CommitLog
from aerobee.storage.log.segment import Segment
from aerobee.storage.log.segments import Segments
from aerobee.storage.settings import MIB, StoreSettings

STRETCH_BYTES: Final = 64 * MIB


class _Stretch(msgspec.Struct, frozen=True):
    segment: Segment
    at: int
    until: int


class LogCache:
    """Has the helper let go of the log's pages, once each, behind whoever writes and reads.

    Kept are the last `log_cache_bytes`, what the disk does not have, and what lies behind
    `wanted_from()`. What is let go of is read from the disk by who wants it after all. Nothing is
    let go of after a failed write or sync: memory may have the only copy. Pages that are mapped
    stay, so they are taken out of our map before, by `run`, beside the loop: after other file work.
    """

    def __init__(
        self,
        settings: StoreSettings,
        segments: Segments,
        commit_log: CommitLog,
        allocator: Allocator,
        run: Callable[[Job], None],
    ) -> None:
        self._keep_bytes = settings.log_cache_bytes
        self._stretch_bytes = min(STRETCH_BYTES, settings.segment_bytes)
        self._segments = segments
        self._log = commit_log
        self._allocator = allocator
        self._run = run
        self._begin = -1  # of the next stretch; what an earlier process left is not looked at
        self._found: _Stretch | None = None  # is being taken out of our map, or has been
        self._unmapped = True
        self.wanted_from: Callable[[], int] = lambda: commit_log.committed

    def tick(self) -> None:
        """Let go of what may go now."""
        if not self._keep_bytes or not self._log.writable:
            return
        if (found := self._found) is not None:
            if not self._unmapped:
                return
            if not self._allocator.drop_cache(found.segment, found.at, found.until):
                return  # the helper has something to do still
            self._found = None
        if (found := self._next()) is None:
            return
        self._begin = found.segment.base + found.until
        self._found = found
        if (memory := found.segment.mapped) is not None:
            self._unmapped = False
            self._run(partial(self._unmap, memory, found))

    def _unmap(self, memory: memoryview, found: _Stretch) -> None:
        try:
            unmap_pages(memory, found.at, found.until - found.at)
        finally:
            self._unmapped = True

    def _next(self) -> _Stretch | None:
        """Return what may go next of one file, in whole stretches or up to its end."""
        log, stretch = self._log, self._stretch_bytes
        if self._begin < 0:
            self._begin = log.committed
        end = min(log.flushed_position, log.committed - self._keep_bytes)
        if end - self._begin < stretch:
            return None
        end = min(end, self.wanted_from())
        begin = max(self._begin, self._segments.begin)
        segment = self._segments.find(begin)
        if segment is None:
            return None
        at = (begin - segment.base) // stretch * stretch
        until = segment.size
        if end < segment.end:
            until = (end - segment.base) // stretch * stretch
        return _Stretch(segment, at, until) if at < until else None
