"""Space before it is needed: more and more, as far as there is room; SYNC_FLUSH has zeros."""

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, send, small
from support.disks.small_disk import small_disk

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import LogBusy
from aerobee.storage.log import space_helper
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

MIB = 1 << 20


def settings_of(root: Path, **others: object) -> StoreSettings:
    """Return settings with a helper, files of 16 MiB and a window of 1."""
    return small(root, segment_bytes=16 * MIB, window_bytes=MIB, first_window_bytes=MIB // 4,
                 helper_process=True, **others)  # fmt: skip


def space(path: Path) -> int:
    """Return how much disk space a file has."""
    return path.stat().st_blocks * 512


def log_file(store: MessageStore, number: int) -> Path:
    """Return the path of a file of the log."""
    return store.segments.directory / f"{number * 16 * MIB:020d}"


def send_until(store: MessageStore, done: Callable[[], bool]) -> int:
    """Send 100 KB after 100 KB until something has happened; return how many."""
    count, deadline = 0, time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        try:
            send(store, body=bytes(100_000))
            count += 1
        except LogBusy:
            pass
        store.poll(0.02)
    return count


def test_space_runs_ahead_and_the_next_file_has_it_before_it_is_needed(tmp_path: Path) -> None:
    """A store with few messages stays small; one that takes more has whole files, unwritten."""
    store = opened(settings_of(tmp_path))
    store.allocator.limit_window(1 << 40)
    send(store)
    store.tick()
    store.poll(0.2)
    assert space(log_file(store, 0)) < 2 * MIB
    sent = send_until(store, lambda: store.segments.items[0].ready == 16 * MIB)
    assert store.commit_log.position < 12 * MIB, "long before it is needed"
    assert space(log_file(store, 0)) >= 16 * MIB
    fd = os.open(log_file(store, 0), os.O_RDONLY)
    assert os.lseek(fd, store.commit_log.position + MIB, os.SEEK_HOLE) < 16 * MIB, "not written"
    os.close(fd)
    assert len(store.segments.items) == 1
    sent += send_until(store, lambda: log_file(store, 1).exists())
    assert store.commit_log.position >= 12 * MIB - 200_000
    sent += send_until(store, lambda: space(log_file(store, 1)) >= 16 * MIB)
    sent += send_until(store, lambda: store.commit_log.position > 18 * MIB)
    assert len(bodies(store)) == sent + 1
    store.close()
    assert not verify(settings_of(tmp_path)).problems


def test_synced_logs_have_zeros_before_messages_come_there(tmp_path: Path) -> None:
    """With SYNC_FLUSH space is written: a sync of unwritten space costs more.

    While messages come quickly all of the file is, and then the next, so that no sync of messages
    waits for zeros of its own file; with few messages it is the window.
    """
    store = opened(settings_of(tmp_path, flush_mode="SYNC_FLUSH"))
    store.allocator.limit_window(1 << 40)
    send(store)
    store.tick()
    store.poll(0.2)
    assert store.segments.items[0].ready < 2 * MIB
    sent = send_until(store, lambda: store.segments.items[0].ready == 16 * MIB)
    assert store.commit_log.position < 12 * MIB, "long before it is needed"
    fd = os.open(log_file(store, 0), os.O_RDONLY)
    assert os.lseek(fd, 0, os.SEEK_HOLE) == 16 * MIB
    os.close(fd)
    sent += send_until(store, lambda: len(store.segments.items) == 2)
    assert store.commit_log.position >= 12 * MIB - 200_000
    sent += send_until(store, lambda: store.segments.items[1].ready == 32 * MIB)
    sent += send_until(store, lambda: store.commit_log.position > 18 * MIB)
    assert len(bodies(store)) == sent + 1
    store.close()
    assert not verify(settings_of(tmp_path)).problems


def test_zeros_end_where_the_disk_has_no_room(tmp_path: Path) -> None:
    """What was to be written ahead and has no room is written by windows."""
    with small_disk(tmp_path / "disk", 8) as disk:
        store = opened(settings_of(disk / "store", flush_mode="SYNC_FLUSH"))
        store.allocator.limit_window(3 * MIB)
        sent = send_until(store, lambda: store.commit_log.position > 4 * MIB)
        assert store.allocator.full is None
        assert store.segments.items[0].ready <= store.commit_log.position + 3 * MIB
        assert len(bodies(store)) == sent
        store.close()


def test_a_file_system_without_fallocate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the helper says so, and is told to write zeros, a window at a time."""
    text = Path(space_helper.__file__).read_text()
    lacking = tmp_path / "helper.py"
    lacking.write_text(text.replace('"fallocate", None)', '"no_such_call", None)'))
    monkeypatch.setattr(space_helper, "__file__", str(lacking))
    store = opened(settings_of(tmp_path / "store"))
    store.allocator.limit_window(1 << 40)
    sent = send_until(store, lambda: store.commit_log.position > 5 * MIB)
    assert store.segments.items[0].ready < 8 * MIB
    assert store.allocator.helper_pid is not None
    assert len(bodies(store)) == sent
    store.close()


def test_here_without_fallocate(tmp_path: Path) -> None:
    """Without helper and without fallocate zeros are written, too."""
    files = Files()
    files.allocate = lambda fd, at, count: False  # type: ignore[method-assign]
    store = opened(small(tmp_path, segment_bytes=16 * MIB, window_bytes=MIB), files)
    sent = send_until(store, lambda: store.commit_log.position > 3 * MIB)
    assert len(bodies(store)) == sent
    store.close()


def test_a_disk_with_less_room_than_it_says(tmp_path: Path) -> None:
    """A quota, say: large orders are refused, what they got is given back, small ones go on."""
    with small_disk(tmp_path / "disk", 8) as disk:
        store = opened(settings_of(disk / "store"))
        store.allocator.limit_window(1 << 40)
        sent = send_until(store, lambda: store.commit_log.position > 5 * MIB)
        assert store.allocator.full is None
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        assert free > MIB // 2, "left to the queues"
        assert len(bodies(store)) == sent
        store.close()


def test_what_a_refused_order_got_is_given_back(tmp_path: Path) -> None:
    """ext4 and XFS keep what they found before there was no more; here the helper is watched."""
    with small_disk(tmp_path / "disk", 4) as disk:
        path = disk / "file"
        path.write_bytes(b"x" * 1000)
        os.truncate(path, 16 * MIB)
        helper = subprocess.Popen(
            [sys.executable, "-I", "-S", space_helper.__file__, str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        name = os.fsencode(path)
        orders = b"allocate 1000 16777216 %s\nallocate 1000 1048576 %s\n" % (name, name)
        output, _ = helper.communicate(orders, timeout=20)
        assert output.splitlines() == [b"full %d %s" % (errno.ENOSPC, name), b"ok 1048576 " + name]
        assert MIB <= space(path) <= MIB + 4096
        assert path.read_bytes() == b"x" * 1000 + bytes(16 * MIB - 1000)


def test_leftovers_behind_the_end_of_a_stopped_log_do_not_stay(tmp_path: Path) -> None:
    """Nobody writes zeros over them later: they go at the start, wherever they lie in the file."""
    settings = settings_of(tmp_path)
    store = opened(settings)
    sent = send_until(store, lambda: store.commit_log.position > MIB)
    store.close()
    for path in tmp_path.glob("aerobee.*"):  # as RocketMQ leaves it
        path.unlink()
    shutil.rmtree(tmp_path / "consumequeue" / "orders")
    with log_file(store, 0).open("r+b") as file:
        file.seek(store.commit_log.position)
        file.write(b"x" * 2 * MIB)
    assert not (tmp_path / "abort").exists()
    again = opened(settings)
    assert len(list((tmp_path / "damaged" / "commitlog").glob("*.torn"))) == 1
    behind = again.segments.items[0].read(again.commit_log.position, 16 * MIB)
    assert behind == bytes(len(behind))
    assert len(bodies(again)) == sent
    again.close()


def test_the_system_says_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC is an error and loses nothing, EOPNOTSUPP an answer, EINTR neither."""
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    codes, calls = [errno.EINTR, errno.EOPNOTSUPP, errno.ENOSPC], []

    class Library:
        @staticmethod
        def fallocate(*arguments: object) -> int:
            calls.append(arguments)
            return -1

    monkeypatch.setattr("ctypes.CDLL", lambda name, **options: Library)
    monkeypatch.setattr("ctypes.get_errno", lambda: codes.pop(0))
    fd = os.open(path, os.O_RDWR)
    try:
        assert Files().allocate(fd, 0, 10) is False
        with pytest.raises(OSError, match="No space"):
            Files().allocate(fd, 0, 10)
        codes += [errno.EINTR, errno.EOPNOTSUPP, errno.ENOSPC, errno.EIO]
        with pytest.raises(space_helper.CannotAllocateError):
            space_helper.allocate(fd, 0, 10)
        with pytest.raises(OSError, match="No space"):
            space_helper.allocate(fd, 0, 10)
        assert len(calls) == 3 + 4
    finally:
        os.close(fd)
