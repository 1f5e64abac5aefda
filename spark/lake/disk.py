"""How an export's files reach the disk: the content of each, the names in folders, large files.

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

BLOCK_BYTES = 1 << 20  # of a write
ALIGNED_BYTES = 4096  # in memory and in the file, for all disks there are
_DIRECT = getattr(os, "O_DIRECT", 0)
_spare: deque[mmap.mmap] = deque(maxlen=1)  # a block, its pages at hand, for whoever writes next


def sync(path: Path) -> None:
    """Bring a file's content, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and bring it, but not its name, to the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


class DirectFile:
    """A new file that is written from its start to its end, past the page cache if that works.

    Whole blocks go out as they fill; the rest of them with `drain`, but for less than
    ALIGNED_BYTES, and all with `close`, after which the content is on the disk. Holds BLOCK_BYTES
    between a write and the next `drain`. Raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self._file = _opened(path)
        self._direct = bool(fcntl.fcntl(self._file, fcntl.F_GETFL) & _DIRECT)
        self._block: mmap.mmap | None = None  # memory that begins with a page
        self._rest = b""
        self._filled = 0  # bytes of the block
        self._written = 0

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return bool(self._file.closed)

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
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

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
                count = os.write(self._file.fileno(), data)
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
            flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~_DIRECT)


def _opened(path: Path) -> Any:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        handle = os.open(path, flags | _DIRECT, 0o666)
    except OSError as error:
        if error.errno != errno.EINVAL or not _DIRECT:
            raise
        path.unlink(missing_ok=True)  # some file systems make the file first and refuse then
        handle = os.open(path, flags, 0o666)
    return open(handle, "wb", buffering=0)  # noqa: PTH123 - closed when nobody has it
