"""Files past the page cache: every byte in its place, whatever the disk and the file system do."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aerobee.spark.lake import synced_file
from aerobee.spark.lake.synced_file import BLOCK_BYTES, SyncedFile

DIRECT = synced_file._DIRECT
Write = Callable[[int, Any], int]


def written(path: Path, sizes: list[int], drains: int = 3) -> bytes:
    """What was given to a file in pieces of these sizes, drained now and then, and closed."""
    chance = random.Random(len(sizes))
    file = SyncedFile(path)
    given = bytearray()
    for number, size in enumerate(sizes):
        piece = chance.randbytes(size)
        file.write(piece)
        given += piece
        assert file.tell() == len(given)
        if number % drains == 0:
            file.drain()
            assert len(given) - path.stat().st_size < synced_file.ALIGNED_BYTES
    file.close()
    file.close()
    assert file.closed
    return bytes(given)


SIZES = [0, 1, 4095, 4096, 5, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 77, 300, 0, 8192]


@pytest.mark.parametrize("sizes", [[], [1], [4096], [BLOCK_BYTES], SIZES, SIZES[::-1]])
def test_every_byte_is_written_once(tmp_path: Path, sizes: list[int]) -> None:
    """At any length, whether blocks fill or not."""
    given = written(tmp_path / "file", sizes)
    assert (tmp_path / "file").read_bytes() == given


def test_short_writes_and_other_blocks_are_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes a part, and then refuses what does not begin with a block."""
    write, refusals = os.write, 0

    def part(handle: int, data: Any) -> int:
        nonlocal refusals
        if refusals == 0 and len(data) > 10_000:
            refusals = 1
            return write(handle, data[:4096])
        if refusals == 1 and DIRECT:
            refusals = 2
            raise OSError(errno.EINVAL, "not aligned")
        return write(handle, data)

    monkeypatch.setattr(os, "write", part)
    given = written(tmp_path / "file", SIZES)
    assert (tmp_path / "file").read_bytes() == given
    assert refusals


def test_file_system_without_direct_writes_is_written_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some make the file and refuse then: it is not there before the second try."""
    opened = os.open

    def refuse(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        handle = opened(path, flags & ~DIRECT, mode, **more)
        if DIRECT and flags & DIRECT:
            os.close(handle)
            raise OSError(errno.EINVAL, "no direct writes")
        return handle

    monkeypatch.setattr(os, "open", refuse)
    given = written(tmp_path / "file", SIZES)
    assert (tmp_path / "file").read_bytes() == given


def test_full_disk_is_an_error_and_the_file_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is still waiting is not mistaken for written."""
    file = SyncedFile(tmp_path / "file")
    file.write(b"x" * 10)

    def full(handle: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no space left"):
        file.close()
    assert file.closed
