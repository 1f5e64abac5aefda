"""The store as a whole: one owner at a time, open and close, statistics, searches."""

import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, append, bodies, opened, send, settle, small

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreError, StoreLocked
from aerobee.storage.proofs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from aerobee.storage.store import MessageStore

HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("locked", flush=True)
sys.stdin.read()
"""


def test_one_process_has_the_store(tmp_path: Path) -> None:
    """A lock on the first byte of `lock`, as Java takes it, keeps us out, and ours keeps it out."""
    settings = small(tmp_path)
    store = opened(settings)
    path = tmp_path / "lock"
    with pytest.raises(StoreLocked, match="already open in this process"):
        opened(settings)
    other = [sys.executable, "-c", HOLD_LOCK, str(path)]
    refused = subprocess.run(
        other, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert "BlockingIOError" in refused.stderr
    send(store)
    store.close()
    assert path.read_bytes() == b"lock"
    holder = subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreLocked, match="in use by another broker"):
        opened(settings)
    assert sorted(tmp_path.rglob("*")) == before
    holder.communicate("")
    store = opened(settings)
    assert bodies(store) == [b"hello"]
    store.close()
    with path.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)


def test_a_clean_stop_leaves_all_flushed(tmp_path: Path) -> None:
    """`abort` is there while open and gone afterwards; both checkpoints name the last message."""
    store = opened(small(tmp_path))
    assert (tmp_path / "abort").read_text() == str(os.getpid())
    send(store, now_ms=NOW_MS + 9)
    append(store, now_ms=NOW_MS + 10)  # committed by close
    store.close()
    store.close()
    assert not (tmp_path / "abort").exists()
    data = (tmp_path / "checkpoint").read_bytes()
    assert len(data) == 4096
    assert struct.unpack_from(">5q", data)[:2] == (NOW_MS + 10, NOW_MS + 10)
    store = opened(small(tmp_path))
    assert store.recovered.records == 0
    assert len(bodies(store)) == 2
    store.close()


def test_a_clean_stop_flushes_what_came_during_a_sync(tmp_path: Path) -> None:
    """A sync that is under way, of log and queues, knows nothing of later messages."""
    store = opened(small(tmp_path))
    send(store)
    store.flusher.flush_log()
    store.flusher.flush_queues()
    assert store.flusher.busy
    send(store)
    store.close()
    assert not (tmp_path / "abort").exists()


def test_rocketmqs_other_times_survive(tmp_path: Path) -> None:
    """Index time and the master's position in the checkpoint are not ours to change."""
    write_checkpoint(Files(), tmp_path, Checkpoint(1, 2, 3, 4, 5, 6), sync=True)
    store = opened(small(tmp_path))
    send(store)
    position = store.commit_log.committed
    store.close()
    checkpoint = read_checkpoint(Files(), tmp_path)
    assert (checkpoint.index_timestamp, checkpoint.master_flushed_position) == (3, 4)
    assert (checkpoint.confirm_position, checkpoint.queue_position) == (position, position)
    (tmp_path / "checkpoint").write_bytes(b"short")
    assert read_checkpoint(Files(), tmp_path) == Checkpoint()


def test_the_checkpoint_is_what_its_example_says(tmp_path: Path) -> None:
    """Byte by byte, as RocketMQ 5.5 reads it; five numbers of an older one are read as well."""
    text = (Path(__file__).parents[3] / "storage/FORMAT.md").read_text()
    example = text[text.index("`checkpoint`, 4 KiB") :]
    rows = [line.split("  ") for line in example.splitlines() if line.startswith("    0000")]
    data = bytes.fromhex("".join(row[3] + row[4] for row in rows[:3]))
    stamp = 1_700_000_000_000
    checkpoint = Checkpoint(stamp, stamp, 0, 0, 109, 109)
    write_checkpoint(Files(), tmp_path, checkpoint, sync=False)
    written = (tmp_path / "checkpoint").read_bytes()
    assert written == data + bytes(4096 - 48)
    assert read_checkpoint(Files(), tmp_path) == checkpoint
    golden = Path(__file__).parents[2] / "golden/stores/stopped"
    stopped = bytes.fromhex((golden / "checkpoint.hex").read_text()).ljust(4096, b"\0")
    (tmp_path / "checkpoint").write_bytes(stopped)  # of RocketMQ 5.5.0
    assert read_checkpoint(Files(), tmp_path).queue_position == 31_920
    (tmp_path / "checkpoint").write_bytes(data[:40])
    assert read_checkpoint(Files(), tmp_path) == Checkpoint(stamp, stamp, 0, 0, 109)


def test_topics_come_and_go(tmp_path: Path) -> None:
    """Queues exist once asked for, files once written; deleting a topic removes both."""
    store = opened(small(tmp_path))
    assert store.find_queue("orders", 0) is None
    assert store.queue("orders", 0) is store.queue("orders", 0)
    send(store, "orders", 1)
    send(store, "bills", 0)
    send(store, "%RETRY%group", 0)
    assert store.topics() == {"orders": [0, 1], "bills": [0], "%RETRY%group": [0]}
    for queue in store.queues:
        queue.write_out()
    assert store.delete_topic("bills") and store.delete_topic("%RETRY%group")
    assert not store.delete_topic("bills")
    assert sorted(path.name for path in (tmp_path / "consumequeue").iterdir()) == ["orders"]
    settle(store)
    store.close()
    store = opened(small(tmp_path))
    assert store.topics() == {"orders": [1]}
    store.close()


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "nul\0"])
def test_names_that_are_no_directories_are_refused(tmp_path: Path, name: str) -> None:
    """No topic's name leads out of the store."""
    store = opened(small(tmp_path))
    with pytest.raises(ValueError):
        store.queue(name, 0)
    with pytest.raises(ValueError):
        store.queue("orders", -1)
    store.close()


def test_offsets_by_time(tmp_path: Path) -> None:
    """LOWER is the first at or after, UPPER the last at or before."""
    store = opened(small(tmp_path))
    for step in (0, 0, 0, 20, 20, 30):
        send(store, now_ms=NOW_MS + step)
    queue = store.queue("orders", 0)

    def both(step: int) -> tuple[int, int]:
        at = NOW_MS + step
        return store.offset_by_time(queue, at), store.offset_by_time(queue, at, "UPPER")

    assert [both(step) for step in (-1, 0, 10, 20, 25, 30, 31)] == [
        (0, 0), (0, 2), (3, 2), (3, 4), (5, 4), (5, 5), (6, 5),
    ]  # fmt: skip
    assert store.offset_by_time(store.queue("empty", 0), NOW_MS) == 0
    assert store.earliest_store_time() == NOW_MS
    store.close()


def test_statistics_are_a_snapshot(tmp_path: Path) -> None:
    """What the broker shows of the store."""
    store = opened(small(tmp_path))
    empty = store.statistics()
    assert (empty.position, empty.queues, empty.earliest_store_timestamp) == (0, 0, None)
    send(store)
    settle(store)
    after = store.statistics()
    assert after.position == after.committed == after.flushed_position == 102
    assert (after.queues, after.log_files, after.log_begin) == (1, 1, 0)
    assert after.fsyncs >= 2 and after.writable and after.refusal is None
    assert empty.position == 0
    store.close()


def test_an_open_that_fails_lets_go(tmp_path: Path) -> None:
    """After an error the lock is free and the store can be opened with the right settings."""
    store = opened(small(tmp_path))
    send(store)
    store.close()
    with pytest.raises(StoreError):
        opened(small(tmp_path, segment_bytes=32768))
    store = opened(small(tmp_path))
    assert bodies(store) == [b"hello"]
    store.close()


def test_a_separate_log_directory(tmp_path: Path) -> None:
    """storePathCommitLog puts the log elsewhere, the rest stays."""
    settings = small(tmp_path / "store", commit_log_dir=tmp_path / "fast" / "log")
    store = opened(settings)
    send(store)
    store.close()
    assert not (tmp_path / "store" / "commitlog").exists()
    assert (tmp_path / "fast" / "log" / f"{0:020d}").exists()
    store = MessageStore(settings)
    store.open()
    assert bodies(store) == [b"hello"]
    store.close()
