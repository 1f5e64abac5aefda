"""The one door to the files of stores: what opens, lists and reads them, as tests may replace it.

Everything is read with `pread` into memory of our own, never through a map: a file that the
broker deletes or truncates meanwhile is then a short read with a clear error, where a mapped
page would end the process (SIGBUS). It costs one copy out of the page cache.

They raise OSError; `check_absent` says what that means.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from aerobee.spark.errors import StoreUnreadable

# what says that a file or folder is not there; no other error does
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

read = os.pread
"""Up to so many bytes of an open file from a place on, fewer where it ends."""

read_into = os.preadv
"""Fill buffers likewise; how many bytes were there."""

close = os.close


def open_file(path: str) -> int:
    """A file held open for reading: it can be read even if the broker deletes it meanwhile."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def size(file: int | str) -> int:
    """How long a file is, open or by its path."""
    return os.stat(file).st_size  # noqa: PTH116 - open files too


def changed_at(path: str) -> tuple[int, int]:
    """Which folder is there, by its number, and when it was changed last (ns since 1970)."""
    found = Path(path).stat()
    return found.st_ino, found.st_mtime_ns


def is_folder(path: str) -> bool:
    """Whether a folder is there. Raises StoreUnreadable where that cannot be told."""
    try:
        return S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - thousands in a row
    except OSError as error:
        check_absent(error, path)
        return False


def names(folder: str) -> list[str]:
    """What is in a folder, in the order of the names."""
    return sorted(os.listdir(folder))  # noqa: PTH208 - many


def folders(folder: str) -> list[str]:
    """The folders in it, likewise."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def folders_if_there(folder: str) -> list[str] | None:
    """The same, None where it is not there. Raises StoreUnreadable where it cannot be read."""
    try:
        return folders(folder)
    except OSError as error:
        check_absent(error, folder)
        return None


def check_absent(error: OSError, path: str) -> None:
    """Whether a file is not there, and not merely out of reach. Raises StoreUnreadable.

    A disk that fails, rights that are missing and a process out of descriptors would else look
    as if retention, or somebody who deletes topics, had been there.
    """
    if error.errno not in _ABSENT:
        raise StoreUnreadable(f"cannot open {path}: {error.strerror}") from error
