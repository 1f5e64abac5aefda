"""A large file on its way to the disk, past the page cache if that works.

What an export writes is read by others, later: in the page cache it would take the place of the
log's end, which the broker serves from there. And a copy into fresh pages is up to half of the
CPU time that writing takes.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections import deque
from pathlib import Path
from typing import Any
from weakref import finalize

from aerobee.spark.lake.disk import DISK, Disk

BLOCK_BYTES = 1 << 20  # of a write
ALIGNED_BYTES = 4096  # in memory and in the file, for all disks there are
_DIRECT = getattr(os, "O_DIRECT", 0)
_spare: deque[mmap.mmap] = deque(maxlen=1)  # a block, its pages at hand, for whoever writes next


class SyncedFile:
    """A new file that is written from its start to its end; `direct` is past the page cache.

    Whole blocks go out as they fill; the rest of them with `drain`, but for less than
    ALIGNED_BYTES, and all with `close`, after which the content is on the disk. Holds BLOCK_BYTES
    between a write and the next `drain`. Raises OSError.
    """

    def __init__(self, path: Path, disk: Disk = DISK, *, direct: bool = True) -> None:
        self._disk = disk
        self._handle = _opened(path, disk, _DIRECT if direct else 0)
        self._direct = bool(fcntl.fcntl(self._handle, fcntl.F_GETFL) & _DIRECT)
        self._end = finalize(self, disk.close, self._handle)  # also if nobody closes it
        self._block: mmap.mmap | None = None  # memory that begins with a page
        self._rest = b""
        self._filled = 0  # bytes of the block
        self._written = 0

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return not self._end.alive

    def tell(self) -> int:
        """How many bytes it has, those that wait included."""
        return self._written + self._filled

    def flush(self) -> None:
        """Do nothing: blocks go out when they are full."""

    def write(self, data: Any) -> int:
        """Add some bytes."""
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            block = self._ready_block()
            count = min(BLOCK_BYTES - self._filled, len(view) - at)
            block[self._filled : self._filled + count] = view[at : at + count]
            self._filled += count
            at += count
            if self._filled == BLOCK_BYTES:
                self._put(BLOCK_BYTES)
        return at

    def drain(self) -> None:
        """Write what waits, but for an end that fills no page, and let others have the memory."""
        self._put(self._filled // ALIGNED_BYTES * ALIGNED_BYTES)
        if self._block is not None:
            self._rest = self._block[: self._filled]
            _spare.append(self._block)
            self._block = None

    def close(self) -> None:
        """Write the rest and bring the content to the disk."""
        if self.closed:
            return
        try:
            self.drain()
            self._buffered()
            self._write(memoryview(self._rest))
            self._disk.fsync(self._handle)
        finally:
            self._end()

    def _ready_block(self) -> mmap.mmap:
        if self._block is None:
            try:
                self._block = _spare.pop()
            except IndexError:
                self._block = mmap.mmap(-1, BLOCK_BYTES)
            self._block[: len(self._rest)] = self._rest
        return self._block

    def _put(self, count: int) -> None:
        """Write the first `count` bytes of the block; the others become its first."""
        if not count or self._block is None:
            return
        with memoryview(self._block) as view:
            self._write(view[:count])
        self._written += count
        self._filled -= count
        self._block[: self._filled] = self._block[count : count + self._filled]

    def _write(self, data: memoryview) -> None:
        while len(data):
            try:
                count = self._disk.write(self._handle, data)
            except OSError as error:
                if error.errno != errno.EINVAL or not self._direct:
                    raise
                self._buffered()  # a disk with other blocks, or the rest of one
                continue
            data = data[count:]

    def _buffered(self) -> None:
        """Write through the page cache from now on."""
        if self._direct:
            self._direct = False
            flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
            fcntl.fcntl(self._handle, fcntl.F_SETFL, flags & ~_DIRECT)


def _opened(path: Path, disk: Disk, direct: int) -> int:
    try:
        return disk.open(path, os.O_EXCL | direct)
    except OSError as error:
        if error.errno != errno.EINVAL or not direct:
            raise
        if disk.exists(path):
            disk.remove(path)  # some file systems make the file first and refuse then
        return disk.open(path, os.O_EXCL)
