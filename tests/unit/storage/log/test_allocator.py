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
from aerobee.storage.log import allocator, space_helper
from aerobee.storage.store import MessageStore


def send_patiently(store: MessageStore, count: int, body: bytes) -> int:
    """Send, waiting where space is not ready yet; return how often that was."""
    busy, deadline = 0, time.monotonic() + 60
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
        deadline = time.monotonic() + 60
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
    deadline = time.monotonic() + 60
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
    deadline = time.monotonic() + 60
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


def test_zeros_that_have_time_come_by_pieces(tmp_path: Path) -> None:
    """They are on the disk when they are reported; what cannot be brought there is told."""
    path = tmp_path / "file"
    size = 3 * space_helper.TRICKLE_STEP_BYTES // 2
    path.write_bytes(b"x" * size)
    failing = tmp_path / "failing.py"
    call = 'call = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)'
    text = Path(space_helper.__file__).read_text()
    assert text.count(call) == 1
    failing.write_text(text.replace(call, 'raise OSError(errno.EIO, "gone")'))
    name = os.fsencode(path)
    for program, answers in (
        (space_helper.__file__, [b"ok %d %s" % (100 + space_helper.TRICKLE_STEP_BYTES, name),
                                 b"ok %d %s" % (size - 10, name)]),
        (str(failing), [b"full %d %s" % (errno.EIO, name)]),
    ):  # fmt: skip
        helper = subprocess.Popen(
            [sys.executable, "-I", "-S", program, str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        output, _ = helper.communicate(b"trickle 100 %d %s\n" % (size - 10, name), timeout=20)
        assert output.splitlines() == answers
    assert path.read_bytes() == b"x" * 100 + bytes(size - 110) + b"x" * 10


def test_a_piece_of_what_is_no_file(tmp_path: Path) -> None:
    """The system's reason is raised; where it has no such call, nothing happens."""
    with pytest.raises(OSError, match="Bad file descriptor"):
        space_helper.push(-1, 0, 10)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        space_helper.push(fd, -1, 10)  # not supported
    finally:
        os.close(fd)


def test_zeros_have_time_where_a_window_of_them_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First quickly up to the window, then by short orders, each by what is left by then."""
    orders = tmp_path / "orders"
    text = Path(space_helper.__file__).read_text()
    begin = "def serve(line: bytes) -> tuple[bytes, int, int] | None:\n"
    assert text.count(begin) == 1
    noting = tmp_path / "helper.py"
    note = f"    with open({str(orders)!r}, 'ab') as file:\n        file.write(line + b'\\n')\n"
    noting.write_text(text.replace(begin, begin + note))
    monkeypatch.setattr(space_helper, "__file__", str(noting))
    monkeypatch.setattr(allocator, "TRICKLE_BYTES", 2 << 20)
    store = opened(
        small(tmp_path / "store", segment_bytes=16 << 20, window_bytes=1 << 20,
              first_window_bytes=1 << 18, flush_mode="SYNC_FLUSH", helper_process=True)
    )  # fmt: skip
    store.allocator.limit_window(1 << 40)
    begin_s = time.monotonic()
    while store.segments.items[0].ready < 16 << 20:
        assert time.monotonic() < begin_s + 20
        send_patiently(store, 2, bytes(30_000))
        store.poll(0.01)
    store.close()
    ordered = [line.split() for line in orders.read_bytes().splitlines()]
    words = [words[0] for words in ordered]
    assert words[0] == b"sync" and words.count(b"trickle") >= 3
    for word, first, last, _ in ordered:
        assert word == b"sync" or int(last) - int(first) <= 2 << 20


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
