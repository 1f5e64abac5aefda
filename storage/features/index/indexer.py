"""The index of one store: from the log to files, in slices; what of it a start believes."""

import logging
import sys
import time
from bisect import bisect_left
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from aerobee.storage.disk.files import Files
from aerobee.storage.features.index import slices
from aerobee.storage.features.index.choice import loops
from aerobee.storage.features.index.files import (
    IndexFile,
    IndexHeader,
    IndexShape,
    index_files,
    index_names,
    next_name,
)
from aerobee.storage.features.index.growing import GrowingFile
from aerobee.storage.features.index.log_reader import LogReader
from aerobee.storage.features.index.note import IndexNote, read_index_note, write_index_note
from aerobee.storage.features.index.slices import ENTRY
from aerobee.storage.features.index.soundness import sum_full_file, with_sound_head
from aerobee.storage.features.index.sums import (
    blocks,
    remove_orphans,
    remove_sums,
    sums_or_none,
)
from aerobee.storage.layout import INDEX
from aerobee.storage.log.snapshot import LogSnapshot

log = logging.getLogger(__name__)

DAMAGED_INDEX: Final = "damaged/index"


class Indexer:
    """Used by one thread at a time but for `newest_first`, which any may call at any time.

    `position` is up to where the log is indexed, `begin` from where on without a gap.
    """

    def __init__(
        self,
        files: Files,
        root: Path,
        shape: IndexShape,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._files = files
        self._root = root
        self._clock_s = clock_s
        self.shape: Final = shape
        self.position = self.begin = 0
        self._keys_done = 0  # of the record there: its others go into the next file
        self._noted: IndexNote | None = None
        self._reader = LogReader(files)
        self._growing: GrowingFile | None = None
        self._sealed: tuple[IndexFile, ...] = ()
        self.on_sealed: Callable[[int], None] = lambda end_ms: None  # the disk has all until then
        self.log_on_disk: Callable[[], int] = lambda: sys.maxsize  # up to where the disk has it
        self.entries = 0  # added since the start
        self._looked_at: set[Path] = set()  # full files, whether they have check sums

    def open(self, log_now: LogSnapshot, *, clean: bool) -> None:
        """Find what there is, and where to go on; `clean`: the store was stopped cleanly.

        `log_now` is the log as the start has found it: what an entry says of what comes later is
        not true.
        Nothing of a sound file is removed. After another end the newest file's entries count as far
        as our note says that the disk has them; a file of RocketMQ's as far as its entries agree
        with each other. Raises WrongIndexSizeError, and OSError where the disk refuses.
        """
        self.close()
        self._noted = note = read_index_note(self._files, self._root)
        self._remove_unmade()
        remove_orphans(self._files, self._root)
        found = index_files(self._files, self._root, self.shape)
        while found and self._is_of_another_log(found[-1].header, log_now):
            self._set_aside(found.pop())
        if not clean and note is not None and note.position >= log_now.begin:
            self._drop_unsynced(found, note)
        self._sealed, self._growing, self._keys_done = tuple(found), None, 0
        begin, position = log_now.begin, log_now.begin
        if note is not None and note.file_name == "":
            begin, position = note.begin, note.position
        settled = True
        if found:
            last, full = found[-1], found[:-1]
            self._sealed = tuple(with_sound_head(self._files, each, self.shape) for each in full)
            begin, position, settled = self._continue(last, note, log_now, clean=clean)
        self.position = min(max(position, log_now.begin), log_now.end)
        self.begin = min(max(begin, log_now.begin), self.position)
        self._keys_done = self._keys_in_full_files()
        if not settled:
            self.sync()
        self._seal_if_full()

    def look(self) -> None:
        """Take the files as they are, to be asked and not written: the store is only read.

        They have what the last process had the system write. Raises WrongIndexSizeError, OSError.
        """
        self._sealed = tuple(index_files(self._files, self._root, self.shape))

    def _remove_unmade(self) -> None:
        """Remove the newest file where a crash has left nothing of it but its name."""
        names = index_names(self._files, self._root)
        if names and self._files.size(names[-1]) == 0:
            self._files.remove(names[-1])
            log.info("index_file_begun_anew file=%s", names[-1])

    def _continue(
        self, last: IndexFile, note: IndexNote | None, log_now: LogSnapshot, *, clean: bool
    ) -> tuple[int, int, bool]:
        """Go on with a file; return from where on and to where it is known, and if that is safe."""
        header = last.header
        self._growing = growing = GrowingFile(self._files, self.shape, header)
        growing.open(last.path)
        ours = note if note is not None and note.file_name == last.path.name else None
        within = header.empty or header.end_position < log_now.end
        if ours is not None and clean and ours.count == header.count and within and growing.load():
            return ours.begin, ours.position, True
        count = header.count if clean or ours is None else ours.count
        whole = growing.link(min(count, self.shape.entries), log_now.end)
        growing.began(self._reader.stored_ms(log_now, growing.header.begin_position))
        if ours is not None and whole and count == ours.count:
            return ours.begin, ours.position, False
        found = growing.header
        if not whole:
            log.warning(
                "index_cut file=%s entries=%d of=%d position=%d",
                last.path, found.count - 1, count - 1, found.end_position,
            )  # fmt: skip
        if found.empty:
            position = self._sealed[-1].header.end_position if self._sealed else log_now.begin
        else:
            position = growing.cut_message()
        known = ours is not None and found.count <= ours.count and ours.begin <= position
        return (ours.begin if ours is not None and known else position), position, False

    def _keys_in_full_files(self) -> int:
        """Count the keys that full files have of the record to go on with, which may fill some."""
        done = 0
        for sealed in reversed(self._sealed):
            if sealed.header.end_position != self.position:
                break
            of_it = self._keys_of_last(sealed)
            done += of_it
            if of_it < sealed.header.count - 1:
                break
        return done

    def _keys_of_last(self, sealed: IndexFile) -> int:
        """Count the entries of the last message of a full file; its other keys follow it.

        Where they do not have their check sums nothing is counted: then some come twice.
        """
        count, done = sealed.header.count, 0
        sums = sums_or_none(self._files, sealed.path, self.shape)
        fd = self._files.open(sealed.path, write=False)
        try:
            for _, begin, end in reversed([*blocks(1, count)]):
                at, size = self.shape.entries_at + begin * ENTRY.size, (end - begin) * ENTRY.size
                data = self._files.read(fd, size, at).ljust(size, b"\0")
                if sums is not None and sums.count == count and not sums.sound(data, begin):
                    return 0
                for _, position, _, _ in reversed([*ENTRY.iter_unpack(data)]):
                    if position != sealed.header.end_position:
                        return done
                    done += 1
        finally:
            self._files.close(fd)
        return done

    def _drop_unsynced(self, found: list[IndexFile], note: IndexNote) -> None:
        """Remove files that came after the noted one: the log has all of it, the disk may not."""
        names = [each.path.name for each in found]
        if note.file_name and note.file_name not in names:
            return
        while found and found[-1].path.name != note.file_name:
            self._remove(found[-1])
            log.info("index_file_begun_anew file=%s", found.pop().path)

    def advance(self, log_now: LogSnapshot, bytes_max: int) -> bool:
        """Index up to so many bytes of the log; return False where nothing is left.

        Raises OSError where the disk refuses, or has no room: then it is where it was.
        """
        if self.position < log_now.begin:
            self.position, self._keys_done = log_now.begin, 0
        self.begin = max(self.begin, log_now.begin)
        self._seal_if_full()
        if self.position >= log_now.end:
            return False
        growing = self._growing or self._make()
        began, entries = self.position, growing.count
        self.position, self._keys_done = self._reader.take(
            log_now, began, self._keys_done, bytes_max, growing
        )
        self.position = min(self.position, log_now.end)
        self.entries += growing.count - entries
        self._seal_if_full()
        return True

    def take(self, runs: Any, log_end: int) -> tuple[int, bool]:
        """Index what `slices.index_runs` is given, as far as there is room; nothing is synced.

        Returns how many bytes of it are done, and whether it can go on there; else the log has to
        be read by `advance`. Raises OSError as that does.
        """
        growing = self._growing
        if growing is None or growing.full:
            return 0, False
        entries = growing.count
        at, self.position, self._keys_done, why = growing.add(
            lambda *arrays: loops().index_runs(
                runs, 0, len(runs), self.position, self._keys_done, log_end, *arrays
            )
        )
        self.entries += growing.count - entries
        return at, why != slices.OTHER and not growing.full

    def sync(self) -> None:
        """Return when the disk has all of it, and our note says so; OSError: it may have less.

        After a failure `open` has to be called: memory may hold what the disk never gets.
        """
        growing = self._growing
        if growing is not None and growing.path is not None:
            growing.sync()
        note = self._to_note()
        if note is not None and note != self._noted:
            write_index_note(self._files, self._root, note)
            self._noted = note

    def _to_note(self) -> IndexNote | None:
        """What is to be noted, None where the older note says as much.

        Nothing of what the disk may not have of the log: if power is lost, other messages come to
        stand there, and a start that is killed before it has said so leaves the note to the next.
        """
        growing, on_disk = self._growing, self.log_on_disk()
        files = [*self._sealed[-1:]]
        if growing is not None and growing.path is not None:
            files.append(growing.sealed())
        if on_disk < self.position:
            return self._note_before(on_disk, files)
        if self._keys_done and growing is not None:
            return None  # its first keys are in the file before; the older note is true, too
        name, count = "", 1
        if files:
            name, count = files[-1].path.name, files[-1].header.count
        count = max(1, count - self._keys_done)  # of a record in two files, or more
        return IndexNote(self.begin, self.position, name, count, self.shape.slots)

    def _note_before(self, position: int, files: list[IndexFile]) -> IndexNote | None:
        """What is to be noted of records before a position."""
        count = 1
        while files and (count := self._count_before(files[-1], position)) == 1 and files[1:]:
            files.pop()
        if not files or position < self.begin or (count == 1 and self._sealed):
            return None
        return IndexNote(self.begin, position, files[-1].path.name, count, self.shape.slots)

    def _count_before(self, file: IndexFile, position: int) -> int:
        """Return the number of a file's first entry that is of no record before a position."""
        fd = self._files.open(file.path, write=False)

        def position_of(number: int) -> int:
            at = self.shape.entries_at + number * ENTRY.size
            data = self._files.read(fd, ENTRY.size, at).ljust(ENTRY.size, b"\0")
            return int(ENTRY.unpack(data)[1])

        try:
            return 1 + bisect_left(range(1, file.header.count), position, key=position_of)
        finally:
            self._files.close(fd)

    def sum_next(self, log_end: int, goes_on: Callable[[], bool]) -> bool:
        """Make the check sums of a full file that has none; False where all have been looked at.

        Any thread may call this, one at a time: what is full does not change.
        """
        for file in self._sealed:
            if file.path not in self._looked_at:
                self._looked_at.add(file.path)
                sum_full_file(self._files, file.path, self.shape, log_end, goes_on)
                return True
        return False

    def expire(self, log_begin: int) -> int:
        """Remove the files whose messages are all gone, never the last; return how many."""
        removed = 0
        while self._sealed and self._sealed[0].header.end_position < log_begin:
            growing = self._growing
            if len(self._sealed) == 1 and (growing is None or growing.path is None):
                break
            oldest, self._sealed = self._sealed[0], self._sealed[1:]
            self._remove(oldest)
            log.info("index_file_removed file=%s", oldest.path)
            removed += 1
        return removed

    def newest_first(self) -> list[GrowingFile | IndexFile]:
        """Return the files in which to look, the newest first."""
        growing = self._growing
        found: list[GrowingFile | IndexFile] = [*reversed(self._sealed)]
        if growing is not None and growing.path is not None and growing.path != _path(found):
            found.insert(0, growing)
        return found

    @property
    def last_header(self) -> IndexHeader:
        """The head of the newest file."""
        newest = self.newest_first()
        return newest[0].header if newest else IndexHeader()

    def close(self) -> None:
        """Let go of all files; `sync` comes first where it is to last."""
        self._reader.close()
        if self._growing is not None:
            self._growing.close()
            self._growing = None

    def _make(self) -> GrowingFile:
        """Make the next file, which begins with the times with which the last one ends."""
        before = self._sealed[-1].header if self._sealed else IndexHeader()
        header = IndexHeader(before.end_ms, before.end_ms, before.end_position, before.end_position)
        names = [path.name for path in index_names(self._files, self._root)]
        moment = datetime.fromtimestamp(self._clock_s())  # names are local times
        made = GrowingFile(self._files, self.shape, header)
        made.create(self._root / INDEX / next_name(moment, names))
        self._growing = made
        return made

    def _seal_if_full(self) -> None:
        growing = self._growing
        if growing is None or not growing.full:
            return
        growing.sync()
        sealed = growing.sealed()
        self._sealed += (sealed,)
        self._looked_at.add(sealed.path)
        self._growing = None
        growing.close()
        self.sync()
        self.on_sealed(sealed.header.end_ms)
        log.info("index_file_full file=%s entries=%d", sealed.path, sealed.header.count - 1)

    def _is_of_another_log(self, header: IndexHeader, log_now: LogSnapshot) -> bool:
        """Whether a file has nothing but what the log has lost behind its end."""
        return not header.empty and header.begin_position >= log_now.end

    def _remove(self, file: IndexFile) -> None:
        remove_sums(self._files, file.path)
        self._files.remove(file.path)

    def _set_aside(self, lost: IndexFile) -> None:
        """Move a file away whose messages the log does not have any more, nor will."""
        remove_sums(self._files, lost.path)
        folder = self._root / DAMAGED_INDEX
        self._files.make_directory(folder)
        self._files.replace(lost.path, folder / lost.path.name)
        self._files.sync_directory(folder)
        self._files.sync_directory(lost.path.parent)
        log.warning("index_file_behind_the_log file=%s", lost.path)


def _path(found: list[GrowingFile | IndexFile]) -> Path | None:
    return found[0].path if found else None
