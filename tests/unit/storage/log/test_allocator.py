"""Space is prepared ahead, by the helper or here; nothing beyond it is touched."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, send, small
from support.waiting import readable

from aerobee.storage.errors import AppendRefused, LogBusy
from aerobee.storage.log import space_helper
from aerobee.storage.store import MessageStore


def send_patiently(store: MessageStore, count: int, body: bytes) -> int:
    """Send, waiting where space is not ready yet; return how often that was."""
    busy, deadline = 0, time.monotonic() + 20
    for _ in range(count):
        while True:
            assert time.monotonic() < deadline
            try:
                send(store, body=body)
                break
            except LogBusy:
                busy += 1
                store.poll(0.05)
                store.tick()
        store.poll()
    return busy


def test_the_helper_keeps_the_window_ahead(tmp_path: Path) -> None:
    """Through several files, with the next file prepared before this one is full."""
    store = opened(
        small(tmp_path, segment_bytes=1 << 18, window_bytes=1 << 17, first_window_bytes=1 << 16,
              helper_process=True)
    )  # fmt: skip
    assert store.allocator.helper_pid is None, "opening does not wait for a helper"
    store.tick()
    assert store.allocator.helper_pid is not None, "but it is there before a burst needs it"
    send_patiently(store, 900, bytes(1000))
    assert store.allocator.helper_pid is not None
    assert store.commit_log.position > 3 << 18
    for segment in store.segments.items[:-1]:
        assert segment.ready >= min(segment.end, store.commit_log.position)
    assert len(bodies(store)) == 900
    pid = store.allocator.helper_pid
    store.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_helper_that_dies_is_replaced_and_then_done_without(tmp_path: Path) -> None:
    """After three deaths space is prepared in this process."""
    store = opened(
        small(tmp_path, segment_bytes=1 << 22, window_bytes=1 << 16, first_window_bytes=1 << 14,
              helper_process=True)
    )  # fmt: skip
    for _ in range(3):
        send_patiently(store, 40, bytes(1000))
        pid = store.allocator.helper_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while store.allocator.helper_pid == pid:
            assert time.monotonic() < deadline
            store.tick()
    send_patiently(store, 300, bytes(1000))
    assert store.allocator.helper_pid is None
    assert len(bodies(store)) == 420
    store.close()


def test_the_last_words_of_a_helper_count_before_its_successor_works(tmp_path: Path) -> None:
    """Else they open a range to writers that the successor zeroes again, and messages are lost."""
    store = opened(
        small(tmp_path, segment_bytes=1 << 22, window_bytes=1 << 16, first_window_bytes=1 << 14,
              helper_process=True)
    )  # fmt: skip
    with pytest.raises(AppendRefused):
        while True:
            send(store, body=bytes(500))
    ready = store.segments.items[0].ready
    assert readable(store.allocator, 10), "the helper has reported"
    pid = store.allocator.helper_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while store.allocator.helper_pid == pid:
        assert time.monotonic() < deadline
        store.tick()
    assert store.segments.items[0].ready > ready
    store.close()


def test_no_process_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none can be started the work is done here."""

    def refuses(*arguments: object, **options: object) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuses)
    store = opened(small(tmp_path, helper_process=True))
    assert send_patiently(store, 100, bytes(1000)) < 100
    assert len(bodies(store)) == 100
    store.close()


def test_waiting_sends_are_told_of_progress(tmp_path: Path) -> None:
    """A callback comes once, when space is ready or has been refused."""
    store = opened(
        small(tmp_path, segment_bytes=1 << 22, window_bytes=1 << 16, first_window_bytes=1 << 12,
              helper_process=True)
    )  # fmt: skip
    told: list[bool] = []
    with pytest.raises(AppendRefused):
        while True:
            send(store, body=bytes(500))
    store.allocator.when_progress(lambda: told.append(True))
    deadline = time.monotonic() + 10
    while not told:
        assert time.monotonic() < deadline
        store.poll(0.05)
    send(store)
    store.poll(0.05)
    assert told == [True]
    store.close()


def test_the_helper_alone(tmp_path: Path) -> None:
    """It overwrites with zeros, reports steps, names errors, and ends with its input."""
    path = tmp_path / "with a space"
    path.write_bytes(b"x" * 9_000_000)
    helper = subprocess.Popen(
        [sys.executable, "-I", "-S", space_helper.__file__, str(os.getpid())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    orders = b"sync 100 9000000 %s\nzero 0 10 %s\n" % (os.fsencode(path), b"/nonexistent/file")
    output, _ = helper.communicate(orders, timeout=20)
    name = os.fsencode(path)
    assert output.splitlines() == [
        b"ok 4194404 " + name, b"ok 8388708 " + name, b"ok 9000000 " + name,
        b"full %d /nonexistent/file" % errno.ENOENT,
    ]  # fmt: skip
    assert helper.returncode == 0
    assert path.read_bytes() == b"x" * 100 + bytes(9_000_000 - 100)


def test_zeroing_without_posix_fallocate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the call is missing, or not supported by the file system, writes do the work."""
    path = os.fsencode(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    said: list[bytes] = []
    monkeypatch.setattr(space_helper, "say", said.append)

    def unsupported(fd: int, at: int, count: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    space_helper.prepare(path, 0, 100_000, b"zero")
    monkeypatch.delattr(os, "posix_fallocate")
    space_helper.prepare(path, 100_000, 150_000, b"sync")
    assert (tmp_path / "file").read_bytes() == bytes(150_000) + b"x" * 50_000
    assert said == [b"ok 100000 " + path, b"ok 150000 " + path]
