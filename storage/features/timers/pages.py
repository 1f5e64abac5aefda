"""Files of timers on a disk with pages that it does not give: these read as zeros.

Zeros are no slot and no unit, so what they stand for is found by other means.
"""

import errno
import logging
from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.sectors import PAGE_BYTES, TRIES

log = logging.getLogger(__name__)


def read_pages(files: Files, fd: int, path: Path, count: int, at: int) -> bytes:
    """Read a range, with zeros for each page that the disk does not give (EIO).

    Raises OSError for anything else.
    """
    try:
        return files.read(fd, count, at)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    data = b""
    while len(data) < count:
        place = at + len(data)
        wanted = min(count - len(data), PAGE_BYTES - place % PAGE_BYTES)
        piece = _page(files, fd, path, wanted, place)
        data += piece
        if len(piece) < wanted:
            break
    return data


def _page(files: Files, fd: int, path: Path, count: int, at: int) -> bytes:
    for _ in range(TRIES):
        try:
            return files.read(fd, count, at)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            refused = error
    log.error("timer_sector_unreadable file=%s at=%d error=%s", path, at, refused)
    return bytes(count)


def write_pages(files: Files, fd: int, path: Path, data: bytes | memoryview, at: int) -> None:
    """Write a range; where a page cannot be read for that, with zeros for the rest of it.

    Raises OSError, EIO as well.
    """
    try:
        return files.write(fd, data, at)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    end = at + len(data)
    before = read_pages(files, fd, path, at % PAGE_BYTES, at - at % PAGE_BYTES)
    behind = read_pages(files, fd, path, -end % PAGE_BYTES, end)
    files.write(fd, b"".join((before, data, behind)), at - at % PAGE_BYTES)


def read_small(files: Files, path: Path, bytes_max: int) -> bytes:
    """Return a small file; nothing for one that is not there, or that the disk does not give."""
    try:
        return files.read_all(path, bytes_max) or b""
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        log.error("timer_file_unreadable file=%s error=%s", path, error)
        return b""
