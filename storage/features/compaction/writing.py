"""Appending records to pairs of files as RocketMQ's CompactionLog does."""

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.pairs import Folders, Pair
from aerobee.storage.features.compaction.records import BLANK_BYTES, blank, moved
from aerobee.storage.features.compaction.units import (
    END_UNIT,
    UNIT_BYTES,
    CompactionSettings,
    CopyUnit,
)

FOLDERS_ABOVE: Final = 4
"""Of a queue's folder, up to the store's own: their names may be as new."""


class Copy(msgspec.Struct, frozen=True):
    """One record on its way into a copy."""

    offset: int
    tags_code: int
    store_timestamp: int
    record: bytes


class PairWriter:
    """Appends to the last of its pairs, and makes the next one when that is full.

    Bytes of records are written before the units that name them. Whatever fails leaves `pairs` as
    they were: the next append writes the same places again.
    """

    def __init__(self, files: Files, folders: Folders, settings: CompactionSettings) -> None:
        self._files = files
        self.folders = folders
        self._settings = settings
        self.pairs: tuple[Pair, ...] = ()
        self.unsynced: set[int] = set()  # bases of pairs
        self._unsynced_names = False

    def go_on_with(self, pairs: Sequence[Pair], synced_end: int) -> None:
        """Append behind pairs that were found; an earlier process may not have synced them."""
        self.pairs = tuple(pairs)
        self.unsynced = {pair.base for pair in pairs if pair.last >= synced_end or not pair.count}
        self._unsynced_names = bool(self.unsynced)

    def append(self, copies: Iterable[Copy]) -> None:
        """Write records in the order of their offsets; OSError: some of the first are there."""
        records, units = bytearray(), bytearray()
        pair = self.pairs[-1] if self.pairs else None
        for copy in copies:
            size = len(copy.record)
            if pair is None or not self._fits(pair, size):
                if pair is not None:
                    self._write(pair, records, units)
                    records, units = bytearray(), bytearray()
                pair = self._next(size)
            position = pair.base + pair.used
            unit = CopyUnit(position, size, copy.tags_code, copy.store_timestamp, copy.offset)
            records += moved(copy.record, position)
            units += unit.pack()
            first = copy.offset if pair.first < 0 else pair.first
            pair = Pair(pair.base, pair.count + 1, first, copy.offset, pair.used + size)
        if pair is not None:
            self._write(pair, records, units)

    def close_last(self) -> None:
        """Let the last pair take no more, as a round ends."""
        if self.pairs and not self.pairs[-1].closed:
            self._close(self.pairs[-1])

    def take_unsynced(self) -> set[int]:
        """Return the bases of the pairs that `sync` is to be called for, and forget them."""
        unsynced, self.unsynced = self.unsynced, set()
        return unsynced

    def sync(self, unsynced: set[int]) -> None:
        """Return when what was written to some pairs is on the disk, names too."""
        names, self._unsynced_names = self._unsynced_names, False
        try:
            self.sync_files(unsynced)
            if names:
                for folder in (self.folders.records, self.folders.units):
                    for path in (folder, *folder.parents[:FOLDERS_ABOVE]):
                        self._files.sync_directory(path)
        except BaseException:
            self._unsynced_names |= names
            raise

    def sync_files(self, bases: Iterable[int]) -> None:
        """Return when the content of some pairs is on the disk."""
        for base in sorted(bases):
            for path in self.folders.paths(base):
                self._sync_file(path)

    def _sync_file(self, path: Path) -> None:
        try:
            fd = self._files.open(path)
        except FileNotFoundError:  # a round has replaced it meanwhile, with files that are synced
            return
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _fits(self, pair: Pair, size: int) -> bool:
        full = (pair.count + 1) * UNIT_BYTES >= self._settings.unit_file_bytes
        return not pair.closed and not full and self._has_room(pair.used, size)

    def _has_room(self, used: int, size: int) -> bool:
        return used + size + BLANK_BYTES <= self._settings.file_bytes

    def _write(self, pair: Pair, records: bytearray, units: bytearray) -> None:
        if not units:
            return
        for path, data, end in zip(
            self.folders.paths(pair.base),
            (records, units),
            (pair.used, pair.count * UNIT_BYTES),
            strict=True,
        ):
            fd = self._files.open(path)
            try:
                self._files.write(fd, bytes(data), end - len(data))
            finally:
                self._files.close(fd)
        self.unsynced.add(pair.base)
        self.pairs = (*self.pairs[:-1], pair)

    def _next(self, size: int) -> Pair:
        """Close the last pair and make the one behind it."""
        settings = self._settings
        if not self._has_room(0, size):
            words = f"a record of {size} bytes is larger than compactionMappedFileSize"
            raise OSError(errno.EFBIG, words, os.fspath(self.folders.records))
        base = 0
        if self.pairs:
            last = self.pairs[-1]
            if not last.closed:
                self._close(last)
            base = last.base + settings.file_bytes
        for folder in (self.folders.records, self.folders.units):
            self._files.make_directory(folder)
        sizes = (settings.file_bytes, settings.unit_file_bytes)
        for path, file_bytes in zip(self.folders.paths(base), sizes, strict=True):
            fd = self._files.open(path, create=True)
            try:
                self._files.resize(fd, 0)  # what an earlier attempt has left
                self._files.resize(fd, file_bytes)
            finally:
                self._files.close(fd)
        self._unsynced_names = True
        self.unsynced.add(base)
        pair = Pair(base)
        self.pairs = (*self.pairs, pair)
        return pair

    def _close(self, pair: Pair) -> None:
        """Write what RocketMQ ends both files with."""
        settings = self._settings
        rest = settings.file_bytes - pair.used
        ends = (
            (blank(rest) if rest >= BLANK_BYTES else b"", pair.used),
            (END_UNIT if (pair.count + 1) * UNIT_BYTES <= settings.unit_file_bytes else b"",
             pair.count * UNIT_BYTES),
        )  # fmt: skip
        for path, (data, at) in zip(self.folders.paths(pair.base), ends, strict=True):
            if data:
                fd = self._files.open(path)
                try:
                    self._files.write(fd, data, at)
                finally:
                    self._files.close(fd)
        self.unsynced.add(pair.base)
        self.pairs = (*self.pairs[:-1], replace(pair, closed=True))
