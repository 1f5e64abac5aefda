"""Full, read-only and unwritable file systems: one clear error, no damage, and reads go on."""

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, send, settle, small

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import LogFull, LogUnavailable, StoreReadOnly
from aerobee.storage.recovery import writing_start
from aerobee.storage.verify import verify

TESTS = Path(__file__).parents[2]


def mount(path: Path, options: str) -> None:
    """Mount a memory file system, or skip where that is not allowed."""
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)],
            check=True, capture_output=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a tmpfs here: {error}")


@pytest.fixture
def little_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 6 MiB."""
    mount(tmp_path, "size=6m")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


FILL = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.disks.logs import append, bodies, opened, small
from aerobee.storage.errors import LogBusy, LogFull
root, helper, queues = Path(sys.argv[1]), sys.argv[3] == "helper", int(sys.argv[4])
size = int(sys.argv[5])
ballast = root / "ballast"
ballast.write_bytes(bytes(2 << 20))  # queues take 0.6 MiB of it, the log asks for 1 MiB
store = opened(small(root / "store", segment_bytes=size, queue_file_entries=300_000,
                     window_bytes=1 << 20, first_window_bytes=1 << 18, helper_process=helper))
sent, refused, deadline = 0, 0, time.monotonic() + 60
while refused < 50:
    assert time.monotonic() < deadline, "the disk did not fill up"
    try:
        append(store, queue_id=sent % queues, body=b"%06d" % sent + bytes(1000))
        sent += 1
    except LogBusy:
        store.poll(0.01)
    except LogFull as error:
        assert "No space left" in str(error), error
        refused += 1
        store.poll(0.001)
        store.tick()
    store.commit_log.commit()
found = sum(len(bodies(store, "orders", n)) for n in range(queues))
assert found == sent > 100, (found, sent)
queue = store.queue("orders", 0)
assert store.read(queue, 0, 32, 1 << 20).count > 0
ballast.unlink()
before = sent
while sent < before + 100:
    assert time.monotonic() < deadline, "freed space was not used"
    store.tick()
    try:
        append(store, queue_id=sent % queues, body=b"%06d" % sent + bytes(1000))
        sent += 1
    except (LogBusy, LogFull):
        store.poll(0.01)
    store.commit_log.commit()
store.close()
print("sent", sent)
"""


@pytest.mark.parametrize(
    ("helper", "queues", "size"),
    [("inline", 1, 64 << 20), ("helper", 1, 64 << 20), ("helper", 150, 64 << 20),
     ("inline", 3, 1 << 20), ("helper", 3, 1 << 20)],
)  # fmt: skip
def test_a_full_disk_refuses_and_recovers(
    little_disk: Path, helper: str, queues: int, size: int
) -> None:
    """Sends get LogFull, never a signal; all is readable; freed space is used again."""
    command = [sys.executable, "-c", FILL, str(little_disk), str(TESTS), helper]
    done = subprocess.run(
        [*command, str(queues), str(size)], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr}"
    settings = small(
        little_disk / "store", segment_bytes=size, queue_file_entries=300_000,
        first_window_bytes=4096,
    )  # fmt: skip
    report = verify(settings)
    assert not report.problems
    assert report.records == int(done.stdout.split()[1])


def test_a_disk_without_room_to_start_serves_reads(little_disk: Path) -> None:
    """Opened on a full disk the store reads and refuses."""
    root = little_disk / "store"
    settings = small(root, segment_bytes=1 << 20)
    store = opened(settings)
    send(store, body=b"kept")
    store.close()
    with (little_disk / "ballast").open("wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(4096))
    store = opened(settings)
    assert bodies(store) == [b"kept"]
    with pytest.raises((LogUnavailable, LogFull)):
        for _ in range(10_000):
            send(store, body=bytes(1000))
    assert bodies(store)[0] == b"kept"
    store.close()
    (little_disk / "ballast").unlink()
    store = opened(settings)
    send(store, body=b"more")
    assert bodies(store)[-1] == b"more"
    store.close()


def test_writing_begins_when_there_is_room(
    little_disk: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store opened on a full disk takes messages once space is freed, after a kill, too."""
    monkeypatch.setattr(writing_start, "RETRY_INTERVAL_S", 0.0)
    caplog.set_level(logging.INFO, "aerobee")
    root, ballast = little_disk / "store", little_disk / "ballast"
    settings = small(root, segment_bytes=1 << 20)
    store = opened(settings)
    send(store, body=b"kept")
    store.close()
    for life in range(3):
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(4096))
        (root / "commitlog" / f"{0:020d}").open("rb+").close()
        hole = 102 + 105 * life  # without room behind the last record nothing can begin
        os.truncate(root / "commitlog" / f"{0:020d}", hole)
        os.truncate(root / "commitlog" / f"{0:020d}", 1 << 20)
        with ballast.open("ab", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(4096))
        caplog.clear()
        store = opened(settings)
        watched = store.flusher.fileno()
        for _ in range(3):
            with pytest.raises(LogUnavailable, match="No space left"):
                send(store)
            store.tick()
            store.poll()
        assert [record.message.split()[0] for record in caplog.records if record.levelno > 30] == [
            "store_not_writable"
        ], "the reason is told once"
        ballast.unlink()
        store.tick()
        assert store.statistics().refusal is None
        (end,) = (each for each in caplog.records if "store_writable_again" in each.message)
        assert end.levelno == logging.INFO, "a good end is no warning"
        assert store.flusher.fileno() == watched, "the owner's loop watches it"
        send(store, body=b"more %d" % life)
        settle(store)
        if life:
            store.close()
        else:
            store.abandon()
        assert not verify(settings).problems
    store = opened(settings)
    assert bodies(store) == [b"kept", b"more 0", b"more 1", b"more 2"]
    store.close()


def test_a_store_that_never_began_leaves_all_as_it_was(little_disk: Path) -> None:
    """Stopped while the disk is still full, `abort` and the notes are those of the last writer."""
    root = little_disk / "store"
    settings = small(root, segment_bytes=1 << 20)
    store = opened(settings)
    send(store, body=b"kept")
    store.abandon()
    files = Files()

    def refuses(fd: int, at: int, count: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files.prepare = refuses  # type: ignore[method-assign]
    store = opened(settings, files)
    settle(store)
    with pytest.raises((LogUnavailable, LogFull)):
        send(store)
    store.close()
    assert (root / "abort").exists()
    store = opened(settings)
    assert bodies(store) == [b"kept"]
    store.close()
    assert not (root / "abort").exists()


def test_a_failed_sync_is_no_reason_to_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the refusal of the start itself is taken back."""
    monkeypatch.setattr(writing_start, "RETRY_INTERVAL_S", 0.0)
    files = Files()

    def refuses(fd: int, at: int, count: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files.prepare = refuses  # type: ignore[method-assign]
    store = opened(small(tmp_path), files)
    store.commit_log.refuse("the disk has burnt")
    del files.prepare
    store.tick()
    assert store.statistics().refusal == "the disk has burnt"
    store.close()


def test_prepared_space_is_ours_to_fill(tmp_path: Path) -> None:
    """On a small disk the window makes it fuller than allowed; messages go into it all the same."""
    mount(tmp_path, "size=40m")
    try:
        settings = small(
            tmp_path / "store", segment_bytes=256 << 20, queue_file_entries=300_000,
            window_bytes=64 << 20, first_window_bytes=8 << 20, disk_ratio_max=0.9,
        )  # fmt: skip
        (tmp_path / "ballast").write_bytes(bytes(29 << 20))
        for life in range(2):
            store = opened(settings)
            for number in range(2000):
                send(store, queue_id=number % 4 + 4 * life, body=bytes(1000))
                store.tick()
            assert store.statistics().refusal is None
            assert store.statistics().disk_used_ratio < 1.0, "the queues need room as well"
            store.close()
        store = opened(settings)
        with pytest.raises(LogFull, match="fuller than allowed"):
            for _ in range(6000):
                send(store, body=bytes(1000))
                store.tick()
        assert store.commit_log.position > 6 << 20
        store.close()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_read_only_store_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One logged error, messages are served, sends are refused, no file changes."""
    mount(tmp_path, "size=6m")
    try:
        settings = small(tmp_path / "store")
        store = opened(settings)
        for number in range(60):
            send(store, body=b"%d" % number + bytes(400))
            store.poll()
        store.abandon()
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path)], check=True)
        store = opened(settings)
        assert store.read_only
        assert len(bodies(store)) == 60
        assert store.read(store.find_queue("orders", 0), 50, 32, 1 << 20).count == 10
        with pytest.raises(LogUnavailable, match="reading only"):
            send(store)
        store.tick()
        assert store.statistics().refusal is not None
        store.close()
        assert [record.levelname for record in caplog.records].count("ERROR") == 1
        with pytest.raises(StoreReadOnly, match="cannot be made or written"):
            opened(small(tmp_path / "other"))
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_an_idle_store_is_small(tmp_path: Path) -> None:
    """With files of 1 GiB an idle broker's store takes far less than 200 MB of disk."""
    store = opened(small(tmp_path, segment_bytes=1 << 30, window_bytes=64 << 20,
                         first_window_bytes=8 << 20, helper_process=True))  # fmt: skip
    send(store)
    for _ in range(20):
        store.tick()
        store.poll(0.05)
    used = sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*") if path.is_file())
    assert used < 100 << 20
    assert (tmp_path / "commitlog" / f"{0:020d}").stat().st_size == 1 << 30
    store.close()


def test_a_disk_fuller_than_allowed_refuses(tmp_path: Path) -> None:
    """disk_ratio_max stops writes, and a tick with more room lets them in again."""
    files = Files()
    store = opened(small(tmp_path, disk_ratio_max=0.9), files)
    ratio = 0.91
    files.disk_used_ratio = lambda path: ratio  # type: ignore[method-assign]
    store.tick()
    with pytest.raises(LogFull, match="fuller than allowed"):
        send(store)
    assert store.statistics().disk_used_ratio == 0.91
    ratio = 0.5
    store.tick()
    send(store)
    assert bodies(store) == [b"hello"]
    store.close()


def test_a_disk_that_cannot_be_measured_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A tick comes several times a second; the next trouble, after this one ended, is told anew."""
    files = Files()
    store = opened(small(tmp_path), files)
    measure = files.disk_used_ratio

    def fails(path: Path) -> float:
        raise OSError(errno.EIO, "Input/output error")

    for times in (1, 2):
        files.disk_used_ratio = fails  # type: ignore[method-assign]
        for _ in range(5):
            store.tick()
        assert caplog.text.count("disk_check_failed") == times
        files.disk_used_ratio = measure  # type: ignore[method-assign]
        store.tick()
    store.close()


def test_a_lock_without_its_text_is_a_lock(tmp_path: Path) -> None:
    """On a full disk the four bytes may not fit: that makes no store one that is only read."""
    files = Files()
    write = files.write

    def refuses(fd: int, data: bytes | memoryview, at: int) -> None:
        if bytes(data) == b"lock":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(fd, data, at)

    files.write = refuses  # type: ignore[method-assign]
    store = opened(small(tmp_path), files)
    assert not store.read_only
    send(store)
    store.close()
