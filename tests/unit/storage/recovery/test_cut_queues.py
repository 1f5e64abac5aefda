"""Queues that a start cuts back to the log, on a disk that fails while it is told."""

from pathlib import Path

import pytest
from support.disks.caching_disk import CachingFiles
from support.disks.logs import bodies, opened, send, settle, small

from aerobee.storage.layout import ENTRY_BYTES, file_name
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.recovery import writing_start
from aerobee.storage.verify import verify

QUEUE_FILE = Path("consumequeue/orders/0") / file_name(0)


def left_over(root: Path, files: CachingFiles, offset: int, position: int) -> None:
    """Let the disk have an entry of a message that a loss of power took from the log."""
    fd = files.open(root / QUEUE_FILE)
    files.write(fd, ENTRY.pack(position, 101, 0), offset * ENTRY_BYTES)
    files.sync(fd)
    files.close(fd)


def forget_memory(root: Path, files: CachingFiles) -> None:
    """Let memory be short: what counts as clean is read from the disk again."""
    fd = files.open(root / QUEUE_FILE)
    files.drop_cache(fd, 0, (root / QUEUE_FILE).stat().st_size)
    files.close(fd)


@pytest.fixture
def files(tmp_path: Path) -> CachingFiles:
    """The disk of a store that lost its power: three messages, and one more entry."""
    files = CachingFiles()
    store = opened(small(tmp_path), files)
    places = [send(store) for _ in range(3)]
    settle(store)
    end = store.commit_log.position
    store.abandon()
    files.boot += 1
    left_over(tmp_path, files, 3, end + places[1])
    return files


def test_an_entry_that_was_cut_off_stays_away_after_a_failed_sync(
    tmp_path: Path, files: CachingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes the page for clean then, and the next sync says nothing of it."""
    monkeypatch.setattr(writing_start, "RETRY_INTERVAL_S", 0.0)
    files.word = "consumequeue"
    store = opened(small(tmp_path), files)
    assert store.commit_log.refusal is not None
    files.word = ""
    store.tick()
    assert store.commit_log.refusal is None
    settle(store)
    for _ in range(2):
        send(store, "other", body=bytes(300))
    store.abandon()
    forget_memory(tmp_path, files)
    store = opened(small(tmp_path), files)
    assert len(bodies(store)) == store.queue("orders", 0).max_offset == 3
    store.close()
    assert not verify(small(tmp_path)).problems


def test_what_the_start_wrote_is_proven_only_when_it_was_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round over the queues that succeeds before the retry does not speak of dropped pages."""
    monkeypatch.setattr(writing_start, "RETRY_INTERVAL_S", 1e9)
    files = CachingFiles()
    store = opened(small(tmp_path), files)
    for _ in range(3):
        send(store)
    settle(store)
    place = send(store, "other")
    send(store)
    store.flusher.request(store.commit_log.committed, lambda ok: None)
    store.flusher.drain(5)
    store.abandon()
    files.boot += 1
    left_over(tmp_path, files, 3, place)
    files.word = "consumequeue"
    store = opened(small(tmp_path), files)
    assert store.commit_log.refusal is not None and not store.read_only
    assert len(bodies(store)) == 4
    files.word = ""
    settle(store)
    store.abandon()
    forget_memory(tmp_path, files)
    files.boot += 1
    store = opened(small(tmp_path), files)
    assert len(bodies(store)) == 4
    store.close()
    assert not verify(small(tmp_path)).problems
