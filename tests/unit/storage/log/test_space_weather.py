"""What may happen to the helper, and to its disk: sends wait or are refused, none is lost."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.disks.logs import bodies, opened, send, small
from support.disks.small_disk import remount, small_disk
from support.waiting import readable

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import LogBusy, LogFull, LogUnavailable
from aerobee.storage.log import space_helper
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

MIB = 1 << 20
BODY = bytes(100_000)


def settings_of(root: Path, **others: object) -> StoreSettings:
    """Return settings with a helper, files of 16 MiB and a window of 1."""
    values = {"segment_bytes": 16 * MIB, "window_bytes": MIB, "first_window_bytes": MIB // 4,
              "helper_process": True}  # fmt: skip
    return small(root, **(values | others))


def fill(store: MessageStore) -> int:
    """Send until there is no room; return how many messages were taken."""
    count = 0
    while True:
        try:
            send(store, body=BODY)
            count += 1
        except LogBusy:
            return count


def send_one(store: MessageStore) -> None:
    """Send as soon as there is room."""
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline
        try:
            send(store, body=BODY)
            return
        except LogBusy:
            store.tick()
            store.poll(0.02)


def test_a_helper_that_was_stopped_is_told_to_go_on(tmp_path: Path) -> None:
    """Meanwhile sends are refused as busy; what it does then is what it was ordered before."""
    store = opened(settings_of(tmp_path))
    store.tick()
    pid = store.allocator.helper_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    sent = fill(store)
    store.poll(0.2)
    with pytest.raises(LogBusy):
        send(store, body=BODY)
    send_one(store)
    assert store.allocator.helper_pid == pid
    assert len(bodies(store)) == sent + 1
    store.close()
    assert not verify(settings_of(tmp_path)).problems


@pytest.mark.parametrize("when", ["before", "half-way", "unheard"])
def test_a_helper_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Before it has done anything, between the space and the word of it, or unheard."""
    if when == "half-way":  # the first of its lives ends there
        text = Path(space_helper.__file__).read_text()
        dying = tmp_path / "helper.py"
        mark = tmp_path / "died"
        dying.write_text(
            text.replace(
                "def say(line: bytes) -> None:",
                f"def say(line):\n    if not os.path.exists({str(mark)!r}):\n"
                f"        open({str(mark)!r}, 'w').close()\n        os.kill(os.getpid(), 9)\n"
                "    os.write(1, line + b'\\n')\n\ndef unused(line: bytes) -> None:",
            )
        )
        monkeypatch.setattr(space_helper, "__file__", str(dying))
    store = opened(settings_of(tmp_path / "store"))
    store.tick()
    pid = store.allocator.helper_pid
    assert pid is not None
    if when == "before":
        os.kill(pid, signal.SIGSTOP)
    sent = fill(store)
    if when == "unheard":
        time.sleep(0.3)
    if when != "half-way":
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while store.allocator.helper_pid == pid:
        assert time.monotonic() < deadline
        store.tick()
    for _ in range(20):
        send_one(store)
    assert len(bodies(store)) == sent + 20
    store.close()
    assert not verify(settings_of(tmp_path / "store")).problems


@pytest.mark.parametrize("word", ["cannot", "full"])
def test_the_last_word_of_a_helper_is_that_it_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Its successor has one order then: the second of two would undo what the first has opened."""
    text = Path(space_helper.__file__).read_text()
    failing = tmp_path / "helper.py"
    mark = tmp_path / "failed"
    failing.write_text(
        text.replace(
            "def allocate(fd: int, at: int, until: int) -> None:",
            f"def allocate(fd, at, until):\n    if not os.path.exists({str(mark)!r}):\n"
            f"        open({str(mark)!r}, 'w').close()\n"
            f"        raise {'CannotAllocateError' if word == 'cannot' else 'OSError'}"
            "(errno.ENOSPC, 'no')\n    works(fd, at, until)\n\n"
            "def works(fd: int, at: int, until: int) -> None:",
        )
    )
    monkeypatch.setattr(space_helper, "__file__", str(failing))
    store = opened(settings_of(tmp_path / "store"))
    store.allocator.limit_window(1 << 40)
    sent = fill(store)
    assert readable(store.allocator, 10), "the helper has reported"
    store.allocator.limit_window(0)  # what it was ordered is more than is wanted now
    monkeypatch.setattr(store.allocator, "window_bytes", MIB // 2)
    pid = store.allocator.helper_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while store.allocator.helper_pid == pid:
        assert time.monotonic() < deadline
        store.tick()
    pid = store.allocator.helper_pid
    assert pid is not None
    assert len(orders_read(store)) == 1
    for _ in range(20):
        send_one(store)
    assert len(bodies(store)) == sent + 20
    store.close()
    assert not verify(settings_of(tmp_path / "store")).problems


def orders_read(store: MessageStore) -> list[bytes]:
    """Wait for what the helper says of its orders, and hear it."""
    assert readable(store.allocator, 10)
    time.sleep(0.3)
    said = os.read(store.allocator.fileno(), 65536)
    os.write(store.allocator._write_fd, said)
    store.allocator.on_readable()
    return said.splitlines()


ORDERER = """
import os, signal, subprocess, sys
order = [sys.executable, '-I', '-S', sys.argv[1], str(os.getpid())]
helper = subprocess.Popen(order, stdin=subprocess.PIPE)
os.kill(helper.pid, signal.SIGSTOP)
os.write(helper.stdin.fileno(), os.fsencode(sys.argv[2]) + b'\\n')
os.write(int(sys.argv[3]), b'%d' % helper.pid)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["zero", "sync", "allocate"])
def test_a_helper_does_nothing_for_a_broker_that_was_killed(tmp_path: Path, how: str) -> None:
    """It was stopped before it read its last order; the next broker has messages in that place."""
    text = Path(space_helper.__file__).read_text()
    helper = tmp_path / "helper.py"
    helper.write_text(
        text.replace("    fallocate(fd, 0, at", "    raise OSError(28, 'full'); (fd, 0, at")
    )
    path = tmp_path / "log"
    path.write_bytes(b"x" * 200_000)
    told, tell = os.pipe()
    order = f"{how} 4096 150000 {path}"
    subprocess.run(
        [sys.executable, "-c", ORDERER, str(helper), order, str(tell)],
        pass_fds=(tell,), check=False,
    )  # fmt: skip
    pid = int(os.read(told, 20))
    os.kill(pid, signal.SIGCONT)
    state, deadline = Path(f"/proc/{pid}/stat"), time.monotonic() + 60
    while state.exists() and " Z " not in state.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.close(told)
    os.close(tell)
    assert path.read_bytes() == b"x" * 200_000


def test_a_helper_without_memory_ends_and_another_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of them; then the work is done here."""
    poor = tmp_path / "helper.py"
    poor.write_text("import os\nos.read(0, 1)\nraise MemoryError\n")
    monkeypatch.setattr(space_helper, "__file__", str(poor))
    store = opened(settings_of(tmp_path / "store"))
    sent = fill(store)
    for _ in range(20):
        send_one(store)
    assert store.allocator.helper_pid is None
    assert len(bodies(store)) == sent + 20
    store.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_no_space_is_a_refusal_and_a_failed_write_ends_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The first is tried again, and says its reason; after the second only a restart knows more."""
    files = Files()
    store = opened(small(tmp_path, segment_bytes=16 * MIB, window_bytes=MIB), files)
    send(store, body=BODY)
    error = OSError(number, os.strerror(number))

    def refuses(*arguments: object) -> Any:
        raise error

    monkeypatch.setattr(files, "allocate", refuses)
    sent = 1
    with pytest.raises(LogFull, match=os.strerror(number)):
        for sent in range(1, 100):  # noqa: B007
            send(store, body=BODY)
    monkeypatch.undo()
    store.tick()
    send(store, body=BODY)
    fd, write = store.segments.items[0].fd, files.write
    monkeypatch.setattr(
        files, "write", lambda to, data, at: refuses() if to == fd else write(to, data, at)
    )
    with pytest.raises(LogUnavailable, match=os.strerror(number)):
        send(store, body=b"lost")
    monkeypatch.undo()
    with pytest.raises(LogUnavailable):
        send(store, body=b"refused")
    assert len(bodies(store)) == sent + 1
    store.close()
    again = opened(small(tmp_path, segment_bytes=16 * MIB, window_bytes=MIB))
    assert len(bodies(again)) == sent + 1
    send(again, body=BODY)
    again.close()
    assert not verify(small(tmp_path, segment_bytes=16 * MIB)).problems


def test_a_disk_that_takes_a_part_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is written by further calls."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:777], at))
    store = opened(small(tmp_path, segment_bytes=MIB))
    for number in range(10):
        send(store, body=b"%d" % number * 5000)
    assert [body[:1] for body in bodies(store)] == [b"%d" % number for number in range(10)]
    store.close()
    assert not verify(small(tmp_path, segment_bytes=MIB)).problems


def test_a_disk_that_is_read_only(tmp_path: Path) -> None:
    """The helper says so, and lives on."""
    with small_disk(tmp_path / "disk", 8) as disk:
        path = disk / "file"
        path.write_bytes(bytes(1000))
        remount(disk, "ro")
        helper = subprocess.Popen(
            [sys.executable, "-I", "-S", space_helper.__file__, str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        name = os.fsencode(path)
        orders = b"allocate 0 1048576 %s\nzero 0 4096 %s\n" % (name, name)
        output, _ = helper.communicate(orders, timeout=20)
        assert output.splitlines() == [b"full %d %s" % (errno.EROFS, name)] * 2
        assert helper.returncode == 0


def test_a_prepared_file_that_was_not_used(tmp_path: Path) -> None:
    """Killed before it rolls: the next start finds no byte in it, removes it, and goes on."""
    settings = settings_of(tmp_path / "store")
    store = opened(settings)
    store.allocator.limit_window(1 << 40)
    sent, deadline = 0, time.monotonic() + 60
    while len(store.segments.items) < 2 or store.segments.items[1].ready < 20 * MIB:
        assert time.monotonic() < deadline
        send_one(store)
        store.poll(0.01)
        sent += 1
    following = store.segments.items[1].path.name
    shutil.copytree(tmp_path / "store", tmp_path / "killed")
    store.close()
    killed = replace(settings, root=tmp_path / "killed")
    files = Files()
    fd = files.open(killed.log_dir / following)
    assert files.allocate(fd, 0, 4 * MIB), "a copy has no space that was not written"
    files.close(fd)
    again = opened(killed)
    assert [segment.path.name for segment in again.segments.items] == ["0" * 20]
    assert not (killed.log_dir / following).exists()
    assert not (killed.root / "damaged").exists()
    for _ in range(80):
        send_one(again)
    assert len(bodies(again)) == sent + 80
    assert len(again.segments.items) == 2
    again.close()
    assert not verify(killed).problems


def test_few_messages_keep_a_store_small(tmp_path: Path) -> None:
    """The window alone is ahead of who sends slowly, however much he has sent."""
    store = opened(settings_of(tmp_path))
    store.allocator.limit_window(1 << 40)
    for _ in range(60):
        send_one(store)
        store.tick()
        store.poll(0.005)
        assert store.segments.items[0].ready < store.commit_log.position + 2 * MIB
    assert store.segments.items[0].path.stat().st_blocks * 512 < 9 * MIB
    store.close()


def test_a_small_window_does_not_make_anybody_quick(tmp_path: Path) -> None:
    """Nor does one that the disk has made small: it takes 4 MiB between two ticks."""
    store = opened(settings_of(tmp_path, window_bytes=MIB // 16))
    store.allocator.limit_window(1 << 40)
    for _ in range(40):
        send_one(store)
        store.tick()
        store.poll(0.005)
        assert store.segments.items[0].ready < store.commit_log.position + MIB
    store.close()


def test_no_more_than_the_room_that_is_left(tmp_path: Path) -> None:
    """What was measured with the last tick is less by what came since."""
    store = opened(settings_of(tmp_path))
    begin = store.commit_log.position
    store.allocator.limit_window(8 * MIB)
    while store.commit_log.position < begin + 6 * MIB:
        try:
            send(store, body=BODY)
        except LogBusy:
            store.poll(0.02)
    store.poll(0.3)
    assert store.segments.items[0].ready <= begin + 8 * MIB + 200_000
    store.close()
