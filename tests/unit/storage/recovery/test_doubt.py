"""After a failed sync nothing is believed that the disk does not have, and nothing readable goes.

The disk of these tests is Linux's: what could not be written counts as clean from then on, so the
next sync succeeds and says nothing of it, and dropping the cache shows what the disk has.
"""

import random
from pathlib import Path

import pytest
from support.disks.caching_disk import CachingFiles, check_all_is_durable
from support.disks.logs import append, bodies, opened, send, settle, small

from aerobee.storage.errors import LogUnavailable
from aerobee.storage.layout import BOOT_NOTE, DOUBT
from aerobee.storage.proofs.progress import read_progress
from aerobee.storage.settings import SYNC_FLUSH, StoreSettings
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify


def after_a_failed_sync(
    settings: StoreSettings, files: CachingFiles, word: str = "commitlog"
) -> MessageStore:
    """A store with one message that is on the disk, and 40 whose sync has failed."""
    store = opened(settings, files)
    send(store, body=b"durable")
    settle(store)
    for number in range(40):
        send(store, body=b"%d" % number + bytes(200))
    files.word = word
    answers: list[bool] = []
    store.flusher.request(store.commit_log.committed, answers.append)
    store.flusher.drain(5)
    if word == "commitlog":
        assert answers == [False]
        with pytest.raises(LogUnavailable, match="sync of the log failed"):
            append(store)
    return store


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_writes_anew_what_was_not_synced(tmp_path: Path, how: str) -> None:
    """It does not take the same bytes for durable because the next sync succeeds."""
    settings, files = small(tmp_path, flush_mode=SYNC_FLUSH), CachingFiles()
    store = after_a_failed_sync(settings, files)
    assert not (tmp_path / BOOT_NOTE).exists() and (tmp_path / DOUBT).exists()
    store.close() if how == "stopped" else store.abandon()
    assert (tmp_path / "abort").exists()
    files.word = ""
    check_all_is_durable(settings, files)
    assert not (tmp_path / DOUBT).exists()


def test_a_checkpoint_under_way_withdraws_no_later_doubt(tmp_path: Path) -> None:
    """It proves what lies before it; of the log's sync that failed meanwhile it says nothing."""
    settings, files = small(tmp_path, flush_mode=SYNC_FLUSH), CachingFiles()
    store = opened(settings, files)
    send(store, body=b"durable")
    store.flusher.flush_log()
    store.flusher.drain(5)
    store.flusher.flush_queues()
    for number in range(40):
        send(store, body=b"%d" % number + bytes(200))
    files.word = "commitlog"
    answers: list[bool] = []
    store.flusher.request(store.commit_log.committed, answers.append)
    assert store.flusher.drain(5)
    assert answers == [False]
    assert not (tmp_path / BOOT_NOTE).exists() and (tmp_path / DOUBT).exists()
    store.abandon()
    files.word = ""
    check_all_is_durable(settings, files)


def test_entries_of_lost_messages_do_not_come_back(tmp_path: Path) -> None:
    """Two power losses: what was cut from a queue after the first is not there after the second.

    Else it would stand against the message that has got its offset meanwhile.
    """
    settings, files = small(tmp_path, flush_mode=SYNC_FLUSH), CachingFiles()
    store = opened(settings, files)
    for queue_id in (0, 1):
        send(store, queue_id=queue_id)
    settle(store)
    send(store, queue_id=1, body=b"its entry is on the disk, the message is not")
    files.word = "commitlog"
    store.flusher.flush_queues()
    store.flusher.drain(5)
    store.abandon()
    files = files.power_off(tmp_path)
    store = opened(settings, files)
    answers: list[bool] = []
    for queue_id in (0, 0, 1):
        send(store, queue_id=queue_id, body=b"acknowledged %d" % queue_id)
    store.flusher.request(store.commit_log.committed, answers.append)
    store.flusher.drain(5)
    assert answers == [True]
    store.abandon()
    store = opened(settings, files.power_off(tmp_path))
    assert not store.damage
    assert bodies(store, queue_id=0) == [b"hello", b"acknowledged 0", b"acknowledged 0"]
    assert bodies(store, queue_id=1) == [b"hello", b"acknowledged 1"]
    store.close()
    assert not verify(settings).problems


@pytest.mark.parametrize("refused", [DOUBT, "aerobee"])
def test_a_disk_that_takes_no_note_is_doubted_all_the_same(tmp_path: Path, refused: str) -> None:
    """By the boot note's page in memory, or because nothing is left of the boot note."""
    settings, files = small(tmp_path, flush_mode=SYNC_FLUSH), CachingFiles()
    store = opened(settings, files)
    store.close()
    files.refused = ""
    store = opened(settings, files)
    files.refused = refused
    send(store, body=b"durable")
    store.flusher.flush_log()
    store.flusher.drain(5)
    for number in range(40):
        send(store, body=b"%d" % number + bytes(200))
    files.word = "commitlog"
    store.flusher.flush_log()
    store.flusher.drain(5)
    send(store) if store.commit_log.writable else None
    store.close()
    assert not (tmp_path / DOUBT).exists()
    assert (tmp_path / BOOT_NOTE).exists() == (refused == "aerobee")
    files.refused = files.word = ""
    check_all_is_durable(settings, files)


def test_a_start_that_is_killed_loses_nothing_that_could_be_read(tmp_path: Path) -> None:
    """After each of its writes; the note stays until everything is synced."""
    settings, files = small(tmp_path, flush_mode=SYNC_FLUSH), CachingFiles()
    after_a_failed_sync(settings, files).abandon()
    files.word = ""
    for writes in range(3):
        files.writes_left = writes
        store = MessageStore(settings, files)
        try:
            store.open()
        except KeyboardInterrupt:
            assert (tmp_path / DOUBT).exists() or writes == 2
        else:
            store.abandon()
    files.writes_left = 1 << 30
    store = opened(settings, files)
    assert len(bodies(store)) == 41
    settle(store)
    store.abandon()
    store = opened(settings, files.power_off(tmp_path))
    assert len(bodies(store)) == 41
    store.close()


def test_a_disk_that_fails_still_is_only_read(tmp_path: Path) -> None:
    """The store opens for reading, says so, keeps the note; a later start mends it."""
    settings, files = small(tmp_path, flush_mode=SYNC_FLUSH), CachingFiles()
    after_a_failed_sync(settings, files).close()
    store = opened(settings, files)
    assert store.read_only and len(bodies(store)) == 41
    store.close()
    assert (tmp_path / DOUBT).exists()
    files.word = ""
    check_all_is_durable(settings, files)


@pytest.mark.parametrize("content", [b"", bytes(20), b"AERODBT1" + bytes(12)])
def test_a_note_that_was_torn_stands_for_what_was_proven(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It is believed that there was a doubt, and not that it was of the whole log."""
    settings, files = small(tmp_path, flush_mode=SYNC_FLUSH), CachingFiles()
    after_a_failed_sync(settings, files).close()
    proven = read_progress(files, tmp_path)
    (tmp_path / DOUBT).write_bytes(content)
    files.word = ""
    check_all_is_durable(settings, files)
    assert proven is not None and proven.position > 0
    assert f"store_written_anew path={tmp_path} position={proven.position}" in caplog.text


def test_what_the_kernel_has_dropped_is_found_missing(tmp_path: Path) -> None:
    """Of lost pages nothing can be had; the log ends before them, and nothing is proven there."""
    settings, files = small(tmp_path, flush_mode=SYNC_FLUSH), CachingFiles()
    store = after_a_failed_sync(settings, files)
    store.abandon()
    files.word = ""
    log_file = next((tmp_path / "commitlog").iterdir())
    with log_file.open("r+b") as file:  # under memory pressure the pages were let go
        file.write(files.durable[log_file])
    store = opened(settings, files)
    assert bodies(store)[0] == b"durable" and len(bodies(store)) < 41
    store.close()
    assert not verify(settings).problems


def test_queue_entries_are_written_anew_while_the_broker_runs(tmp_path: Path) -> None:
    """After one failed sync the next checkpoint is true, and ends the doubt."""
    settings, files = small(tmp_path), CachingFiles()
    store = after_a_failed_sync(settings, files, "consumequeue")
    store.flusher.flush_queues()
    store.flusher.drain(5)
    assert (tmp_path / DOUBT).exists() and not (tmp_path / BOOT_NOTE).exists()
    files.word = ""
    settle(store)
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.queues == {("orders", 0): 41}
    assert not (tmp_path / DOUBT).exists() and (tmp_path / BOOT_NOTE).exists()
    queue_file = next((tmp_path / "consumequeue/orders/0").iterdir())
    assert files.durable[queue_file] == queue_file.read_bytes()
    store.close()
    assert not verify(settings).problems


def test_lost_queue_entries_are_never_proven(tmp_path: Path) -> None:
    """Where the kernel has dropped them no checkpoint speaks of them; the next start has them."""
    settings, files = small(tmp_path), CachingFiles()
    store = after_a_failed_sync(settings, files, "nothing")
    for queue in store.queues:
        queue.close()  # else they are in memory as well
    queue_file = next((tmp_path / "consumequeue/orders/0").iterdir())
    proven = read_progress(files, tmp_path)
    with queue_file.open("r+b") as file:
        file.seek(20 * 20)
        file.write(bytes(60))
    files.word = "consumequeue"
    store.flusher.flush_queues()
    store.flusher.drain(5)
    files.word = ""
    settle(store)
    assert read_progress(files, tmp_path) == proven
    store.close()
    assert read_progress(files, tmp_path) == proven and (tmp_path / "abort").exists()
    store = opened(settings, files)
    assert len(bodies(store)) == 41
    store.close()
    assert not verify(settings).problems


@pytest.mark.parametrize("seed", range(4))
def test_failures_kills_and_power_losses_in_any_order(tmp_path: Path, seed: int) -> None:
    """Whatever was reported durable is there, however the lives of the store end."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    settings, files = small(tmp_path, flush_mode=SYNC_FLUSH), CachingFiles()
    sent, durable = 0, 0
    for _ in range(6):
        files.word = ""
        store = opened(settings, files)
        found = len(bodies(store))
        assert durable <= found <= sent
        sent = found
        for _ in range(chance.randint(1, 12)):
            files.word = chance.choice(("", "", "", "commitlog", "consumequeue"))
            try:
                send(store, body=bytes(chance.choice((10, 900))))
                sent += 1
            except LogUnavailable:
                break
            count = sent

            def done(ok: bool, count: int = count) -> None:
                nonlocal durable
                durable = max(durable, count if ok else 0)

            store.flusher.request(store.commit_log.committed, done)
            if chance.random() < 0.5:
                store.flusher.drain(5)
            if chance.random() < 0.3:
                settle_once(store)
        if chance.random() < 0.5:
            store.close()
        else:
            store.abandon()
        if chance.random() < 0.4:
            files = files.power_off(tmp_path)
    files.word = ""
    store = opened(settings, files)
    assert len(bodies(store)) >= durable
    store.close()
    assert not verify(settings).problems


def settle_once(store: MessageStore) -> None:
    """One round of log and queues, whatever becomes of it."""
    store._queues_flushed_at = 0.0
    store.tick()
    store.flusher.drain(5)
