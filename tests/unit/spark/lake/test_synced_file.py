"""Files past the page cache: every byte in its place, whatever the disk and the file system do."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import Any

import pytest

from aerobee.spark.lake import synced_file
from aerobee.spark.lake.disk import DISK, Disk
from aerobee.spark.lake.synced_file import BLOCK_BYTES, SyncedFile

DIRECT = synced_file._DIRECT


def written(path: Path, sizes: list[int], drains: int = 3, disk: Disk = DISK) -> bytes:
    """What was given to a file in pieces of these sizes, drained now and then, and closed."""
    chance = random.Random(len(sizes))
    file = SyncedFile(path, disk)
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


class PartlyTaking(Disk):
    """Takes a part of a long write, and then refuses what does not begin with a block."""

    refusals = 0

    def write(self, handle: int, data: Any) -> int:
        """Write some of it."""
        if self.refusals == 0 and len(data) > 10_000:
            self.refusals = 1
            return super().write(handle, data[:4096])
        if self.refusals == 1 and DIRECT:
            self.refusals = 2
            raise OSError(errno.EINVAL, "not aligned")
        return super().write(handle, data)


def test_short_writes_and_other_blocks_are_made_up_for(tmp_path: Path) -> None:
    """A disk that takes a part, and then refuses what does not begin with a block."""
    disk = PartlyTaking()
    given = written(tmp_path / "file", SIZES, disk=disk)
    assert (tmp_path / "file").read_bytes() == given
    assert disk.refusals


class Cached(Disk):
    """Makes the file, and refuses then to write it past the page cache."""

    def open(self, path: Path, flags: int = 0) -> int:
        """Make it."""
        handle = super().open(path, flags & ~DIRECT)
        if DIRECT and flags & DIRECT:
            self.close(handle)
            raise OSError(errno.EINVAL, "no direct writes")
        return handle


def test_file_system_without_direct_writes_is_written_through_the_cache(tmp_path: Path) -> None:
    """Some make the file and refuse then: it is not there before the second try."""
    given = written(tmp_path / "file", SIZES, disk=Cached())
    assert (tmp_path / "file").read_bytes() == given


class Full(Disk):
    """Has no room."""

    def write(self, handle: int, data: Any) -> int:
        """Refuse it."""
        raise OSError(errno.ENOSPC, "no space left on device")


def test_full_disk_is_an_error_and_the_file_is_closed(tmp_path: Path) -> None:
    """What is still waiting is not mistaken for written."""
    file = SyncedFile(tmp_path / "file", Full())
    file.write(b"x" * 10)
    with pytest.raises(OSError, match="no space left"):
        file.close()
    assert file.closed
