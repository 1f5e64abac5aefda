"""Sectors of the log that the disk does not give: while a store is opened they read as zeros."""

import errno
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreDamaged

log = logging.getLogger(__name__)

PAGE_BYTES: Final = 4096  # the system reads no less
PAGES_MAX: Final = 256  # more are no bad sectors, but a disk that is gone
TRIES: Final = 8


class BadSectors:
    """Pages of one log that cannot be read, by their file; found once, they stay zeros.

    `active` until the store is open: later an error is told to whoever reads. `read_at` is where
    the log was read last, -1 before that: how far an opening has come.
    """

    def __init__(self) -> None:
        self.active = True
        self.read_at = -1
        self._pages: dict[Path, set[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def known(self, path: Path) -> bool:
        """Whether a file has such pages."""
        return path in self._pages

    def pages(self, path: Path) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each such page of a file, in order."""
        for page in sorted(self._pages.get(path, ())):
            yield page, page + PAGE_BYTES

    def read(self, files: Files, fd: int, path: Path, count: int, at: int) -> bytes:
        """Read page by page, with zeros in place of what the disk does not give.

        Raises StoreDamaged where that is too much; OSError where nothing is to be gone round.
        """
        data = b""
        while len(data) < count:
            place = at + len(data)
            page = place // PAGE_BYTES * PAGE_BYTES
            wanted = min(count - len(data), page + PAGE_BYTES - place)
            if page in self._pages.get(path, ()):
                piece = bytes(wanted)
            else:
                piece = self._page(files, fd, path, wanted, place)
            data += piece
            if len(piece) < wanted:
                break
        return data

    def _page(self, files: Files, fd: int, path: Path, count: int, at: int) -> bytes:
        for _ in range(TRIES):
            try:
                return files.read(fd, count, at)
            except OSError as error:
                if error.errno != errno.EIO or not self.active:
                    raise OSError(error.errno, error.strerror, str(path)) from error
                refused = error
        if self._count >= PAGES_MAX:
            raise StoreDamaged(
                f"{path}: more than {PAGES_MAX} pages of the log cannot be read ({refused}): the"
                " disk is failing, or away. Check it, copy what it gives to a sound one, and start"
                " from there"
            ) from refused
        self._count += 1
        self._pages.setdefault(path, set()).add(at // PAGE_BYTES * PAGE_BYTES)
        log.error("log_sector_unreadable file=%s at=%d error=%s", path, at, refused)
        return bytes(count)
