"""A start whose sync of a queue fails, and that ends there, leaves word of what it has changed.

The kernel takes the pages for clean then: memory has what the start wrote, the disk does not, and
no later sync says so. The disk of these tests is Linux's.
"""

import shutil
from pathlib import Path
from typing import Final

import pytest
from support.disks.caching_disk import CachingFiles
from support.disks.logs import bodies, opened, send, settle, small

from aerobee.storage.layout import CUT, ENTRY_BYTES, MENDING, file_name
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.store import MessageStore
from aerobee.storage.tools.repairing import Repairer
from aerobee.storage.verify import verify

QUEUE_FILE: Final = Path("consumequeue/orders/0") / file_name(0)
KILLED: Final = "killed when the sync has failed"
REFUSED: Final = "killed later, having written nothing more"


class FatalSyncs(CachingFiles):
    """A disk where the process may be killed before it hears that a sync has failed."""

    fatal = False

    def sync(self, fd: int) -> None:
        """Keep what is dirty; a failure may be the last of its process."""
        try:
            super().sync(fd)
        except OSError:
            if self.fatal:
                raise KeyboardInterrupt from None
            raise


def start_that_fails(root: Path, files: FatalSyncs, end: str, **settings: int) -> None:
    """Start a store on a disk that fails to sync its queue."""
    files.word, files.fatal = "consumequeue/orders/0", end == KILLED
    store = MessageStore(small(root, **settings), files)
    try:
        store.open()
    except KeyboardInterrupt:
        assert files.fatal
    else:
        assert not files.fatal and store.commit_log.refusal is not None
        store.abandon()
    files.word, files.fatal = "", False


def forget_memory(root: Path, files: CachingFiles) -> None:
    """Let memory be short: what counts as clean is read from the disk again."""
    fd = files.open(root / QUEUE_FILE)
    files.drop_cache(fd, 0, (root / QUEUE_FILE).stat().st_size)
    files.close(fd)


def with_stale_entries(root: Path, files: FatalSyncs, *, reboot: bool) -> None:
    """Leave three messages, and entries behind them of messages that the log does not have."""
    store = opened(small(root), files)
    places = [send(store) for _ in range(3)]
    settle(store)
    end = store.commit_log.position
    store.abandon()
    files.boot += reboot
    fd = files.open(root / QUEUE_FILE)
    for number in range(2):
        entry = ENTRY.pack(end + (number + 1) * places[1], 101, 0)
        files.write(fd, entry, (3 + number) * ENTRY_BYTES)
    files.sync(fd)
    files.close(fd)


@pytest.mark.parametrize("end", [KILLED, REFUSED])
@pytest.mark.parametrize("reboot", [True, False])
def test_entries_that_a_killed_start_cut_off_do_not_come_back(
    tmp_path: Path, end: str, reboot: bool
) -> None:
    """The next start sees them cut, and would leave them on the disk; its own log covers them."""
    files = FatalSyncs()
    with_stale_entries(tmp_path, files, reboot=reboot)
    start_that_fails(tmp_path, files, end)
    assert (tmp_path / CUT).exists()
    store = opened(small(tmp_path), files)
    assert not (tmp_path / CUT).exists()
    for _ in range(2):
        send(store, "other", body=bytes(300))
    store.abandon()
    forget_memory(tmp_path, files)
    store = opened(small(tmp_path), files)
    assert len(bodies(store)) == store.queue("orders", 0).max_offset == 3
    store.close()
    assert not verify(small(tmp_path)).problems


def test_no_entry_is_given_up_before_it_is_noted(tmp_path: Path) -> None:
    """A disk that takes no note keeps the store from taking messages, until it does."""
    files = FatalSyncs()
    with_stale_entries(tmp_path, files, reboot=True)
    files.refused = CUT
    store = opened(small(tmp_path), files)
    assert store.commit_log.refusal is not None and len(bodies(store)) == 3
    assert files.durable[tmp_path / QUEUE_FILE][60:100] != bytes(40)
    store.abandon()
    files.refused = ""
    store = opened(small(tmp_path), files)
    assert store.commit_log.refusal is None and not (tmp_path / CUT).exists()
    settle(store)
    for _ in range(2):
        send(store, "other", body=bytes(300))
    settle(store)
    store.abandon()
    store = opened(small(tmp_path), after_power_loss(tmp_path, files))
    assert len(bodies(store)) == store.queue("orders", 0).max_offset == 3
    store.close()


@pytest.mark.parametrize("power", ["kept", "lost"])
@pytest.mark.parametrize("end", [KILLED, REFUSED])
def test_a_queue_that_a_start_could_not_finish_is_brought_to_the_disk(
    tmp_path: Path, end: str, power: str
) -> None:
    """All of it: the next start finds every entry in memory, and the disk has none of them."""
    sizes = {"queue_file_entries": 500, "segment_bytes": 1 << 20}
    files, settings = FatalSyncs(), small(tmp_path, **sizes)
    without_its_queue(tmp_path, files, **sizes)
    start_that_fails(tmp_path, files, end, **sizes)
    assert (tmp_path / MENDING).exists()
    store = opened(settings, files)
    assert len(bodies(store)) == 300
    settle(store)
    assert not (tmp_path / MENDING).exists()
    assert files.durable[tmp_path / QUEUE_FILE] == (tmp_path / QUEUE_FILE).read_bytes()
    store.abandon()
    if power == "lost":
        files = after_power_loss(tmp_path, files)
    else:
        forget_memory(tmp_path, files)
    store = opened(settings, files)
    assert len(bodies(store)) == 300
    store.close()
    assert not verify(settings).problems


def test_a_repair_brings_to_the_disk_what_a_start_could_not(tmp_path: Path) -> None:
    """It reads the same memory, and its own syncs say as little."""
    sizes = {"queue_file_entries": 500, "segment_bytes": 1 << 20}
    files, settings = FatalSyncs(), small(tmp_path, **sizes)
    without_its_queue(tmp_path, files, **sizes)
    start_that_fails(tmp_path, files, KILLED, **sizes)
    Repairer(settings, files).run()
    assert files.durable[tmp_path / QUEUE_FILE] == (tmp_path / QUEUE_FILE).read_bytes()
    assert not (tmp_path / MENDING).exists()


def test_a_repair_erases_what_a_killed_start_cut_off(tmp_path: Path) -> None:
    """The note of it goes with the entries."""
    files = FatalSyncs()
    with_stale_entries(tmp_path, files, reboot=True)
    start_that_fails(tmp_path, files, KILLED)
    Repairer(small(tmp_path), files).run()
    assert files.durable[tmp_path / QUEUE_FILE][60:100] == bytes(40)
    assert not (tmp_path / CUT).exists()


def test_entries_that_a_start_wrote_before_it_could_begin_are_brought_to_the_disk(
    tmp_path: Path,
) -> None:
    """The first start of a boot has no note yet, and its rounds may be under way all the same."""
    sizes = {"queue_file_entries": 500, "segment_bytes": 1 << 20}
    files, settings = FatalSyncs(), small(tmp_path, **sizes)
    store = opened(settings, files)
    send(store)
    settle(store)
    for number in range(299):
        send(store, body=b"%d" % number)
    store.flusher.flush_log()
    store.flusher.drain(5)
    store.abandon()
    files = after_power_loss(tmp_path, files)
    files.refused = "abort"
    store = opened(settings, files)
    assert store.recovered.entries == 299 and store.commit_log.refusal is not None
    files.word, files.fatal = "consumequeue/orders/0", True
    store.flusher.flush_log()
    store.flusher.drain(5)
    with pytest.raises(KeyboardInterrupt):
        store.flusher.flush_queues()
    store.abandon()
    files.refused, files.word, files.fatal = "", "", False
    store = opened(settings, files)
    assert len(bodies(store)) == 300
    send(store, body=b"its page is written again, that of others is not")
    settle(store)
    store.abandon()
    store = opened(settings, after_power_loss(tmp_path, files))
    assert len(bodies(store)) == 301
    store.close()
    assert not verify(settings).problems


def without_its_queue(root: Path, files: FatalSyncs, **sizes: int) -> None:
    """Leave 300 messages whose queue folder is lost."""
    store = opened(small(root, **sizes), files)
    for number in range(300):
        send(store, body=b"%d" % number)
    settle(store)
    store.abandon()
    shutil.rmtree(root / "consumequeue/orders")
    files.durable.pop(root / QUEUE_FILE)
    files.clean.pop(root / QUEUE_FILE, None)


def after_power_loss(root: Path, files: FatalSyncs) -> FatalSyncs:
    """Lose what was not synced, but for the notes that were renamed into their places."""
    for name in ("aerobee.progress", "checkpoint"):
        files.durable[root / name] = (root / name).read_bytes()
    after = FatalSyncs(files.boot + 1)
    after.durable = files.power_off(root).durable
    return after
