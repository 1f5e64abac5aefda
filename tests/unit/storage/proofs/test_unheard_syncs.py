"""A process that is killed before it hears that its sync has failed leaves a word of it.

Only the process that asks is told, once; the next one would take bytes for durable that the disk
has never got. So a start believes no more than what no sync had under way.
"""

from pathlib import Path
from typing import Final

import pytest
from support.disks.caching_disk import CachingFiles, check_all_is_durable
from support.disks.logs import bodies, opened, send, settle, small

from aerobee.storage.layout import BOOT_NOTE, DOUBT, PROGRESS
from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.proofs.progress import read_progress
from aerobee.storage.proofs.syncs import SYNCS, SYNCS_AT
from aerobee.storage.recovery.recovery import FLUSHED, SYNCED
from aerobee.storage.settings import ASYNC_FLUSH, SYNC_FLUSH, StoreSettings
from aerobee.storage.store import MessageStore
from aerobee.storage.tools.repairing import Repairer
from aerobee.storage.verify import verify

MODES: Final = (SYNC_FLUSH, ASYNC_FLUSH)


def killed_in_a_sync(
    settings: StoreSettings, files: CachingFiles, fails: str, *, count: int = 40
) -> int:
    """Leave one message that is on the disk, and others whose sync nobody has heard the end of.

    `fails` is part of the paths whose sync the kernel has failed, "nothing" for none. Returns where
    the log ends.
    """
    store = opened(settings, files)
    send(store, body=b"durable")
    settle(store)
    for number in range(count):
        send(store, body=b"%d" % number + bytes(200))
    files.word = fails
    if fails == "consumequeue":
        store.flusher.flush_log()
        store.flusher.drain(5)
        store.flusher.flush_queues()
    else:
        store.flusher.flush_log()
    assert store.flusher.busy
    store.abandon()
    assert not (settings.root / DOUBT).exists(), "it was killed before it could note anything"
    files.word = ""
    return store.commit_log.committed


@pytest.mark.parametrize("mode", MODES)
def test_a_log_whose_sync_failed_unheard_is_brought_to_the_disk(tmp_path: Path, mode: str) -> None:
    """All that could be read is there after a loss of power, once it is called durable."""
    settings, files = small(tmp_path, flush_mode=mode), CachingFiles()
    killed_in_a_sync(settings, files, "commitlog")
    check_all_is_durable(settings, files)


@pytest.mark.parametrize("mode", MODES)
def test_queues_whose_sync_failed_unheard_are_brought_to_the_disk(
    tmp_path: Path, mode: str
) -> None:
    """The next checkpoint speaks of entries that the disk has."""
    settings, files = small(tmp_path, flush_mode=mode), CachingFiles()
    killed_in_a_sync(settings, files, "consumequeue")
    store = opened(settings, files)
    assert store.recovered.proof == FLUSHED and len(bodies(store)) == 41
    settle(store)
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.queues == {("orders", 0): 41}
    store.abandon()
    queue_file = next((tmp_path / "consumequeue/orders/0").iterdir())
    assert files.durable[queue_file] == queue_file.read_bytes()


def test_entries_that_were_dropped_are_written_again(tmp_path: Path) -> None:
    """The kernel has let go of a page of a queue in the middle: the log has the messages."""
    settings, files = small(tmp_path, queue_file_entries=500), CachingFiles()
    killed_in_a_sync(settings, files, "consumequeue", count=300)
    queue_file = next((tmp_path / "consumequeue/orders/0").iterdir())
    with queue_file.open("r+b") as file:
        file.write(files.durable[queue_file][:4096])
    store = opened(settings, files)
    assert len(bodies(store)) == 301
    store.close()
    assert not verify(settings).problems


@pytest.mark.parametrize("mode", MODES)
def test_the_log_ends_where_it_was_written_though_pages_were_dropped(
    tmp_path: Path, mode: str
) -> None:
    """What is lost is a damaged span: its offsets are not given again, what follows is there."""
    settings, files = small(tmp_path, flush_mode=mode), CachingFiles()
    end = killed_in_a_sync(settings, files, "commitlog")
    log_file = next((tmp_path / "commitlog").iterdir())
    with log_file.open("r+b") as file:  # of three pages one was let go
        file.seek(4096)
        file.write(files.durable[log_file][4096:8192])
    store = opened(settings, files)
    assert store.recovered.position == end
    (span,) = store.damage
    assert 0 < span.begin <= 4096 and 8192 <= span.end < end
    (taken,) = span.queues
    assert (taken[0], taken[1]) == ("orders", 0)
    found = bodies(store)
    assert found[0] == b"durable" and found[-1].startswith(b"39\0")
    assert len(found) == 41 - (taken[3] - taken[2] + 1)
    send(store, body=b"next")
    queue = store.find_queue("orders", 0)
    assert queue is not None and queue.max_offset == 42
    store.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_kill_within_a_sound_sync_costs_what_was_under_way(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not the log: it is read from where the sync began, and written anew without waiting."""
    caplog.set_level("INFO")
    settings, files = small(tmp_path, flush_mode=mode), CachingFiles()
    store = opened(settings, files)
    for number in range(30):
        send(store, body=b"%d" % number + bytes(300))
    settle(store)
    store.close()
    end = killed_in_a_sync(settings, files, "nothing", count=3)
    syncs = files.syncs
    store = MessageStore(settings, files)
    store._start_writing = lambda lock_fd: None  # type: ignore[method-assign]
    store.open()
    assert (store.recovered.proof, store.recovered.records) == (FLUSHED, 3)
    assert store.recovered.position == end
    assert files.syncs == syncs, "nothing waits for the disk"
    (line,) = [each for each in caplog.messages if each.startswith("store_sync_unheard")]
    assert int(line.rpartition("bytes=")[2]) < 3 * 4096 + 16 * 1024
    store.abandon()


@pytest.mark.parametrize("mode", MODES)
def test_what_no_sync_had_under_way_is_believed(tmp_path: Path, mode: str) -> None:
    """All flushed and killed; stopped: nothing is read, as long as the machine runs."""
    settings, files = small(tmp_path, flush_mode=mode), CachingFiles()
    store = opened(settings, files)
    send(store)
    settle(store)
    store.abandon()
    store = opened(settings, files)
    assert (store.recovered.proof, store.recovered.records) == (FLUSHED, 0)
    send(store)
    store.close()
    assert BootNote(files, tmp_path).unheard() is None
    store = opened(settings, files)
    assert (store.recovered.proof, store.recovered.records) == (FLUSHED, 0)
    store.close()


def test_what_is_not_yet_on_its_way_is_believed(tmp_path: Path) -> None:
    """With ASYNC_FLUSH messages wait half a second for a sync; a kill then costs no message."""
    settings, files = small(tmp_path), CachingFiles()
    store = opened(settings, files)
    send(store)
    store.abandon()
    store = opened(settings, files)
    assert (store.recovered.proof, store.recovered.records) == (FLUSHED, 1)
    store.close()


@pytest.mark.parametrize("fails", ["commitlog", "consumequeue"])
def test_starts_that_are_killed_leave_the_word(tmp_path: Path, fails: str) -> None:
    """After each of their writes, again and again: the last one finds the same doubt, and all."""
    settings, files = small(tmp_path), CachingFiles()
    killed_in_a_sync(settings, files, fails)
    starts = 0
    for writes in range(12):
        files.writes_left = writes
        store = MessageStore(settings, files)
        try:
            store.open()
        except KeyboardInterrupt:
            starts += 1
            assert BootNote(files, tmp_path).unheard() is not None
        else:
            break
    assert starts > 2
    store.abandon()
    files.writes_left = 1 << 30
    check_all_is_there(settings, files)


def check_all_is_there(settings: StoreSettings, files: CachingFiles) -> None:
    """Open, wait until all is called durable, lose the power."""
    store = opened(settings, files)
    assert len(bodies(store)) == 41
    settle(store)
    store.abandon()
    store = opened(settings, files.power_off(settings.root))
    assert len(bodies(store)) == 41 and not store.damage
    store.close()
    assert not verify(settings).problems


def test_without_progress_the_checkpoint_says_what_the_disk_has(tmp_path: Path) -> None:
    """A topic was deleted, and the process killed before the next note of our progress."""
    settings, files = small(tmp_path), CachingFiles()
    killed_in_a_sync(settings, files, "consumequeue")
    (tmp_path / PROGRESS).unlink()
    check_all_is_there(settings, files)


@pytest.mark.parametrize("progress", [True, False])
def test_a_note_of_a_version_without_words_is_doubted(tmp_path: Path, *, progress: bool) -> None:
    """It does not say whether a sync was under way, so one may have been."""
    settings, files = small(tmp_path), CachingFiles()
    killed_in_a_sync(settings, files, "commitlog")
    with (tmp_path / BOOT_NOTE).open("r+b") as file:
        file.seek(SYNCS_AT)
        file.write(bytes(SYNCS.size))
    if not progress:
        (tmp_path / PROGRESS).unlink()
        store = opened(settings, files)
        assert (store.recovered.proof, store.recovered.records) == (SYNCED, 40), "not all the log"
        store.abandon()
    check_all_is_there(settings, files)


class Elsewhere(CachingFiles):
    """The same memory and disk, as another container sees them."""

    named = True  # whether anything names the boot

    def mount(self, path: Path) -> tuple[int, int]:
        """Another number."""
        return 4711, 4712

    def boot_id(self) -> bytes:
        """As told."""
        return super().boot_id() if self.named else b""


@pytest.mark.parametrize("fails", ["commitlog", "consumequeue"])
@pytest.mark.parametrize("named", [True, False])
def test_another_container_on_the_same_machine_doubts_as_well(
    tmp_path: Path, fails: str, *, named: bool
) -> None:
    """Its note proves nothing there, and the kernel still takes lost pages for clean."""
    settings, files = small(tmp_path), Elsewhere() if not named else CachingFiles()
    if isinstance(files, Elsewhere):
        files.named = False
    killed_in_a_sync(settings, files, fails)
    after = Elsewhere()
    after.named = named
    after.durable, after.clean = files.durable, files.clean
    store = opened(settings, after)
    assert store.recovered.proof == FLUSHED and len(bodies(store)) == 41
    settle(store)
    store.abandon()
    store = opened(settings, after.power_off(tmp_path))
    assert len(bodies(store)) == 41 and not store.damage
    store.close()


@pytest.mark.parametrize("fails", ["commitlog", "consumequeue"])
@pytest.mark.parametrize("heard", [True, False])
def test_a_repair_proves_what_the_disk_has(tmp_path: Path, fails: str, *, heard: bool) -> None:
    """It leaves a store as after a clean stop: so it brings to the disk what was doubted before."""
    settings, files = small(tmp_path), CachingFiles()
    if heard:
        store = opened(settings, files)
        for number in range(41):
            send(store, body=b"%d" % number + bytes(200))
        files.word = fails
        store.flusher.flush_all(5)
        assert (tmp_path / DOUBT).exists()
        store.abandon()
        files.word = ""
    else:
        killed_in_a_sync(settings, files, fails)
    Repairer(settings, files).run()
    assert not any((tmp_path / name).exists() for name in (DOUBT, BOOT_NOTE, "abort"))
    store = opened(settings, files.power_off(tmp_path))
    assert len(bodies(store)) == 41 and not store.damage
    store.close()
