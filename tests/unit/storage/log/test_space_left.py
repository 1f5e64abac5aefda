"""Space that was prepared and not used: a stop gives it back, and no start looks through it."""

import errno
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.disks.logs import opened, send, small

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import LogBusy
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

MIB = 1 << 20


class Counting(Files):
    """Real files of which it is noted what is read."""

    def __init__(self) -> None:
        self.read_bytes: list[tuple[Path, int]] = []
        self.removes = True

    def read(self, fd: int, count: int, at: int) -> bytes:
        """Read and note."""
        data = super().read(fd, count, at)
        self.read_bytes.append((Path(f"/proc/self/fd/{fd}").readlink(), len(data)))
        return data

    def remove(self, path: Path) -> None:
        """Remove, but for a file of the log that is not to be."""
        if not self.removes and path.parent.name == "commitlog":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().remove(path)


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_start_after_a_stop_reads_no_space_that_was_prepared(tmp_path: Path, mode: str) -> None:
    """A stop removes the file ahead: else each start would look through up to a GiB of zeros.

    A kill leaves it: it is searched for records, read once more, and removed. So it is where the
    stop could not remove it.
    """
    settings = small(
        tmp_path / "store", flush_mode=mode, segment_bytes=16 * MIB, window_bytes=MIB,
        first_window_bytes=MIB // 4, helper_process=True,
    )  # fmt: skip
    store = MessageStore(settings)
    store.open()
    store.allocator.limit_window(1 << 40)
    deadline = time.monotonic() + 60
    while len(store.segments.items) < 2 or store.segments.items[1].ready == 16 * MIB:
        assert time.monotonic() < deadline
        if len(store.segments.items) < 2:
            with suppress(LogBusy):
                send(store, body=bytes(100_000))
        store.tick()
        store.poll(0.01)
    following = store.segments.items[1].path
    assert store.commit_log.position < 16 * MIB
    shutil.copytree(tmp_path / "store", tmp_path / "killed")
    shutil.copytree(tmp_path / "store", tmp_path / "stubborn")
    store.close()
    assert not following.exists()
    for name, removes in (("store", True), ("killed", True), ("stubborn", False)):
        files = Counting()
        again = MessageStore(replace(settings, root=tmp_path / name), files)
        again.open()
        assert [segment.base for segment in again.segments.items] == [0]
        read = sum(count for path, count in files.read_bytes if path.name == following.name)
        if name == "store":
            assert not read
        else:  # a copy has no space that was not written
            assert 16 * MIB <= read < 33 * MIB
        files.removes = removes
        again.close()
    files = Counting()
    (tmp_path / "stubborn" / "commitlog" / following.name).write_bytes(bytes(16 * MIB))
    again = MessageStore(replace(settings, root=tmp_path / "stubborn"), files)
    again.open()
    assert [segment.base for segment in again.segments.items] == [0]
    again.close()
    assert not verify(again.settings).problems


def test_a_file_ahead_that_holds_records_is_no_space(tmp_path: Path) -> None:
    """Somebody has put a copy there meanwhile: a stop leaves it, a start sets it aside."""
    settings = small(tmp_path, segment_bytes=64 * 1024, window_bytes=64 * 1024)
    store = opened(settings)
    store.allocator.limit_window(1 << 30)
    while len(store.segments.items) < 2:
        send(store, body=bytes(1000))
        store.tick()
    first, ahead = (segment.path for segment in store.segments.items)
    assert store.commit_log.position < store.segments.items[1].base
    shutil.copyfile(first, ahead)
    content = ahead.read_bytes()
    store.close()
    assert ahead.read_bytes() == content
    again = opened(settings)
    assert not ahead.exists()
    assert content in [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    again.close()
    assert not verify(settings).problems
