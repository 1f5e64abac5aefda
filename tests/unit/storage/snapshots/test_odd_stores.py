"""Snapshots of stores that are not as they should be, or that somebody else moves meanwhile."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.stores import QUEUE_FILE_ENTRIES, Stored, StoreWriter

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.lock import StoreLock
from aerobee.storage.errors import FolderTaken, StoreError
from aerobee.storage.settings import StoreSettings
from aerobee.storage.snapshots.manifest import MANIFEST, PART, STORE
from aerobee.storage.snapshots.restoring import SnapshotRestorer, check_snapshot
from aerobee.storage.snapshots.taking import SnapshotTaker, SnapshotWish
from aerobee.storage.store import MessageStore

HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


class Fast(Files):
    """A disk that need not keep anything, and calls somebody when a file is opened."""

    def __init__(self, opened: Callable[[Path], None] = lambda path: None) -> None:
        self._opened = opened

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        fd = super().open(path, create=create, write=write)
        self._opened(Path(path))
        return fd


class ReadOnly(Fast):
    """Lets nobody write to the store, as a mount that is for reading."""

    def __init__(self, root: Path, opened: Callable[[Path], None] = lambda path: None) -> None:
        super().__init__(opened)
        self._root = root

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        if write and Path(path).is_relative_to(self._root):
            raise PermissionError(13, "Permission denied", str(path))
        return super().open(path, create=create, write=write)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of one file of the log, two queues and tables."""
    writer = StoreWriter(tmp_path / "store", segment_bytes=64 << 10)
    for number in range(4):
        writer.append(Stored(queue_id=number % 2, body=b"x" * 100))
    root = writer.close()
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{}}')
    return root


def take(store: Path, target: Path, files: Files | None = None, log: Path | None = None) -> bool:
    """Take a snapshot; return whether it was of a store that is served."""
    return SnapshotTaker(files or Fast(), SnapshotWish(store, target, log)).run().was_served


def copied(target: Path, name: str) -> str:
    """Return what a file of a snapshot has."""
    return (target / STORE / name).read_text()


def test_a_log_that_is_not_there_is_asked_for(store: Path, tmp_path: Path) -> None:
    """A copy without it would have no message; where it lies elsewhere it is found there."""
    elsewhere = tmp_path / "fast" / "commitlog"
    elsewhere.parent.mkdir()
    (store / "commitlog").rename(elsewhere)
    with pytest.raises(StoreError, match=r"has no log: say where it lies \(--commit-log"):
        take(store, tmp_path / "snapshot")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=r"empty has no log"):
        take(store, tmp_path / "snapshot", log=tmp_path / "empty")
    assert not (tmp_path / "snapshot").exists()
    take(store, tmp_path / "snapshot", log=elsewhere)
    assert (tmp_path / "snapshot" / STORE / "commitlog" / ("0" * 20)).exists()
    (store / "commitlog").symlink_to(elsewhere)
    take(store, tmp_path / "by-link")
    SnapshotRestorer(Fast(), tmp_path / "by-link", tmp_path / "back").run()
    assert not (tmp_path / "back" / "commitlog").is_symlink()


def test_a_link_that_leads_nowhere_is_named(store: Path, tmp_path: Path) -> None:
    """What it stands for would be missing: a disk that is not mounted."""
    (store / "index").symlink_to(tmp_path / "not mounted")
    with pytest.raises(StoreError, match=r"store/index leads to .*not mounted, which is not there"):
        take(store, tmp_path / "snapshot")


def test_a_target_that_the_store_leads_to_is_refused(store: Path, tmp_path: Path) -> None:
    """It would be copied into itself."""
    (tmp_path / "backup").mkdir()
    (store / "backup").symlink_to(tmp_path / "backup")
    with pytest.raises(FolderTaken, match="lies in the store"):
        take(store, tmp_path / "backup" / "monday")


def test_names_of_all_kinds(store: Path, tmp_path: Path) -> None:
    """What is text is kept; what is not is named before a byte is copied. Pipes are no files."""
    names = ["a\nb", 'c"d', "e\\f", "ü€", " ", "%", "-rf", "n" * 250]
    for name in names:
        (store / "config" / name).write_text(name)
    os.mkfifo(store / "config" / "pipe")
    os.link(store / "config" / "ü€", store / "config" / "linked")
    take(store, tmp_path / "snapshot")
    check_snapshot(Fast(), tmp_path / "snapshot")
    SnapshotRestorer(Fast(), tmp_path / "snapshot", tmp_path / "back").run()
    found = {path.name: path.read_text() for path in (tmp_path / "back" / "config").iterdir()}
    del found["topics.json"]
    assert found == {name: name for name in names} | {"linked": "ü€"}
    Path(os.fsdecode(bytes(store / "config") + b"/\xff")).touch()
    with pytest.raises(StoreError, match=r"'config/\\udcff' is no name in UTF-8"):
        take(store, tmp_path / "another")
    assert not list((tmp_path / "another" / STORE).iterdir())


def test_a_table_that_is_replaced_while_it_is_copied(store: Path, tmp_path: Path) -> None:
    """The copy is one of them, with that one's length."""
    table = store / "config" / "consumerOffset.json"
    for old, new in (("12345", "1234567"), ("12345", "1")):
        table.write_text(old)

        def replace(path: Path, new: str = new) -> None:
            if path == table:
                (store / "config" / "new").write_text(new)
                (store / "config" / "new").rename(table)

        target = tmp_path / f"snapshot-{new}"
        take(store, target, Fast(replace))
        assert copied(target, "config/consumerOffset.json") == old


@pytest.mark.parametrize("name", ["topicQueueMapping.json", "subscriptionGroup.json.changes"])
def test_topics_and_what_belongs_to_them_are_of_one_moment(
    store: Path, tmp_path: Path, name: str
) -> None:
    """A topic and its mapping, groups and their changes, that come while all is copied."""
    config, done = store / "config", False

    def change(path: Path) -> None:
        nonlocal done
        if path.parent.name == "commitlog" and not done:
            done = True
            for each in (name, "topics.json", "subscriptionGroup.json"):
                (config / "new").write_text("new")
                (config / "new").rename(config / each)

    for each in (name, "topics.json", "subscriptionGroup.json"):
        (config / each).write_text("old")
    take(store, tmp_path / "snapshot", Fast(change))
    for each in (name, "topics.json", "subscriptionGroup.json"):
        assert copied(tmp_path / "snapshot", f"config/{each}") == "new"


def test_a_table_whose_backup_stands_for_it(store: Path, tmp_path: Path) -> None:
    """While it is replaced its backup is the table, and not the one of before."""
    topics, done = store / "config" / "topics.json", False

    def begin(path: Path) -> None:
        nonlocal done
        if path.parent.name == "commitlog" and not done:
            done = True
            topics.rename(topics.with_name("topics.json.bak"))

    topics.write_text("acknowledged")
    topics.with_name("topics.json.bak").write_text("older")
    take(store, tmp_path / "snapshot", Fast(begin))
    assert copied(tmp_path / "snapshot", "config/topics.json.bak") == "acknowledged"


def test_who_may_only_read_finds_out_whether_a_broker_has_it(store: Path, tmp_path: Path) -> None:
    """By the lock; one that comes meanwhile is noticed."""
    (store / "lock").write_text("lock")
    assert not take(store, tmp_path / "at-rest", ReadOnly(store))
    holders = []

    def hold() -> None:
        words = [sys.executable, "-c", HOLD, str(store / "lock")]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        holders.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"

    try:
        files = ReadOnly(
            store, lambda path: None if holders or path.name != "topics.json" else hold()
        )
        with pytest.raises(StoreError, match="a broker has opened it meanwhile"):
            take(store, tmp_path / "in-the-middle", files)
        assert take(store, tmp_path / "in-the-middle", ReadOnly(store))
        assert take(store, tmp_path / "served", ReadOnly(store))
    finally:
        for child in holders:
            child.communicate()


def test_one_that_comes_when_another_ends_writes_nothing(store: Path, tmp_path: Path) -> None:
    """It has looked before, and has the list of the other one, which is gone, to itself."""
    target = tmp_path / "snapshot"
    target.mkdir()
    (target / PART).touch()

    def end(path: Path) -> None:
        if path == target / PART and not (target / MANIFEST).exists():
            (target / PART).unlink()
            take(store, target)

    with pytest.raises(FolderTaken, match="is a snapshot already"):
        take(store, target, Fast(end))
    check_snapshot(Fast(), target)


def test_a_lock_tells_who_may_only_read(tmp_path: Path) -> None:
    """A process never meets its own lock."""
    lock = StoreLock(Files(), tmp_path)
    assert not lock.is_taken()
    lock.take()
    assert lock.is_held
    lock.release()
    assert not lock.is_held


def test_files_that_expire_while_they_are_copied(tmp_path: Path) -> None:
    """What is left of the log begins behind them, and queues begin where it does."""
    writer = StoreWriter(tmp_path / "store", segment_bytes=64 << 10)
    for number in range(20):
        writer.append(Stored(queue_id=0, body=bytes([number + 1]) * 12_000))
    root = writer.close()
    log = sorted((root / "commitlog").iterdir())
    assert len(log) >= 4

    def expire(path: Path) -> None:
        if path == log[0]:  # is being copied: it can be read to its end
            for gone in log[:2]:
                gone.unlink()

    holder = StoreLock(Files(), root)
    holder.take()
    try:
        assert take(root, tmp_path / "snapshot", Fast(expire))
    finally:
        holder.release()
    found = sorted(path.name for path in (tmp_path / "snapshot" / STORE / "commitlog").iterdir())
    assert found == [path.name for path in log[2:]]
    check_snapshot(Fast(), tmp_path / "snapshot")
    SnapshotRestorer(Fast(), tmp_path / "snapshot", tmp_path / "back").run()
    settings = StoreSettings(
        root=tmp_path / "back", segment_bytes=64 << 10, queue_file_entries=QUEUE_FILE_ENTRIES
    )
    opened = MessageStore(settings)
    opened.open()
    try:
        queue = opened.queue("orders", 0)
        assert queue.max_offset == 20
        for offset in range(queue.min_offset, 20):
            position, size, _ = queue.entry(offset)
            data = opened.record_at(position)
            assert data is not None
            assert len(data) == size
        assert queue.min_offset == 10
        assert not list(opened.damage)
    finally:
        opened.close()


def test_a_target_whose_log_is_to_lie_elsewhere(store: Path, tmp_path: Path) -> None:
    """It is refused before a byte is copied, not when all is there and takes its place."""
    take(store, tmp_path / "snapshot")
    (tmp_path / "fast").mkdir()
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "commitlog").symlink_to(tmp_path / "fast")
    with pytest.raises(FolderTaken, match="commitlog leads elsewhere"):
        SnapshotRestorer(Fast(), tmp_path / "snapshot", tmp_path / "back").run()
    assert [path.name for path in (tmp_path / "back").iterdir()] == ["commitlog"]
