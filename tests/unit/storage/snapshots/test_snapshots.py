"""Snapshots of stores at rest: taken, checked, restored, and interrupted anywhere."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks import stores
from support.disks.small_disk import fill_up, small_disk
from support.disks.stores import Stored, StoreWriter

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.lock import StoreLock
from aerobee.storage.errors import FolderTaken, SnapshotDamaged, StoreDamaged, StoreError
from aerobee.storage.settings import StoreSettings
from aerobee.storage.snapshots import restoring, taking
from aerobee.storage.snapshots.manifest import MANIFEST, PART, STORE, read_manifest
from aerobee.storage.snapshots.restoring import SnapshotRestorer, check_snapshot
from aerobee.storage.snapshots.taking import SnapshotTaker, SnapshotWish
from aerobee.storage.store import MessageStore

SEGMENT_BYTES = 64 << 10
QUEUE_FILE_ENTRIES = 1000
QUIET: Callable[[int, int], None] = lambda done, total: None


class Killed(BaseException):
    """Stands for the end of the process."""


class Fast(Files):
    """A disk that need not keep anything."""

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


class Ending(Fast):
    """Ends the process before a step, or fails one for want of room."""

    def __init__(self, steps: int, error: int = 0) -> None:
        self.left = steps
        self._error = error

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(self._error, os.strerror(self._error)) if self._error else Killed

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        self._step()
        return super().open(path, create=create, write=write)

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        if not self.left and not self._error:
            super().write(fd, bytes(data[: len(data) // 2]), at)
        self._step()
        super().write(fd, data, at)

    def replace(self, source: Path, target: Path) -> None:
        self._step()
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of three log files, two queues, tables, one of them secret, and a lock."""
    monkeypatch.setattr(stores, "QUEUE_FILE_ENTRIES", QUEUE_FILE_ENTRIES)
    writer = StoreWriter(tmp_path / "store", segment_bytes=SEGMENT_BYTES)
    for number in range(12):
        writer.append(Stored(queue_id=number % 2, body=bytes([number + 1]) * 12_000))
    root = writer.close()
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{}}')
    (root / "config" / "users.json").write_text('{"root":"secret"}')
    (root / "config" / "users.json").chmod(0o600)
    (root / "config" / "half.tmp").write_text("of a step that has not ended")
    (root / "lock").write_text("lock")
    return root


def take(store: Path, target: Path, files: Files | None = None) -> None:
    """Take a snapshot."""
    SnapshotTaker(files or Fast(), SnapshotWish(store, target)).run()


def settings_of(root: Path) -> StoreSettings:
    """Return what a store of these files is opened with."""
    return StoreSettings(
        root=root, segment_bytes=SEGMENT_BYTES, queue_file_entries=QUEUE_FILE_ENTRIES
    )


def content(root: Path) -> dict[str, bytes]:
    """Return what files a store has."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in ("lock", "half.tmp")
    }


def test_a_restored_store_is_the_same(store: Path, tmp_path: Path) -> None:
    """Every byte, every right, and no hole is filled."""
    take(store, tmp_path / "snapshot")
    assert (tmp_path / "snapshot").stat().st_mode & 0o777 == 0o700
    manifest = check_snapshot(Files(), tmp_path / "snapshot")
    assert not manifest.was_served
    SnapshotRestorer(Fast(), tmp_path / "snapshot", tmp_path / "back", QUIET).run()
    assert content(tmp_path / "back") == content(store)
    assert (tmp_path / "back" / "config" / "users.json").stat().st_mode & 0o777 == 0o600
    queue = "consumequeue/orders/0/" + "0" * 20
    assert (tmp_path / "back" / queue).stat().st_blocks <= (store / queue).stat().st_blocks
    opened = MessageStore(settings_of(tmp_path / "back"))
    opened.open()
    try:
        assert opened.queue("orders", 1).max_offset == 6
    finally:
        opened.close()


def test_a_snapshot_that_was_killed_goes_on(store: Path, tmp_path: Path) -> None:
    """At each step: until it is whole it is none, and then it is right."""
    target, step = tmp_path / "snapshot", 0
    while True:
        try:
            take(store, target, Ending(step))
            break
        except Killed:
            if not (target / MANIFEST).exists():
                with pytest.raises(SnapshotDamaged):
                    read_manifest(Files(), target)
        if not (target / MANIFEST).exists():
            take(store, target)
        check_snapshot(Files(), target)
        assert content(target / STORE) == content(store)
        shutil.rmtree(target)
        step += 1
    assert step > 30
    assert content(target / STORE) == content(store)


def test_a_restore_that_was_killed_goes_on(store: Path, tmp_path: Path) -> None:
    """At each step: no broker opens a half of it, and the same again completes it."""
    snapshot, target, step = tmp_path / "snapshot", tmp_path / "back", 0
    take(store, snapshot)
    while True:
        try:
            SnapshotRestorer(Ending(step), snapshot, target, QUIET).run()
            break
        except Killed:
            pass
        StoreLock(Files(), target).release()  # as the end of the process does
        if Files().names(target / "aerobee.restoring"):
            with pytest.raises(StoreDamaged, match="half restored"):
                MessageStore(settings_of(target)).open()
            SnapshotRestorer(Fast(), snapshot, target, QUIET).run()
        elif not (target / "commitlog").exists():
            SnapshotRestorer(Fast(), snapshot, target, QUIET).run()
        assert content(target) == content(store), step
        shutil.rmtree(target)
        step += 1
    assert step > 30
    assert content(target) == content(store)


def test_whole_files_of_the_log_are_copied_once(store: Path, tmp_path: Path) -> None:
    """What an interrupted try has is taken over, unless the file is another one since."""
    target = tmp_path / "snapshot"
    log = sorted(path.name for path in (store / "commitlog").iterdir())

    class Counting(Ending):
        def __init__(self, steps: int) -> None:
            super().__init__(steps)
            self.read_files: list[str] = []

        def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
            if not write and not create and str(path).startswith(str(store)):
                self.read_files.append(Path(path).name)
            return super().open(path, create=create, write=write)

    step = 0
    while not (target / PART).exists() or (target / PART).read_bytes().count(b"\n") < 2:
        shutil.rmtree(target, ignore_errors=True)
        with pytest.raises(Killed):
            take(store, target, Ending(step))
        step += 1
    (store / "commitlog" / log[0]).touch()
    files = Counting(1 << 30)
    take(store, target, files)
    assert [name for name in files.read_files if name in log and name != "0" * 20] == log[2:]
    check_snapshot(Files(), target)


def test_a_changed_byte_is_found_by_its_file(store: Path, tmp_path: Path) -> None:
    """In each file, by the check and by a restore, which leaves nothing that could be opened."""
    snapshot = tmp_path / "snapshot"
    take(store, snapshot)
    for path in [snapshot / MANIFEST, *(snapshot / STORE).rglob("*")]:
        if not path.is_file():
            continue
        sound = path.read_bytes()
        for at in {0, len(sound) // 2, len(sound) - 1}:
            path.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
            with pytest.raises(SnapshotDamaged, match=path.name):
                check_snapshot(Files(), snapshot)
        with pytest.raises(SnapshotDamaged, match=path.name):
            SnapshotRestorer(Fast(), snapshot, tmp_path / "back", QUIET).run()
        assert not (tmp_path / "back" / "commitlog").exists()
        shutil.rmtree(tmp_path / "back", ignore_errors=True)
        path.write_bytes(sound)
    victim = snapshot / STORE / "config" / "topics.json"
    (snapshot / STORE / "config" / "more.json").write_text("{}")
    with pytest.raises(SnapshotDamaged, match=r"more\.json is no file of the snapshot"):
        check_snapshot(Files(), snapshot)
    victim.unlink()
    with pytest.raises(SnapshotDamaged, match=r"topics\.json is missing"):
        check_snapshot(Files(), snapshot)


def test_nothing_is_written_over(store: Path, tmp_path: Path) -> None:
    """A snapshot, a folder with something else, the store itself, a store that is there."""
    take(store, tmp_path / "snapshot")
    with pytest.raises(FolderTaken, match="is a snapshot already"):
        take(store, tmp_path / "snapshot")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("x")
    with pytest.raises(FolderTaken, match="mine for one"):
        take(store, tmp_path / "other")
    with pytest.raises(FolderTaken, match="lies in the store"):
        take(store, store / "snapshot")
    with pytest.raises(StoreError, match="is no store"):
        take(tmp_path / "other", tmp_path / "third")
    with pytest.raises(FolderTaken, match="mine for one"):
        SnapshotRestorer(Fast(), tmp_path / "snapshot", tmp_path / "other", QUIET).run()
    with pytest.raises(FolderTaken):
        SnapshotRestorer(Fast(), tmp_path / "snapshot", store, QUIET).run()
    with pytest.raises(SnapshotDamaged, match="is no snapshot"):
        check_snapshot(Files(), tmp_path / "other")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_is_full_or_fails_ends_it_and_the_same_again_goes_on(
    store: Path, tmp_path: Path, error: int
) -> None:
    """Wherever that is; nothing counts as a snapshot before it is whole."""
    for step in (1, 7, 15, 25):
        target = tmp_path / f"snapshot-{step}"
        with pytest.raises(OSError, match=os.strerror(error)):
            take(store, target, Ending(step, error))
        assert not (target / MANIFEST).exists()
        take(store, target)
        back = tmp_path / f"back-{step}"
        with pytest.raises(OSError, match=os.strerror(error)):
            SnapshotRestorer(Ending(step, error), target, back, QUIET).run()
        SnapshotRestorer(Fast(), target, back, QUIET).run()
        assert content(back) == content(store)


def test_a_disk_without_room_is_refused_before_a_byte_is_copied(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how much is needed, and how much there is."""
    with small_disk(tmp_path / "disk", 4) as disk:
        with pytest.raises(OSError, match="the snapshot takes"):
            take(store, disk / "snapshot")
        assert not content(disk / "snapshot" / STORE)
        monkeypatch.setattr(taking, "ROOM_SPARE_BYTES", 0)
        take(store, disk / "snapshot")
        monkeypatch.setattr(restoring, "ROOM_SPARE_BYTES", 4 << 20)
        with pytest.raises(OSError, match="the store takes"):
            SnapshotRestorer(Fast(), disk / "snapshot", disk / "back", QUIET).run()
        fill_up(disk / "rest")
        with pytest.raises(OSError, match="back"):
            SnapshotRestorer(Fast(), disk / "snapshot", disk / "back", QUIET).run()


def test_a_disk_that_does_not_give_what_it_got_is_told(store: Path, tmp_path: Path) -> None:
    """The copies are read again; what differs is copied once more by the next try."""

    class Forgetting(Files):
        def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
            name = Path(f"/proc/self/fd/{fd}").readlink().name
            super().write(fd, bytes(len(data)) if name == "topics.json" else data, at)

    with pytest.raises(SnapshotDamaged, match=r"topics\.json does not read as it was written"):
        take(store, tmp_path / "snapshot", Forgetting())
    take(store, tmp_path / "snapshot")
    check_snapshot(Files(), tmp_path / "snapshot")


def test_copies_of_compaction_topics_wait_for_a_round(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a served store: what a round has written is left out, and while files move it waits."""
    folder = store / "compaction" / "compactionLog" / "t" / "0"
    (folder / "compacting").mkdir(parents=True)
    (folder / ("0" * 20)).write_bytes(b"copied")
    (folder / "compacting" / ("0" * 20)).write_bytes(b"half")
    swap = folder / "compacting" / "aerobee.swap"
    lock = StoreLock(Files(), store)
    lock.take()
    try:
        take(store, tmp_path / "first")
        assert not [path for path in content(tmp_path / "first") if "compacting" in path]
        swap.write_bytes(b"note")
        monkeypatch.setattr(taking, "PAUSE_S", 0.0)
        monkeypatch.setattr(taking, "STILL_S", 0.05)
        with pytest.raises(StoreError, match="change faster than they are read"):
            take(store, tmp_path / "second")
        monkeypatch.setattr(time, "sleep", lambda seconds: swap.unlink(missing_ok=True))
        monkeypatch.setattr(taking, "STILL_S", 60.0)
        take(store, tmp_path / "second")
    finally:
        lock.release()
    swap.write_bytes(b"note")
    take(store, tmp_path / "third")
    assert content(tmp_path / "third" / STORE) == content(store)
