"""A disk that refuses room to some files, however it is asked for."""

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

import pytest

from aerobee.storage.disk.files import Files

T = TypeVar("T")


def refuse_room(
    patch: pytest.MonkeyPatch, files: Files, number: int, where: Collection[str]
) -> None:
    """Let the disk make no room in files whose path holds a word.

    The log's is made before it is written; a queue's file takes it as it is written.
    """

    def write(fd: int, data: bytes | memoryview, at: int) -> None:
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        if "/consumequeue/" in path and any(part in path for part in where):
            raise OSError(number, os.strerror(number))
        written(fd, data, at)

    def door(make_room: Callable[[int, int, int], T]) -> Callable[[int, int, int], T]:
        def passed(fd: int, at: int, count: int) -> T:
            path = str(Path(f"/proc/self/fd/{fd}").readlink())
            if any(part in path for part in where):
                raise OSError(number, os.strerror(number))
            return make_room(fd, at, count)

        return passed

    patch.setattr(files, "prepare", door(files.prepare))
    patch.setattr(files, "allocate", door(files.allocate))
    written = files.write
    patch.setattr(files, "write", write)
