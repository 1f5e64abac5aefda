"""Files copied with their holes and their checksum, in one reading."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import Layout
from aerobee.storage.disk.files import Files
from aerobee.storage.snapshots.manifest import CopiedFile

BLOCK_BYTES: Final = 64 << 10
STEP_BYTES: Final = 1 << 20
_PLACE: Final = Layout(at="q", count="i").run()
"""What stands before a block in what is summed up."""

Progress = Callable[[int], None]


class FileSum:
    """SHA-256 over the blocks of 64 KiB that are not all zeros, each without the zeros at its end
    and behind its place and length, and the size: the same whether zeros are holes or not."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, at: int, block: bytes) -> None:
        """Take the block that begins at a place, without the zeros at its end."""
        self._hash.update(_PLACE.pack(at, len(block)))
        self._hash.update(block)

    def end(self, size: int) -> str:
        """Return the sum of a file of that size."""
        self._hash.update(size.to_bytes(8, "big"))
        return self._hash.hexdigest()


def blocks(files: Files, fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield what a file has up to `size`, block by block, each without the zeros at its end.

    A block that is all zeros is left out.
    """
    at = 0
    while at < size and (found := files.next_data(fd, at)) is not None and found < size:
        at = found - found % BLOCK_BYTES
        data = files.read(fd, min(STEP_BYTES, size - at), at)
        if not data:
            return
        for begin in range(0, len(data), BLOCK_BYTES):
            if block := data[begin : begin + BLOCK_BYTES].rstrip(b"\0"):
                yield at + begin, block
        at += len(data)


def copy_file(
    files: Files, source: Path, target: Path, *, until: int | None = None, seen: Progress
) -> CopiedFile:
    """Copy a file, what it has behind `until` as zeros; return what the copy is, without a path.

    Its content may be in memory alone. Raises FileNotFoundError where the source has gone.
    """
    made = FileSum()
    fd = files.open(source, write=False)
    try:
        found = os.fstat(fd)  # of this file: its name may be another's by now
        size, mode = found.st_size, stat.S_IMODE(found.st_mode)
        copy = files.open(target, create=True)
        try:
            with naming(target):
                files.resize(copy, 0)
                files.resize(copy, size)
            target.chmod(mode)
            with naming(source):
                for at, block in blocks(files, fd, size if until is None else min(size, until)):
                    with naming(target):
                        files.write(copy, block, at)
                    made.add(at, block)
                    seen(len(block))
        finally:
            files.close(copy)
    finally:
        files.close(fd)
    return CopiedFile("", size, mode, made.end(size))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have errors of the system say which file they are about; those of a number do not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def sum_of(files: Files, path: Path, seen: Progress) -> tuple[int, str]:
    """Return size and checksum of a file as the disk has it."""
    made = FileSum()
    fd = files.open(path, write=False)
    try:
        size = files.size(path)
        files.drop_cache(fd, 0, size)
        with naming(path):
            for at, block in blocks(files, fd, size):
                made.add(at, block)
                seen(len(block))
    finally:
        files.close(fd)
    return size, made.end(size)


def sync_copies(files: Files, folder: Path, paths: list[Path], asked: int) -> None:
    """Return when the disk has files and their names; `asked` is a number opened before them."""
    try:
        files.sync_file_system(asked)
    except OSError:  # it cannot tell: each for itself tells
        for path in paths:
            fd = files.open(path)
            try:
                with naming(path):
                    files.sync(fd)
            finally:
                files.close(fd)
        for directory in {path.parent for path in paths} | {folder}:
            files.sync_directory(directory)
