"""What the store notes as proven is so: at any moment, after any failure, after any stop."""

import errno
import os
from pathlib import Path
from typing import Final

import pytest
from support.disks.logs import ForgetfulFiles, append, bodies, opened, send, settle, small

from aerobee.storage.proofs.checkpoint import read_checkpoint
from aerobee.storage.proofs.progress import read_progress
from aerobee.storage.recovery.recovery import FLUSHED
from aerobee.storage.settings import SYNC_FLUSH
from aerobee.storage.verify import verify

ABORT: Final = "abort"
WRITTEN_FILE: Final = "aerobee.written"


class Failing(ForgetfulFiles):
    """Syncs of some files fail: those whose path holds a word, while there is one."""

    word = ""
    number = errno.EIO
    count = 1 << 30  # of failures that are left

    def sync(self, fd: int) -> None:
        """Fail, or keep the content."""
        if self.word and self.word in str(self.paths[fd]) and self.count > 0:
            self.count -= 1
            raise OSError(self.number, os.strerror(self.number))
        super().sync(fd)


def test_a_checkpoint_speaks_of_committed_records_only(tmp_path: Path) -> None:
    """A tick between an append and its commit proves nothing that is not in the log."""
    store = opened(small(tmp_path))
    for _ in range(40):
        append(store)
    store.commit_log.commit()
    append(store)
    store._queues_flushed_at = 0.0
    store.tick()
    store.commit_log.commit()
    store.flusher.drain(5)
    progress = read_progress(store.files, tmp_path)
    assert progress is not None and progress.queues == {("orders", 0): 41}
    assert progress.position == store.commit_log.committed
    store.abandon()
    store = opened(small(tmp_path))
    assert store.recovered.proof == FLUSHED
    assert len(bodies(store)) == 41
    store.close()


def test_a_round_commits_by_itself(tmp_path: Path) -> None:
    """Whoever begins it, and whatever was appended before."""
    store = opened(small(tmp_path))
    append(store)
    store.flusher.flush_queues()
    store.flusher.drain(5)
    progress = read_progress(store.files, tmp_path)
    assert progress is not None
    assert progress.position == store.commit_log.position == store.commit_log.committed > 0
    store.close()


def test_a_proof_of_what_lies_behind_it_is_not_written(tmp_path: Path) -> None:
    """Should a round ever pair a position with later entries, the older notes stay."""
    store = opened(small(tmp_path))
    send(store)
    settle(store)
    before = read_progress(store.files, tmp_path)
    send(store)
    queue = store.queue("orders", 0)
    with pytest.raises(AssertionError):
        store.checkpoints.put(queue, 2)
        store.checkpoints.job(before.position if before else 0, 1, 10_000)()
    assert read_progress(store.files, tmp_path) == before
    store.close()


def test_more_queue_files_than_the_kernel_takes_are_synced(tmp_path: Path) -> None:
    """64 queues of four unsynced files each: the checkpoint moves on, SYNC_FLUSH goes on."""
    settings = small(tmp_path, flush_mode=SYNC_FLUSH, queue_file_entries=10, segment_bytes=1 << 20)
    store = opened(settings)
    for _ in range(35):
        for queue_id in range(70):
            append(store, queue_id=queue_id, body=b"")
        store.commit_log.commit()
        store.tick()
    store.abandon()
    (tmp_path / "aerobee.progress").unlink()
    store = opened(settings)
    send(store)
    settle(store)
    store.flusher.flush_queues()
    answers: list[bool] = []
    for _ in range(3):
        send(store)
        store.flusher.request(store.commit_log.committed, answers.append)
    store.flusher.drain(20)
    assert answers == [True] * 3 and store.commit_log.refusal is None
    settle(store)
    progress = read_progress(store.files, tmp_path)
    assert progress is not None and progress.position == store.commit_log.committed
    store.close()
    assert not (tmp_path / ABORT).exists()


def test_after_a_failed_round_only_what_failed_is_synced_again(tmp_path: Path) -> None:
    """The files of other queues are on the disk, and the next checkpoint names them as well."""
    files = Failing()
    store = opened(small(tmp_path), files)
    for queue_id in range(30):
        append(store, queue_id=queue_id)
    store.commit_log.commit()
    store.flusher.flush_log()
    store.flusher.drain(5)
    files.word, files.count = "orders/7/", 1
    store.flusher.flush_queues()
    store.flusher.drain(5)
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.position == 0
    before = store.flusher.fsyncs
    store.flusher.flush_queues()
    store.flusher.drain(5)
    assert store.flusher.fsyncs == before + 1
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.position == store.commit_log.committed
    assert progress.queues == {("orders", queue_id): 1 for queue_id in range(30)}
    store.close()


def test_a_disk_that_fails_every_sync_fills_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A round names a few of the queues that failed, counts the rest, and doubts the disk once."""
    files = Failing()
    store = opened(small(tmp_path), files)
    for queue_id in range(200):
        append(store, queue_id=queue_id)
    store.commit_log.commit()
    store.flusher.flush_log()
    store.flusher.drain(5)
    files.word = "consumequeue"
    for _ in range(3):
        store.flusher.flush_queues()
        store.flusher.drain(5)
    assert len(caplog.records) < 50
    assert caplog.text.count("queue_sync_failed files=200 lines=10") == 3
    assert caplog.text.count("store_doubted") == 1
    files.word = ""
    store.flusher.flush_queues()
    store.flusher.drain(5)
    assert (progress := read_progress(files, tmp_path)) is not None
    assert len(progress.queues) == 200
    store.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_a_stop_after_failed_queue_syncs_is_no_clean_stop(tmp_path: Path, number: int) -> None:
    """`abort` stays, the notes speak of what was synced before, and the next start checks."""
    files = Failing()
    store = opened(small(tmp_path), files)
    send(store)
    settle(store)
    proven = read_progress(files, tmp_path)
    stamp = read_checkpoint(files, tmp_path)
    for _ in range(99):
        send(store)
    files.word, files.number = "consumequeue", number
    store.close()
    assert (tmp_path / ABORT).exists()
    assert read_progress(files, tmp_path) == proven
    assert read_checkpoint(files, tmp_path) == stamp
    assert not (tmp_path / WRITTEN_FILE).exists()
    files.word = ""
    store = opened(small(tmp_path), files)
    assert not store.recovered.noted and store.recovered.records == 99
    assert len(bodies(store)) == 100
    store.close()
    assert not (tmp_path / ABORT).exists()
    assert not verify(small(tmp_path)).problems


class FailingWrites(ForgetfulFiles):
    """Writes fail while `failing`, but for the first bytes of each."""

    failing = False

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Write, or do so in part."""
        super().write(fd, data[: len(data) // 2] if self.failing else data, at)
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_stop_after_a_failed_write_is_no_clean_stop(tmp_path: Path) -> None:
    """What of it reached the file must be cleared by the next start; queues agree with the log."""
    files = FailingWrites()
    store = opened(small(tmp_path, flush_mode=SYNC_FLUSH), files)
    send(store)
    for _ in range(3):
        append(store, body=bytes(500))
    files.failing = True
    store.tick()
    assert store.commit_log.refusal is not None and store.commit_log.losses == 1
    files.failing = False
    store.close()
    assert (tmp_path / ABORT).exists()
    store = opened(small(tmp_path, flush_mode=SYNC_FLUSH), files)
    assert bodies(store)[0] == b"hello"
    send(store, body=b"next")
    assert bodies(store)[-1] == b"next"
    store.close()
    assert not verify(small(tmp_path)).problems


def test_a_close_that_fails_lets_go_of_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Some systems tell of an error only then; the lock is free all the same."""
    files = Failing()
    store = opened(small(tmp_path), files)
    send(store)
    real = files.close

    def close(fd: int) -> None:
        real(fd)
        if "commitlog" in str(files.paths.get(fd)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.close = close  # type: ignore[method-assign]
    store.close()
    assert "store_close_failed" in caplog.text
    del files.close
    store = opened(small(tmp_path), files)
    assert bodies(store) == [b"hello"]
    store.close()
