"""One queue of a compaction topic: its copy, which is read, appended to, and compacted.

Threads share it: a call takes its lock for some reads or writes of small size, never for a sync or
a round. One thread alone appends and syncs, one at a time runs a round.
"""

import errno
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction import swap
from aerobee.storage.features.compaction.finding import Finder
from aerobee.storage.features.compaction.pairs import Folders, OpenPair, Pair
from aerobee.storage.features.compaction.records import is_named
from aerobee.storage.features.compaction.source import CopySource
from aerobee.storage.features.compaction.units import CompactionSettings, CopyUnit
from aerobee.storage.features.compaction.writing import Copy, PairWriter
from aerobee.storage.layout import COMPACTING

log = logging.getLogger(__name__)

LOOKED_AT_MAX: Final = 4096  # units, by one read


class Gone(Exception):
    """The topic was deleted: this copy is read and written no more."""


class Taken(msgspec.Struct, frozen=True):
    """What a read found: records with their offsets, and where the next one begins."""

    records: Sequence[tuple[int, bytes]]
    next_offset: int
    passed_over: int = 0  # that are not what their units say


class CopiedQueue:
    """The copy of one queue; `load` comes first, and reads what is there.

    `end` is the offset up to which the queue's messages were looked at; those below it that are no
    key's latest may be missing. Offsets keep their numbers.
    """

    def __init__(
        self,
        files: Files,
        folders: Folders,
        settings: CompactionSettings,
        aside: Path,
        noted_end: int = 0,
    ) -> None:
        self._files = files
        self._folders = folders
        self._settings = settings
        self._aside = aside
        self._lock = threading.Lock()
        self.in_round = threading.Lock()
        self._writer = PairWriter(files, folders, settings)
        self.gone = False  # its topic was deleted
        self.loaded = False
        self._cut_at: int | None = None  # a sync has failed: what is behind may not be on the disk
        self.anew = False  # what is noted of rounds may be of an earlier life
        self.end = noted_end
        self.synced_end = noted_end  # is on the disk, as far as is known

    def load(self, queue_begin: int, queue_end: int, source: CopySource | None = None) -> None:
        """Find what is there, once; `queue_begin` and `queue_end` are the offsets the log has.

        What `source` shows to be of a topic that was deleted, and made again since, is removed.

        What a killed round has left is ended or dropped. Behind what is known to be on the disk
        the copy ends before the first record that is not sound, if the log has it to be copied
        again; and it never goes beyond the log. Errors: OSError, WrongFileSize.
        """
        with self._lock:
            if self.loaded:
                return
            if self.gone:
                raise Gone
            swap.go_on(self._files, self._folders, self._settings)
            finder = Finder(self._files, self._folders, self._settings, self._aside)
            pairs = finder.found(queue_begin)
            if source is not None and pairs and not finder.without_earlier_life(pairs, source):
                pairs, self.anew, self.synced_end = [], True, 0
            if self._cut_at is not None:
                queue_end = min(queue_end, self._cut_at)
            found_end = max((pair.last + 1 for pair in pairs), default=self.synced_end)
            pairs = finder.without_end(pairs, max(queue_begin, self.synced_end), queue_end)
            self._cut_at = None
            self._writer.go_on_with(pairs, self.synced_end)
            self.end = self._last + 1
            self.anew = self.anew or self.end < found_end
            self.synced_end = min(self.synced_end, self.end)
            self.loaded = True

    @property
    def _last(self) -> int:
        """The offset of the newest record, -1 where there is none."""
        return max((pair.last for pair in self._writer.pairs), default=-1)

    @property
    def closed_pairs(self) -> tuple[Pair, ...]:
        """The pairs that nothing is appended to any more, which a round may take."""
        return self._writer.pairs[:-1]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All of them."""
        return self._writer.pairs

    def append(self, copies: Iterable[Copy], end: int) -> None:
        """Add records of offsets from `end` on; the queue was looked at up to the new `end`."""
        with self._lock:
            self._check()
            last = self._last  # an append that failed may have come as far as this
            self._writer.append([each for each in copies if each.offset > last])
            self.end = max(self.end, end)

    def sync(self) -> int:
        """Return the offset up to which the disk has all of it, once it does.

        OSError: what was not synced before is cut off by the next `load`, and copied again.
        """
        with self._lock:
            self._check()
            end, unsynced = self.end, self._writer.take_unsynced()
        try:
            self._writer.sync(unsynced)
        except BaseException:
            self._distrust()
            raise
        self.synced_end = end
        return end

    def _distrust(self) -> None:
        """Believe nothing that was not synced before a sync that has failed.

        The kernel may have dropped what it could not write, and would not say so the next time.
        """
        with self._lock:
            self.end = self._cut_at = self.synced_end
            self.loaded = False

    def read(
        self,
        offset: int,
        messages_max: int,
        bytes_max: int,
        wanted: frozenset[int] | None = None,
    ) -> Taken:
        """Return records from an offset on, of the tags that are `wanted`; always one, if any is.

        A read ends after LOOKED_AT_MAX units. What is not the record that its unit names is passed
        over. Errors: OSError; Gone.
        """
        taken: list[tuple[int, bytes]] = []
        total = looked_at = unsound = 0
        with self._lock:
            self._check()
            for pair in self._writer.pairs:
                if pair.last < offset:
                    continue
                with OpenPair(self._files, self._folders, pair) as opened:
                    for unit in opened.units(opened.number_of(offset)):
                        full = len(taken) >= messages_max or (
                            taken and total + unit.size > bytes_max
                        )
                        if full or looked_at >= LOOKED_AT_MAX:
                            return Taken(taken, unit.offset, unsound)
                        looked_at += 1
                        if wanted is not None and unit.tags_code not in wanted:
                            continue
                        record = opened.record(unit)
                        if is_named(record, unit):
                            taken.append((unit.offset, record))
                            total += unit.size
                        else:
                            unsound += 1
            return Taken(taken, max(self.end, offset), unsound)

    def first_since(self, timestamp_ms: int) -> int | None:
        """Return the offset of the first record stored at a time or later, None where none was."""
        with self._lock:
            self._check()
            for pair in self._writer.pairs:
                if not pair.count:
                    continue
                with OpenPair(self._files, self._folders, pair) as opened:
                    number = opened.number_at(timestamp_ms)
                    if number < pair.count:
                        return next(opened.units(number)).offset
        return None

    def oldest(self) -> tuple[int, int] | None:
        """Return offset and store time of the oldest record, None where there is none."""
        with self._lock:
            self._check()
            for pair in self._writer.pairs:
                if pair.count:
                    with OpenPair(self._files, self._folders, pair) as opened:
                        unit = next(opened.units())
                    return unit.offset, unit.store_timestamp
        return None

    def replace(self, old: Sequence[Pair], fresh: Sequence[Pair]) -> None:
        """Put what a round has written, all synced, in the place of the oldest pairs.

        OSError: before anything has moved, the old ones stay; after that the next start ends it.
        """
        doing = swap.Swap(tuple(old), tuple(fresh))
        try:
            self._writer.sync_files(pair.base for pair in old)  # or the note would not know them
        except BaseException:
            self._distrust()
            raise
        swap.note(self._files, self._folders, doing)
        with self._lock:
            self._check()
            if self._writer.pairs[: len(old)] != tuple(old):
                raise OSError(errno.EIO, "a sync failed", os.fspath(self._folders.records))
            self.loaded = False  # should it fail half-way, `load` ends it
            swap.move(self._files, self._folders, doing)
            self._writer.pairs = (*fresh, *self._writer.pairs[len(old) :])
            self._writer.unsynced -= {pair.base for pair in old}  # the fresh ones are synced
            self.loaded = True
        swap.finish(self._files, self._folders)

    def begin_round(self) -> PairWriter:
        """Return what writes the pairs that are to come, in folders of their own."""
        swap.drop(self._files, self._folders)
        return PairWriter(self._files, self._folders.below(COMPACTING), self._settings)

    def drop_round(self) -> None:
        """Remove what a round has written that failed."""
        swap.drop(self._files, self._folders)

    def opened(self, pair: Pair) -> OpenPair:
        """Open a pair that a round reads."""
        return OpenPair(self._files, self._folders, pair)

    def keep_aside(self, unit: CopyUnit, data: bytes) -> None:
        """Keep the bytes of a record that is damaged, and that a round leaves out."""
        self._files.make_directory(self._aside)
        path = self._aside / f"{unit.offset}-{unit.position}.unreadable"
        fd = self._files.open(path, create=True)
        try:
            self._files.write(fd, data, 0)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        log.error("compaction_record_damaged offset=%d kept=%s", unit.offset, path)

    def give_up(self) -> None:
        """Let nobody read or write it any more; who is at it has ended when this returns."""
        with self._lock:
            self.gone = True
        with self.in_round:
            pass

    def _check(self) -> None:
        if self.gone:
            raise Gone
        if not self.loaded:
            raise OSError(
                errno.EIO, "a round or a sync failed half-way", os.fspath(self._folders.records)
            )
