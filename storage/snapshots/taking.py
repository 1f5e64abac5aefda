"""Takes a snapshot of a store: at rest, which it holds meanwhile, or served."""

import errno
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.lock import StoreLock
from aerobee.storage.errors import FolderTaken, SnapshotDamaged, StoreError, StoreLocked
from aerobee.storage.layout import (
    COMMIT_LOG,
    COMPACTION,
    LOCK,
    TIMERS,
    FileSpan,
    file_name,
    log_files,
)
from aerobee.storage.snapshots import stages
from aerobee.storage.snapshots.copied_files import copy_file, naming, sum_of, sync_copies
from aerobee.storage.snapshots.log_end import find_end
from aerobee.storage.snapshots.manifest import (
    MANIFEST,
    PART,
    STORE,
    CopiedFile,
    SourceFile,
    StoreSnapshot,
    part_line,
    read_part,
    write_manifest,
)

STILL_S: Final = 60.0
"""So long files are copied again that are replaced meanwhile."""
PAUSE_S: Final = 0.05
ROOM_SPARE_BYTES: Final = 64 << 20

Show = Callable[[int, int], None]
"""Takes the bytes done and those that are to be done, copied and then read again."""


class SnapshotWish(msgspec.Struct, frozen=True):
    """Of which store a snapshot is wanted, and where; `log` where its log lies elsewhere."""

    store: Path
    target: Path
    log: Path | None = None


class SnapshotTaker:
    """Takes one snapshot; after an interruption the same again goes on with what was copied.

        manifest = SnapshotTaker(Files(), SnapshotWish(Path("store"), Path("copies/monday"))).run()

    Of a store that a broker serves it has every message acknowledged before it began, and no
    committed offset that is newer than its messages. Raises FolderTaken where the target has
    something else, StoreError where there is no store, SnapshotDamaged where a copy does not read
    as it was written, and OSError, by the file's name, where the disk is full or fails.
    """

    def __init__(
        self, files: Files, wish: SnapshotWish, show: Show = lambda done, total: None
    ) -> None:
        self._files = files
        self._root, self._target, self._log = wish.store, wish.target, wish.log
        self._show = show
        self._copies = wish.target / STORE
        self._copied: dict[str, CopiedFile] = {}
        self._earlier: dict[str, SourceFile] = {}
        self._done = self._total = 0
        self._part = -1

    def run(self) -> StoreSnapshot:
        """Copy, read all of it again, and note it; return what it has."""
        taken_ms = time.time_ns() // 1_000_000
        self._check_source()
        self._open_target()
        try:
            lock = StoreLock(self._files, self._root)
            served = not self._take(lock)
            try:
                end = self._copy(served)
                if not served and not lock.is_held and lock.is_taken():
                    raise StoreError(
                        f"{self._root}: a broker has opened it meanwhile: the same again"
                    )
            finally:
                lock.release()
            self._remove_others()
            files = [self._copied[path] for path in sorted(self._copied)]
            paths = [self._copies / file.path for file in files]
            sync_copies(self._files, self._copies, paths, self._part)
            self._check(files)
            manifest = StoreSnapshot(1, taken_ms, str(self._root.resolve()), served, end, files)
            with naming(self._target / MANIFEST):
                write_manifest(self._files, self._target, manifest)
            self._files.sync_directory(self._target.absolute().parent)
            self._files.remove(self._target / PART)
            return manifest
        finally:
            self._files.close(self._part)

    def _check_source(self) -> None:
        if not log_files(self._root, self._log) and not (self._root / "config").is_dir():
            raise StoreError(f"{self._root} is no store: it has neither a log nor config/")
        if not log_files(self._root, self._log) and stages.has_queues(self._root):
            where = self._log or self._root / COMMIT_LOG
            raise StoreError(
                f"{self._root} has queues of messages, and {where} has no log: say where it lies"
                " (--commit-log, the broker's storePathCommitLog)"
            )
        root, target = self._root.resolve(), self._target.resolve()
        inside = [root, *([self._log.resolve()] if self._log is not None else ())]
        if any(target == each or each in target.parents for each in inside):
            raise FolderTaken(f"{target} lies in the store that is to be copied")

    def _open_target(self) -> None:
        """Make the folder, or find one of ours that was not finished; hold it against others."""
        names = set(self._files.names(self._target)) - {"lost+found"}
        if MANIFEST in names:
            raise FolderTaken(f"{self._target} is a snapshot already: choose another folder")
        if names and PART not in names:
            raise FolderTaken(f"{self._target} has something else in it, {min(names)} for one")
        self._files.make_directory(self._target)
        self._target.chmod(0o700)  # users' passwords may be among it
        self._part = self._files.open(self._target / PART, create=True)
        if not self._files.try_lock(self._part):
            self._files.close(self._part)
            raise FolderTaken(f"{self._target}: another process takes a snapshot to there")
        if MANIFEST in self._files.names(self._target):  # it has ended since we looked
            self._files.close(self._part)
            raise FolderTaken(f"{self._target} is a snapshot already: choose another folder")
        self._earlier = read_part(self._files, self._target, self._part)
        self._files.make_directory(self._copies)

    def _take(self, lock: StoreLock) -> bool:
        """Hold the store, so that no broker starts meanwhile; False where one has it."""
        if not (self._root / LOCK).exists() and not os.access(self._root, os.W_OK):
            return True  # what cannot be written nobody serves
        try:
            lock.take()
        except StoreLocked:
            return False
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            return not lock.is_taken()  # we may not write to it, its broker may
        return True

    def _copy(self, served: bool) -> int | None:
        if served and (name := stages.unsafe(self._root)):
            raise StoreError(
                f"{self._root}: {name} is RocketMQ's RocksDB, which is copied from a broker that"
                " has stopped"
            )
        self._plan()
        self._copy_all(stages.early(self._root))
        self._copy_timers()
        self._copy_all(stages.queues(self._root))
        self._copy_compaction(served)
        end = self._copy_log(served)
        self._copy_late()
        return end

    def _plan(self) -> None:
        """Count what there is to copy, and refuse a disk that has no room for it."""
        root, needed = self._root, 0
        names = [*stages.walk(root)]
        if strange := next((name for name in names if not _is_text(name)), None):
            raise StoreError(
                f"{root}: {strange!r} is no name in UTF-8: rename the file, or remove it"
            )
        sources = [root / name for name in names if not name.startswith(f"{COMMIT_LOG}/")]
        for span in log_files(root, self._log):
            if self._reusable(span) is None:
                sources.append(span.path)
        part = os.fstat(self._part)
        for source in sources:
            try:
                found = source.stat()
            except FileNotFoundError:
                continue
            if os.path.samestat(found, part):  # by a link
                raise FolderTaken(
                    f"{self._target} lies in the store that is to be copied: {source}"
                )
            needed += min(found.st_blocks * 512, found.st_size)
        self._total = 2 * needed
        free = os.statvfs(self._target)
        have = free.f_bavail * free.f_frsize + self._bytes_there()
        if have < needed + ROOM_SPARE_BYTES:
            raise OSError(
                errno.ENOSPC,
                f"the snapshot takes {needed >> 20:,} MiB, {have >> 20:,} MiB are free",
                str(self._target),
            )

    def _bytes_there(self) -> int:
        """Count what an earlier try has copied that is written over."""
        kept = self._earlier.keys()
        return sum(
            (self._copies / name).stat().st_blocks * 512
            for name in stages.walk(self._copies)
            if name not in kept
        )

    def _copy_all(self, names: Iterable[str]) -> None:
        for name in names:
            self._copy_one(name, self._root / name)

    def _copy_one(self, name: str, source: Path, until: int | None = None) -> bool:
        """Copy a file; False where it has gone meanwhile, and is none of the snapshot."""
        target = self._copies / name
        self._files.make_directory(target.parent)
        try:
            copied = copy_file(self._files, source, target, until=until, seen=self._seen)
        except FileNotFoundError:
            self._forget(name)
            return False
        self._copied[name] = msgspec.structs.replace(copied, path=name)
        return True

    def _forget(self, name: str) -> None:
        self._copied.pop(name, None)
        self._files.remove(self._copies / name)

    def _copy_timers(self) -> None:
        """Copy the note of timers and what has to be of its moment."""
        self._until_still(lambda: [identity(self._root / TIMERS)], lambda: list(stages.TIMER_FILES))

    def _copy_late(self) -> None:
        """Copy what says which topics there are and were, of one moment."""
        self._until_still(
            lambda: [identity(self._root / name) for name in stages.LATE_NOTES],
            lambda: list(stages.LATE_FILES),
        )

    def _copy_compaction(self, served: bool) -> None:
        """Copy copies of compaction topics, when no round replaces them."""

        def look() -> list[object] | None:
            found = stages.compaction(self._root, served=served)
            return None if found is None else [(n, identity(self._root / n)[0]) for n in found]

        self._until_still(look, lambda: stages.compaction(self._root, served=served) or [])

    def _until_still(
        self, look: Callable[[], list[object] | None], names: Callable[[], list[str]]
    ) -> None:
        """Copy files, again as often as something replaces them meanwhile.

        `look` tells which they are, and None while they are being replaced.
        """
        ends = time.monotonic() + STILL_S
        while True:
            before, wanted = look(), names()
            if before is not None:
                self._copy_all(wanted)
                if look() == before:
                    return
            for name in wanted:
                self._forget(name)
            if time.monotonic() > ends:
                raise StoreError(
                    f"{self._root}: files of {COMPACTION}, timers or topics change faster than they"
                    f" are read, for {STILL_S:g} s: take it when there is less to do"
                )
            time.sleep(PAUSE_S)

    def _copy_log(self, served: bool) -> int | None:
        """Copy the log, of one that is served up to its end, and say where that is."""
        spans = log_files(self._root, self._log)
        end = find_end(self._files, self._root, spans) if served else None
        for number, span in enumerate(spans):
            if end is not None and span.begin >= end and number:
                break  # space that was prepared
            name = f"{COMMIT_LOG}/{file_name(span.begin)}"
            note = self._reusable(span)
            if note is not None:
                self._copied[name] = note.copied
                continue
            until = None if end is None else max(end - span.begin, 0)
            was = identity(span.path)
            if not self._copy_one(name, span.path, until):  # retention took it, and all before it
                for earlier in spans[:number]:
                    self._forget(f"{COMMIT_LOG}/{file_name(earlier.begin)}")
            elif number + 1 < len(spans) and (until is None or until >= span.size):
                self._note(SourceFile(self._copied[name], *was))
        return end

    def _note(self, note: SourceFile) -> None:
        """Remember a whole file of the log, whose copy the disk has, for the next try."""
        fd = self._files.open(self._copies / note.copied.path)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        with naming(self._target / PART):
            self._files.write(self._part, part_line(note), self._files.size(self._target / PART))

    def _reusable(self, span: FileSpan) -> SourceFile | None:
        """Return the copy that an earlier try made of a file that has not changed since."""
        note = self._earlier.get(f"{COMMIT_LOG}/{file_name(span.begin)}")
        if note is None or identity(span.path) != (note.inode, note.modified_ns):
            return None
        copy = self._copies / note.copied.path
        return note if copy.is_file() and self._files.size(copy) == note.copied.bytes else None

    def _remove_others(self) -> None:
        """Remove what an earlier try has copied and the store has no more."""
        for name in list(stages.walk(self._copies)):
            if name not in self._copied:
                self._files.remove(self._copies / name)

    def _check(self, files: list[CopiedFile]) -> None:
        """Read the copies from the disk; raises SnapshotDamaged where one is not as it was read."""
        for file in files:
            path = self._copies / file.path
            if sum_of(self._files, path, self._seen) != (file.bytes, file.sum):
                self._files.remove(path)  # the next try copies it anew
                raise SnapshotDamaged(f"{path} does not read as it was written: look at that disk")

    def _seen(self, count: int) -> None:
        self._done += count
        self._show(self._done, max(self._total, self._done))


def _is_text(name: str) -> bool:
    """Whether a file's name can stand in the list of what a snapshot has."""
    return name.isascii() or name == name.encode(errors="replace").decode()


def identity(path: Path) -> tuple[int, int]:
    """Return which file has a name, and when it was written last; zeros where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns
