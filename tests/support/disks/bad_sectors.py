"""A disk with sectors that cannot be read: by calls it is EIO, through a map the process's end."""

import ctypes
import errno
import mmap
import os
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.maps import _address

PAGE: Final = 4096
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class BadSectors(Files):
    """Real files of which some pages are never read; written whole, a page is sound again."""

    def __init__(self) -> None:
        self.bad: set[tuple[Path, int]] = set()
        self.refused = 0

    def spoil(self, path: Path, at: int, count: int = 1) -> None:
        """Let the pages of some bytes of a file go bad."""
        pages = range(at // PAGE, (at + count - 1) // PAGE + 1)
        self.bad |= {(path.resolve(), page) for page in pages}

    def read(self, fd: int, count: int, at: int) -> bytes:
        """Read, or refuse."""
        self._check(self._path(fd), at, count)
        return super().read(fd, count, at)

    def read_all(self, path: Path, bytes_max: int) -> bytes | None:
        """Read a small file, or refuse."""
        if path.exists():
            self._check(path.resolve(), 0, min(bytes_max, path.stat().st_size))
        return super().read_all(path, bytes_max)

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Write; a part of a page would have to be read first."""
        path, end = self._path(fd), at + len(data)
        for page in range(at // PAGE, (end - 1) // PAGE + 1):
            if at <= page * PAGE and end >= (page + 1) * PAGE:
                self.bad.discard((path, page))
        self._check(path, at, len(data))
        super().write(fd, data, at)

    def replace(self, source: Path, target: Path) -> None:
        """Rename; bad pages are those of a file, not of its name."""
        moved = {(target.resolve(), page) for path, page in self.bad if path == source.resolve()}
        gone = {source.resolve(), target.resolve()}
        super().replace(source, target)
        self.bad = {each for each in self.bad if each[0] not in gone} | moved

    def map(self, fd: int, size: int, *, write: bool) -> mmap.mmap:
        """Map a file; to touch a bad page is the end, and a copy by the kernel is refused."""
        memory = super().map(fd, size, write=write)
        for path, page in self.bad:
            if path == self._path(fd) and page * PAGE < size:
                begin = ctypes.c_void_p(_address(memory) + page * PAGE)
                assert not _LIBC.mprotect(begin, ctypes.c_size_t(PAGE), 0)
        return memory

    def _path(self, fd: int) -> Path:
        return Path(f"/proc/self/fd/{fd}").readlink()

    def _check(self, path: Path, at: int, count: int) -> None:
        if count and any((path, page) in self.bad
                         for page in range(at // PAGE, (at + count - 1) // PAGE + 1)):  # fmt: skip
            self.refused += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
