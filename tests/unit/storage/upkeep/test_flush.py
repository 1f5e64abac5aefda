"""Group commit, time-outs, failing disks, and what a checkpoint waits for."""

import errno
import gc
from functools import partial
from pathlib import Path

import pytest
from support.disks.logs import ForgetfulFiles, append, bodies, opened, send, settle, small

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.maps import WITHOUT_NUMBERS
from aerobee.storage.errors import LogUnavailable
from aerobee.storage.proofs.checkpoint import read_checkpoint
from aerobee.storage.proofs.progress import ProgressTable, read_progress
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.settings import SYNC_FLUSH


def test_many_requests_share_one_sync(tmp_path: Path) -> None:
    """Requests made while a sync is under way are answered by the next one, all together."""
    store = opened(small(tmp_path, flush_mode=SYNC_FLUSH), ForgetfulFiles())
    answers: list[tuple[int, bool]] = []

    def note(number: int, ok: bool) -> None:
        answers.append((number, ok))

    for number in range(10):
        send(store)
        position = store.commit_log.committed
        store.flusher.request(position, partial(note, number))
    assert answers == []
    assert store.flusher.busy
    store.flusher.on_readable()
    assert answers == [(0, True)]
    store.flusher.on_readable()
    assert answers == [(number, True) for number in range(10)]
    assert store.flusher.log_fsyncs == 2
    assert store.commit_log.flushed_position == store.commit_log.position
    store.flusher.request(store.commit_log.position, lambda ok: answers.append((99, ok)))
    assert answers[-1] == (99, True), "what is on the disk already needs no sync"
    store.close()


def test_a_request_is_given_up_in_time(tmp_path: Path) -> None:
    """After sync_flush_timeout_ms the answer is False; the message stays and gets flushed."""
    now = 100.0
    store = opened(small(tmp_path, flush_mode=SYNC_FLUSH), ForgetfulFiles())
    store.flusher._clock = lambda: now
    answers: list[bool] = []
    send(store)
    store.flusher.request(store.commit_log.committed, answers.append)
    store.flusher.poll_timeouts()
    assert answers == []
    now += 5.1
    store.flusher.poll_timeouts()
    assert answers == [False]
    store.flusher.on_readable()
    assert answers == [False], "an answer is given once"
    assert store.flusher.timeouts == 1
    assert store.commit_log.flushed_position == store.commit_log.committed
    store.close()


def test_a_failed_sync_ends_writing(tmp_path: Path) -> None:
    """Nobody knows what the disk has after it: waiting requests fail, and so does every append."""
    files = ForgetfulFiles()
    store = opened(small(tmp_path, flush_mode=SYNC_FLUSH), files)
    answers: list[bool] = []
    send(store)
    files.fail_sync = errno.EIO
    store.flusher.request(store.commit_log.committed, answers.append)
    store.flusher.on_readable()
    assert answers == [False]
    with pytest.raises(LogUnavailable, match="sync of the log failed"):
        append(store)
    store.flusher.request(store.commit_log.committed, answers.append)
    assert answers == [False, False]
    assert bodies(store) == [b"hello"]
    files.fail_sync = 0
    store.close()
    assert (tmp_path / "abort").exists(), "the next start has to check"


def test_a_failed_queue_sync_only_delays_the_checkpoint(tmp_path: Path) -> None:
    """Queues can be written again, so nothing is refused; the next round covers all of them."""
    files = ForgetfulFiles()
    store = opened(small(tmp_path), files)
    send(store)
    store.flusher.flush_log()
    store.flusher.on_readable()
    files.fail_sync = errno.EIO
    store.flusher.flush_queues()
    assert store.flusher.drain(5)
    files.fail_sync = 0
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.position == 0
    send(store)
    settle(store)
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.position == store.commit_log.position
    assert progress.queues == {("orders", 0): 2}
    store.close()


def test_checkpoints_that_find_no_room_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk may be full for days: one line when it begins, one when it is over."""
    caplog.set_level("INFO")
    store = opened(small(tmp_path), ForgetfulFiles())
    written = store.flusher.on_checkpoint

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store.flusher.on_checkpoint = lambda round_: full
    for _ in range(5):
        send(store)
        settle(store)
    store.flusher.on_checkpoint = written
    for _ in range(2):
        send(store)
        settle(store)
    told = [line.getMessage() for line in caplog.records if "checkpoint_" in line.getMessage()]
    assert len(told) == 2
    assert told[0] == f"checkpoint_failed errno={errno.ENOSPC} path={store.settings.root}"
    assert told[1].startswith("checkpoint_written_again failed=")
    store.close()


def test_a_checkpoint_needs_log_and_queues_on_the_disk(tmp_path: Path) -> None:
    """Both checkpoint files name the newest message only after its bytes and entry are synced."""
    files = ForgetfulFiles()
    store = opened(small(tmp_path), files)
    send(store, now_ms=1_800_000_000_000)
    store.flusher.flush_queues()
    send(store, now_ms=1_800_000_000_007)
    assert read_checkpoint(files, tmp_path).log_timestamp == 0
    store.flusher.drain(5)
    checkpoint = read_checkpoint(files, tmp_path)
    assert checkpoint.log_timestamp == checkpoint.queue_timestamp == 1_800_000_000_000
    assert checkpoint.safe_timestamp == 1_800_000_000_000 - 3000
    settle(store)
    assert read_checkpoint(files, tmp_path).log_timestamp == 1_800_000_000_007
    store.close()


def test_many_queues_are_synced_in_portions(tmp_path: Path) -> None:
    """A round of 150 queues is three submissions and one checkpoint."""
    store = opened(small(tmp_path))
    for queue_id in range(150):
        append(store, queue_id=queue_id)
    store.commit_log.commit()
    settle(store)
    assert store.flusher.fsyncs == 150 + store.flusher.log_fsyncs
    progress = read_progress(store.files, tmp_path)
    assert progress is not None and len(progress.queues) == 150
    store.close()


def test_ticks_flush_what_nobody_asked_for(tmp_path: Path) -> None:
    """With ASYNC_FLUSH a tick begins a sync, and one without new messages does not."""
    store = opened(small(tmp_path))
    send(store)
    settle(store)
    count = store.flusher.log_fsyncs
    assert count >= 1
    store.tick()
    store.flusher.drain(5)
    assert store.flusher.log_fsyncs == count
    store.close()


def test_a_round_looks_at_changed_queues_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queues that rest are neither synced nor encoded again, and empty ones never noted."""
    store = opened(small(tmp_path))
    for queue_id in range(30):
        append(store, queue_id=queue_id)
    for queue_id in range(30, 60):
        store.queue("orders", queue_id)  # as a consumer asks for it
    store.commit_log.commit()
    settle(store)
    progress = read_progress(store.files, tmp_path)
    assert progress is not None
    assert progress.queues == {("orders", queue_id): 1 for queue_id in range(30)}
    put: list[tuple[str, int, int]] = []
    real = ProgressTable.put

    def noted(table: ProgressTable, topic: str, queue_id: int, max_offset: int) -> None:
        put.append((topic, queue_id, max_offset))
        real(table, topic, queue_id, max_offset)

    monkeypatch.setattr(ProgressTable, "put", noted)
    before = store.flusher.fsyncs - store.flusher.log_fsyncs
    for queue_id in (3, 45, 3):
        send(store, queue_id=queue_id)
    settle(store)
    assert store.flusher.fsyncs - store.flusher.log_fsyncs == before + 2
    assert sorted(put) == [("orders", 3, 3), ("orders", 45, 1)]
    progress = read_progress(store.files, tmp_path)
    assert progress is not None
    assert progress.queues == {("orders", queue_id): 1 for queue_id in range(30)} | {
        ("orders", 3): 3, ("orders", 45): 1,
    }  # fmt: skip
    assert progress.position == store.commit_log.position
    store.abandon()
    store = opened(small(tmp_path))
    send(store, queue_id=7)
    settle(store)
    progress = read_progress(store.files, tmp_path)
    assert progress is not None and len(progress.queues) == 31
    assert (progress.queues["orders", 7], progress.queues["orders", 45]) == (2, 1)
    store.close()


def test_a_round_without_file_numbers_only_delays_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be opened was not synced, so nothing is promised of it until it is."""
    store = opened(small(tmp_path))
    send(store)
    settle(store)
    position = store.commit_log.position
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for queue_id in range(3):
        send(store, queue_id=queue_id)
    real, opens = Files.open, iter(range(100))

    def refuses(files: Files, path: Path, *, create: bool = False, write: bool = True) -> int:
        if path.parent.name.isdecimal() and next(opens) > 0:
            raise OSError(errno.EMFILE, "too many open files")
        return real(files, path, create=create, write=write)

    monkeypatch.setattr(Files, "open", refuses)
    store.flusher.flush_queues()
    assert store.flusher.drain(5)
    progress = read_progress(store.files, tmp_path)
    assert progress is not None and progress.position == position
    monkeypatch.setattr(Files, "open", real)
    settle(store)
    progress = read_progress(store.files, tmp_path)
    assert progress is not None
    assert progress.queues == {("orders", 0): 2, ("orders", 1): 1, ("orders", 2): 1}
    gc.collect()
    maps = 0 if WITHOUT_NUMBERS else 2
    assert len(list(Path("/proc/self/fd").iterdir())) == before + maps
    store.close()


def test_a_round_over_many_queues_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One portion after the other looks at its queues: thousands do not stop the loop."""
    store = opened(small(tmp_path), ForgetfulFiles())
    for number in range(400):
        append(store, topic=f"t{number}")
    entry, looked = ConsumeQueue.entry, [0]

    def counted(queue: ConsumeQueue, offset: int) -> tuple[int, int, int]:
        looked[-1] += 1
        return entry(queue, offset)

    monkeypatch.setattr(ConsumeQueue, "entry", counted)
    monkeypatch.setattr("aerobee.storage.upkeep.queue_rounds.SLICE_S", 1e-9)
    store.flusher.flush_queues()
    while store.flusher.busy:
        looked.append(0)
        store.flusher.on_readable()
    assert sum(looked) == 400
    assert max(looked) == 1
    progress = read_progress(store.files, tmp_path)
    assert progress is not None and len(progress.queues) == 400
    assert progress.position == store.commit_log.position
    store.close()
