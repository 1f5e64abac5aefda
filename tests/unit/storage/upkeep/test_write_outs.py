"""Rounds that write queues out: refused, resumed, of very many files; and what is read then."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest
from support.disks.held_syncs import HeldBackend
from support.disks.logs import bodies, opened, send, settle, small
from support.disks.refused_queues import RefusedQueues

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.worker import Job, outcome
from aerobee.storage.errors import LogUnavailable
from aerobee.storage.layout import CHECKPOINT_FIELDS, ENTRY_BYTES
from aerobee.storage.proofs.progress import read_progress
from aerobee.storage.queues.files import open_made
from aerobee.storage.queues.mending_note import MendingNote
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.upkeep.flush import Flusher
from aerobee.storage.verify import verify


def remade(path: Path) -> None:
    """Put another file in the place of one."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(bytes(len(data)))


@pytest.mark.parametrize("spoil", [Path.unlink, remade, lambda path: rmtree(path.parent)])
def test_a_queue_whose_file_others_take_away_costs_itself_alone(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """What others have is noted, nothing of that queue is passed over, a start writes it again."""
    store = opened(small(tmp_path))
    for number in range(3):
        send(store, body=b"%d" % number)
    send(store, "bills")
    settle(store)
    spoil(next((tmp_path / "consumequeue/orders/0").iterdir()))
    send(store, body=b"3")
    send(store, "bills")
    settle(store)
    progress = read_progress(store.files, tmp_path)
    assert progress is not None and progress.position == store.commit_log.position
    assert progress.queues == {("orders", 0): 3, ("bills", 0): 2}
    assert MendingNote(store.files, tmp_path).read() == {("orders", 0): 0}
    queue = store.queue("orders", 0)
    assert queue.lost and queue.base == 0, "memory has them all"
    queue.base, queue.buffer = 3, queue.buffer[3 * ENTRY_BYTES :]
    with pytest.raises(FileNotFoundError):
        store.read(queue, 0, 32, 1 << 20)
    assert store.read(queue, 3, 32, 1 << 20).count == 1
    for number in range(4, 8):
        send(store, body=b"%d" % number)
    store.close()
    assert (tmp_path / "abort").exists(), "a stop proves nothing of it"
    store = opened(small(tmp_path))
    assert bodies(store) == [b"%d" % number for number in range(8)]
    assert len(bodies(store, "bills")) == 2
    settle(store)
    store.close()
    assert not (tmp_path / "abort").exists()
    assert not verify(small(tmp_path)).problems


def test_a_queue_without_its_file_takes_messages_as_long_as_memory_has_room(tmp_path: Path) -> None:
    """Then they are refused, with the file's name; others are taken."""
    store = opened(small(tmp_path))
    send(store)
    settle(store)
    file = next((tmp_path / "consumequeue/orders/0").iterdir())
    file.unlink()
    with pytest.raises(LogUnavailable, match=str(file)):
        for _ in range(10_000):
            send(store)
    send(store, "bills")
    store.abandon()


@pytest.mark.parametrize("number", [0, errno.EIO, errno.EOPNOTSUPP])
def test_very_many_files_are_synced_as_one_or_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Where the sync of everything does not succeed each file is asked."""
    monkeypatch.setattr("aerobee.storage.upkeep.queue_rounds.FILES_ONE_BY_ONE", 3)
    files = RefusedQueues()
    files.all_fails = number
    store = opened(small(tmp_path), files)
    for queue_id in range(5):
        send(store, queue_id=queue_id)
    syncs = store.flusher.fsyncs - store.flusher.log_fsyncs
    settle(store)
    synced = store.flusher.fsyncs - store.flusher.log_fsyncs - syncs
    assert (files.all_synced, synced) == (1, 1 if not number else 6)
    progress = read_progress(files, tmp_path)
    assert progress is not None and len(progress.queues) == 5
    store.close()


def test_the_checkpoint_names_what_the_files_have(tmp_path: Path) -> None:
    """What was appended since is in memory alone, and behind its sixth number."""
    store = opened(small(tmp_path))
    send(store)
    settle(store)
    end = store.commit_log.position
    send(store)
    page = (tmp_path / "checkpoint").read_bytes()
    place = CHECKPOINT_FIELDS.at("queue_position")
    assert CHECKPOINT_FIELDS.run("queue_position").unpack_from(page, place) == (end,)
    data = next((tmp_path / "consumequeue/orders/0").iterdir()).read_bytes()
    assert any(data[:20]) and not any(data[20:])
    store.close()


def test_other_threads_are_given_what_the_files_lack(tmp_path: Path) -> None:
    """A snapshot has the newest entries, and stays what it is."""
    store = opened(small(tmp_path))
    for _ in range(3):
        send(store)
    queue = store.queue("orders", 0)
    queue.write_out()
    for _ in range(4):
        send(store)
    lookup = FileLookup(store.files, store.commit_log.snapshot(), store.queues.root, 50)
    entries = lookup.entries(queue.snapshot())
    expected = [queue.entry(offset) for offset in range(7)]
    for _ in range(60):
        send(store)
    assert [entries.entry(offset) for offset in range(7)] == expected
    store.close()


def test_a_store_that_is_only_read_has_what_a_killed_broker_had_in_memory(tmp_path: Path) -> None:
    """Also more than a file of the queue holds, and of a queue that has no file yet."""
    store = opened(small(tmp_path))
    send(store, body=b"0")
    settle(store)
    for number in range(1, 120):
        send(store, body=b"%d" % number)
    send(store, "bills")
    store.abandon()

    class NoLock(Files):
        def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
            """Nothing is made here, or written."""
            if create or write:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return super().open(path, write=False)

    store = opened(small(tmp_path), NoLock())
    assert store.read_only
    assert bodies(store) == [b"%d" % number for number in range(120)]
    assert bodies(store, "bills") == [b"hello"]
    store.close()


class SlowJobs(HeldBackend):
    """Does what is given to a thread only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[Job, int]] = []

    def run(self, job: Job, token: int) -> None:
        """Keep it."""
        self.jobs.append((job, token))

    def work(self, flusher: Flusher) -> None:
        """Do what there is, and tell."""
        jobs, self.jobs = self.jobs, []
        self.done += [(token, outcome(job)) for job, token in jobs]
        flusher.on_readable()


@pytest.mark.parametrize("comes_again", [False, True])
def test_a_topic_that_is_deleted_while_its_file_is_made_leaves_none(
    tmp_path: Path, *, comes_again: bool
) -> None:
    """Nor does it take the file of the topic's next life away, or clear what that has written."""
    held = SlowJobs()
    store = opened(small(tmp_path))
    store.flusher._backend = store.flusher._rounds._backend = held
    send(store, body=b"of the first")
    store.flusher.flush_queues()
    assert store.delete_topic("orders")
    if comes_again:
        send(store, body=b"of the second")
        store.queue("orders", 0).write_out()
    held.work(store.flusher)
    folder = tmp_path / "consumequeue/orders"
    assert folder.exists() == comes_again
    assert len(bodies(store)) == comes_again
    store.abandon()
    store = opened(small(tmp_path))
    assert len(bodies(store)) == comes_again
    store.close()
    assert not verify(small(tmp_path)).problems


def test_a_file_made_for_a_deleted_topic_leaves_no_gap_in_its_next_life(tmp_path: Path) -> None:
    """It was to be a later file of the queue, of which the next life has the first alone."""
    held = SlowJobs()
    store = opened(small(tmp_path))
    for number in range(100):  # as many as two files have
        send(store, body=b"%d" % number)
    settle(store)
    store.flusher._backend = store.flusher._rounds._backend = held
    send(store, body=b"100")
    store.flusher.flush_queues()
    assert store.delete_topic("orders")
    send(store, body=b"of the second")
    store.queue("orders", 0).write_out()
    held.work(store.flusher)
    assert [span.begin for span in store.queue("orders", 0).spans()] == [0]
    store.abandon()
    store = opened(small(tmp_path))
    assert not store.queues.damaged
    assert bodies(store) == [b"of the second"]
    store.close()
    assert not verify(small(tmp_path)).problems


def test_a_full_disk_takes_no_log_whose_entries_are_in_memory_alone(tmp_path: Path) -> None:
    """A killed broker would give their offsets again; the next round lets the files go."""
    store = opened(small(tmp_path))
    for _ in range(3):
        send(store, queue_id=7)
    settle(store)
    for _ in range(5):
        send(store, queue_id=7)
    for _ in range(150):
        send(store, body=bytes(200))
    store.flusher.flush_log()
    assert store.flusher.drain(5)
    store.apply(small(tmp_path, disk_ratio_force=0.0001, disk_ratio_clean=0.0001))
    store.retention.disk.check()
    assert store.retention.clean(store.flusher.needed_from) == 0
    store.abandon()
    store = opened(small(tmp_path))
    assert store.queue("orders", 7).max_offset == 8
    settle(store)
    store.retention.apply(small(tmp_path, disk_ratio_force=0.0001, disk_ratio_clean=0.0001))
    store.retention.disk.check()
    assert store.retention.clean(store.flusher.needed_from) > 0
    assert store.queue("orders", 7).max_offset == 8
    store.close()


def test_a_check_of_a_killed_store_expects_no_entries_that_were_in_memory(tmp_path: Path) -> None:
    """They are counted; one that is missing before the checkpoint is a problem as ever."""
    store = opened(small(tmp_path))
    for _ in range(4):
        send(store)
    settle(store)
    for queue_id in (0, 0, 1):
        send(store, queue_id=queue_id)
    store.abandon()
    report = verify(small(tmp_path))
    assert not report.problems and report.unwritten == 3
    path = next((tmp_path / "consumequeue/orders/0").iterdir())
    data = bytearray(path.read_bytes())
    data[3 * ENTRY_BYTES : 4 * ENTRY_BYTES] = bytes(ENTRY_BYTES)
    path.write_bytes(data)
    assert verify(small(tmp_path)).problem_count == 1


def test_files_are_made_by_the_thread_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop makes none, and what is appended meanwhile is in the same files."""
    at_once = 4
    count = 2 * at_once + 3
    monkeypatch.setattr("aerobee.storage.upkeep.queue_rounds.FILES_PER_JOB", at_once)
    held = SlowJobs()
    store = opened(small(tmp_path))
    store.flusher._backend = store.flusher._rounds._backend = held
    for queue_id in range(count):
        send(store, queue_id=queue_id)
    store.flusher.flush_queues()
    monkeypatch.setattr("aerobee.storage.upkeep.queue_rounds.SLICE_S", 0)  # a slice is one queue
    made = 0
    while store.flusher._rounds.round is not None and not store.flusher._rounds.round.synced:
        before = sum(1 for _ in (tmp_path / "consumequeue").glob("*/*/*"))
        assert before == made
        held.work(store.flusher)
        made = sum(1 for _ in (tmp_path / "consumequeue").glob("*/*/*"))
        assert made - before <= at_once
        send(store, queue_id=count - 1)
        while held.waiting:
            held.complete(store.flusher, held.waiting[0])
    assert made == count
    store.abandon()


def test_a_stop_takes_the_time_that_it_makes_use_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It gives up where nothing completes for a while, and else says how much is left."""
    monkeypatch.setattr("aerobee.storage.upkeep.queue_rounds.FILES_PER_JOB", 1)
    monkeypatch.setattr("aerobee.storage.upkeep.flush.SAY_S", 0.02)
    monkeypatch.setattr("aerobee.storage.store.CLOSE_TIMEOUT_S", 1.0)
    caplog.set_level("INFO")
    slow = "aerobee.storage.upkeep.queue_rounds.open_made"

    def slowly(files: Files, path: Path, file_bytes: int) -> int:
        time.sleep(0.1)
        return open_made(files, path, file_bytes)

    monkeypatch.setattr(slow, slowly)
    store = opened(small(tmp_path))
    for queue_id in range(12):
        send(store, queue_id=queue_id)
    store.close()
    assert not (tmp_path / "abort").exists()
    lefts = [
        int(each.message.split("=")[1]) for each in caplog.records if "queues_left" in each.message
    ]
    assert len(lefts) > 3 and lefts == sorted(lefts, reverse=True)
