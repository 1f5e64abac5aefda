"""Rounds that write queues out: refused, resumed, of very many files; and what is read then."""

import errno
import os
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, send, settle, small

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import CHECKPOINT_FIELDS
from aerobee.storage.proofs.progress import read_progress
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.verify import verify


class Refusing(Files):
    """Refuses to write to files of queues while it has a number; counts syncs of everything."""

    kernel = Files.kernel

    def __init__(self) -> None:
        self.number = 0
        self.all_fails = 0
        self.all_synced = 0
        self.queue_files: set[int] = set()

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> int:
        """Remember which files are of queues."""
        fd = super().open(path, create=create, write=write)
        self.queue_files.discard(fd)
        if path.parent.name.isdecimal():
            self.queue_files.add(fd)
        return fd

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Refuse, or write."""
        if self.number and fd in self.queue_files:
            raise OSError(self.number, os.strerror(self.number))
        super().write(fd, data, at)

    def sync_file_system(self, fd: int) -> None:
        """Fail, or count; here each file is on the disk at once."""
        self.all_synced += 1
        if self.all_fails:
            raise OSError(self.all_fails, os.strerror(self.all_fails))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_entries_that_find_no_room_stay_in_memory(tmp_path: Path, number: int) -> None:
    """They are read, nothing is noted, and the round after that has them all."""
    files = Refusing()
    store = opened(small(tmp_path), files)
    send(store, body=b"0")
    settle(store)
    proven = read_progress(files, tmp_path)
    files.number = number
    for count in (1, 2, 3):
        send(store, body=b"%d" % count)
        store.flusher.flush_queues()
        assert store.flusher.drain(5)
        assert read_progress(files, tmp_path) == proven
    assert bodies(store) == [b"0", b"1", b"2", b"3"]
    assert store.commit_log.refusal is None, "memory has room"
    files.number = 0
    settle(store)
    progress = read_progress(files, tmp_path)
    assert progress is not None and progress.queues == {("orders", 0): 4}
    store.close()
    assert not verify(small(tmp_path)).problems


def test_a_file_that_was_removed_is_no_reason_to_note_its_entries(tmp_path: Path) -> None:
    """The round fails until a start has written the queue again."""
    store = opened(small(tmp_path))
    send(store, body=b"0")
    settle(store)
    proven = read_progress(store.files, tmp_path)
    next((tmp_path / "consumequeue/orders/0").iterdir()).unlink()
    send(store, body=b"1")
    store.flusher.flush_queues()
    assert store.flusher.drain(5)
    assert read_progress(store.files, tmp_path) == proven
    store.close()
    assert (tmp_path / "abort").exists()
    store = opened(small(tmp_path))
    assert bodies(store) == [b"0", b"1"]
    store.close()
    assert not verify(small(tmp_path)).problems


@pytest.mark.parametrize("number", [0, errno.EIO, errno.EOPNOTSUPP])
def test_very_many_files_are_synced_as_one_or_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Where the sync of everything does not succeed each file is asked."""
    monkeypatch.setattr("aerobee.storage.upkeep.queue_rounds.FILES_ONE_BY_ONE", 3)
    files = Refusing()
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
        def open(self, path: Path, *, create: bool = False, write: bool = True) -> int:
            """Nothing is made here, or written."""
            if create or write:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return super().open(path, write=False)

    store = opened(small(tmp_path), NoLock())
    assert store.read_only
    assert bodies(store) == [b"%d" % number for number in range(120)]
    assert bodies(store, "bills") == [b"hello"]
    store.close()
