"""Files that take another's place in one step, and files that are written again as they read."""

from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import FileSpan

STEP_BYTES: Final = 1 << 20


def replace_file(files: Files, path: Path, data: bytes) -> None:
    """Put a small file in the place of another in one step, durably."""
    put_file(files, path, data)
    files.sync_directory(path.parent)


def put_file(files: Files, path: Path, data: bytes) -> None:
    """Put a small file in the place of another in one step; OSError: the other is still there."""
    fresh = path.with_name(f"{path.name}.tmp")
    files.remove(fresh)
    fd = files.open(fresh, create=True)
    try:
        files.write(fd, data, 0)
        files.sync(fd)
    finally:
        files.close(fd)
    files.replace(fresh, path)


def write_anew(files: Files, span: FileSpan, begin: int, *, sync: bool) -> int:
    """Write a file from a place on as it reads; with `sync` bring it to the disk and forget it."""
    at, written = begin, 0
    fd = files.open(span.path)
    try:
        while at < span.size and (found := files.next_data(fd, at)) is not None:
            data = files.read(fd, min(STEP_BYTES, span.size - found), found)
            if not data:
                break
            if data.count(0) != len(data):  # space that was prepared and not yet used is left
                files.write(fd, data, found)
                written += len(data)
            at = found + len(data)
        if sync:
            files.sync(fd)
            files.drop_cache(fd, begin, span.size - begin)
    finally:
        files.close(fd)
    return written
