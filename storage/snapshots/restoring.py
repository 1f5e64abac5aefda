"""Checks a snapshot, and brings it back as a store that a broker opens."""

import errno
import os
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.lock import StoreLock
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.errors import FolderTaken, SnapshotDamaged
from aerobee.storage.layout import RESTORING
from aerobee.storage.snapshots.copied_files import copy_file, naming, sum_of, sync_copies
from aerobee.storage.snapshots.manifest import (
    MANIFEST,
    STORE,
    CopiedFile,
    StoreSnapshot,
    read_manifest,
)
from aerobee.storage.snapshots.stages import walk
from aerobee.storage.snapshots.taking import ROOM_SPARE_BYTES, Show

WHOLE: Final = "aerobee.whole"
"""In the folder of a restore: all files are there and synced, they take their places."""
_LAST: Final = "commitlog"


def check_snapshot(
    files: Files, snapshot: Path, show: Show = lambda done, total: None
) -> StoreSnapshot:
    """Read every file of a snapshot, and return what it has.

    Raises SnapshotDamaged, which names the file, for one that is not what was copied, is missing,
    or is too much.
    """
    manifest = read_manifest(files, snapshot)
    done = _Counted(manifest.bytes, show)
    for file in manifest.files:
        path = _place(snapshot / STORE, file)
        try:
            found = sum_of(files, path, done.add)
        except FileNotFoundError:
            raise SnapshotDamaged(f"{path} is missing from the snapshot") from None
        if found != (file.bytes, file.sum):
            raise _wrong(path)
    extra = set(walk(snapshot / STORE)) - {file.path for file in manifest.files}
    if extra:
        raise SnapshotDamaged(f"{snapshot / STORE / min(extra)} is no file of the snapshot")
    return manifest


class SnapshotRestorer:
    """Brings a snapshot back into a folder that does not exist, or is empty.

        SnapshotRestorer(Files(), Path("copies/monday"), Path("store")).run()

    The files wait in `aerobee.restoring/` of the folder until all are there, are what was copied,
    and on the disk; then they take their places. Until the last one has, no broker of ours opens
    the store. After an interruption the same again goes on. Raises FolderTaken where something
    else is there, SnapshotDamaged for a snapshot that is, and OSError where the disk is full.
    """

    def __init__(
        self,
        files: Files,
        snapshot: Path,
        target: Path,
        show: Show = lambda done, total: None,
    ) -> None:
        self._files = files
        self._snapshot, self._target, self._show = snapshot, target, show
        self._waiting = target / RESTORING

    def run(self) -> StoreSnapshot:
        """Restore it; return what the store has then."""
        manifest = read_manifest(self._files, self._snapshot)
        self._check_target(manifest)
        self._files.make_directory(self._waiting)
        lock = StoreLock(self._files, self._target)
        lock.take(restoring=True)
        try:
            if not (self._waiting / WHOLE).exists():
                self._copy(manifest)
            self._put_in_place()
        finally:
            lock.release()
        return manifest

    def _check_target(self, manifest: StoreSnapshot) -> None:
        other = next(walk(self._target), None)
        begun = self._files.read_all(self._waiting / MANIFEST, 64)
        if other is not None and not (self._waiting / WHOLE).exists():
            raise FolderTaken(
                f"{self._target} has something in it, {other} for one: a store is restored into a"
                " folder that is empty"
            )
        for name in self._files.names(self._target):
            path = self._target / name
            if path.is_symlink() or path.is_mount():  # no rename puts a folder there
                raise FolderTaken(
                    f"{path} leads elsewhere: a store is restored into one folder, its log, too"
                )
        if begun is not None and begun != _mark(manifest):
            raise FolderTaken(f"{self._target}: another snapshot was being restored into it")
        if self._snapshot.resolve() in (self._target.resolve(), *self._target.resolve().parents):
            raise FolderTaken(f"{self._target} lies in the snapshot")

    def _copy(self, manifest: StoreSnapshot) -> None:
        """Copy what is not there yet; then note that all is."""
        done = _Counted(manifest.bytes, self._show)
        with naming(self._waiting / MANIFEST):
            replace_file(self._files, self._waiting / MANIFEST, _mark(manifest))
        asked = self._files.open(self._waiting / MANIFEST)
        try:
            missing = [file for file in manifest.files if not self._is_there(file, done)]
            self._check_room(missing)
            for file in missing:
                self._copy_one(file, done)
            paths = [self._waiting / file.path for file in manifest.files]
            sync_copies(self._files, self._waiting, paths, asked)
        finally:
            self._files.close(asked)
        self._files.sync_directory(self._target.absolute().parent)
        with naming(self._waiting / WHOLE):
            replace_file(self._files, self._waiting / WHOLE, b"")

    def _is_there(self, file: CopiedFile, done: "_Counted") -> bool:
        """Whether an earlier try has copied a file, and it reads as it should."""
        path = _place(self._waiting, file)
        if not path.is_file() or self._files.size(path) != file.bytes:
            return False
        return sum_of(self._files, path, done.add) == (file.bytes, file.sum)

    def _copy_one(self, file: CopiedFile, done: "_Counted") -> None:
        source, target = _place(self._snapshot / STORE, file), self._waiting / file.path
        self._files.make_directory(target.parent)
        try:
            made = copy_file(self._files, source, target, seen=done.add)
        except FileNotFoundError:
            raise SnapshotDamaged(f"{source} is missing from the snapshot") from None
        if (made.bytes, made.sum) != (file.bytes, file.sum):
            self._files.remove(target)
            raise _wrong(source)
        target.chmod(file.mode)

    def _check_room(self, missing: list[CopiedFile]) -> None:
        needed = sum(_disk_bytes(self._snapshot / STORE / file.path) for file in missing)
        stat = os.statvfs(self._waiting)
        have = stat.f_bavail * stat.f_frsize
        if have < needed + ROOM_SPARE_BYTES:
            raise OSError(
                errno.ENOSPC,
                f"the store takes {needed >> 20:,} MiB more, {have >> 20:,} MiB are free",
                str(self._target),
            )

    def _put_in_place(self) -> None:
        """Give everything its place, the log last; then the folder goes, and it is a store."""
        names = [name for name in self._files.names(self._waiting) if name not in (MANIFEST, WHOLE)]
        for name in sorted(names, key=lambda name: (name == _LAST, name)):
            self._remove_empty(self._target / name)
            self._files.replace(self._waiting / name, self._target / name)
        self._files.sync_directory(self._target)
        for name in (MANIFEST, WHOLE):
            self._files.remove(self._waiting / name)
        self._files.remove_directory(self._waiting)
        self._files.sync_directory(self._target)

    def _remove_empty(self, folder: Path) -> None:
        """Remove folders that a broker has made which did not start then."""
        if folder.is_dir():
            for name in self._files.names(folder):
                self._remove_empty(folder / name)
            self._files.remove_directory(folder)


class _Counted(msgspec.Struct):
    total: int
    show: Show
    done: int = 0

    def add(self, count: int) -> None:
        self.done += count
        self.show(self.done, max(self.total, self.done))


def _place(folder: Path, file: CopiedFile) -> Path:
    """Return where a file of a snapshot is; raises SnapshotDamaged for one that leads elsewhere."""
    path = PurePosixPath(file.path)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise SnapshotDamaged(f"{file.path!r} is no place in a store")
    return folder / path


def _mark(manifest: StoreSnapshot) -> bytes:
    return b"%d" % manifest.taken_ms


def _disk_bytes(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _wrong(path: Path) -> SnapshotDamaged:
    return SnapshotDamaged(f"{path} is not what was copied: its checksum is another one")
