"""What is sound of the files of one copy, whatever has happened to them."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import MAGIC_AT, MAGIC_V1, MAGIC_V2, RECORD_FIELDS
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.message.record import Record
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.pairs import Folders, OpenPair, Pair, found_pair
from aerobee.storage.features.compaction.records import key_of, same_message, sound_record
from aerobee.storage.features.compaction.source import CopySource
from aerobee.storage.features.compaction.swap import numbered
from aerobee.storage.features.compaction.units import (
    UNIT_BYTES,
    CompactionSettings,
    CopyUnit,
    unit_at,
)
from aerobee.storage.features.compaction.writing import Copy

STEP_BYTES: Final = 1 << 20
_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC_BYTES: Final = 4
_HEAD: Final = RECORD_FIELDS.pick("total_size", "queue_offset", "position")


class Salvage:
    """Reads the copy of one queue, record by record; nothing is written.

    A pair without a fault is read by its units. Of another one each unit counts that leads to a
    sound record, wherever it stands, and each sound record that no unit leads to, unless the log
    has another message of its offset. `faults` are sentences, `damaged` the files they are of, and
    `lost` the offsets of units without a sound record.
    """

    def __init__(
        self, files: Files, folders: Folders, sizes: CompactionSettings, name: tuple[str, int]
    ) -> None:
        self._files = files
        self._folders = folders
        self._sizes = sizes
        self._name = name
        self.source: CopySource | None = None  # what the log has of the queue
        self.faults: list[str] = []
        self.damaged: list[Path] = []
        self.lost: set[int] = set()
        self.offsets = array("q")  # that have a sound record, in order
        self.pairs: list[Pair] = []
        self._found: dict[int, list[CopyUnit]] = {}  # of pairs with a fault, by base

    def look(self, noted_end: int) -> None:
        """Read all of it, once; what lies before `noted_end` was on the disk. Raises OSError."""
        records, units = (
            set(numbered(self._files.names(folder)))
            for folder in (self._folders.records, self._folders.units)
        )
        bases = sorted(records | units)
        for base in bases:
            known = len(self.damaged)
            self._look_at_sizes(base, (base in records, base in units))
            pair = Pair(base)
            if base in units:
                pair = found_pair(self._files, self._folders, base, self._sizes)
            if base in records & units:
                self._look_at(pair, noted_end if base == bases[-1] else None)
            if len(self.damaged) > known:
                self._found[base] = list(self._salvaged(pair))
            self.pairs.append(pair)
            self.offsets.extend(unit.offset for unit in self._units(pair))
        self.lost.difference_update(self.offsets)

    @property
    def end(self) -> int:
        """One past the last offset that the copy has, or had by a unit."""
        return max(self.lost | set(self.offsets[-1:]), default=-1) + 1

    @property
    def whole_pairs(self) -> list[Pair]:
        """The pairs without a fault."""
        return [pair for pair in self.pairs if pair.base not in self._found]

    def has(self, offset: int) -> bool:
        """Whether there is a sound record of an offset."""
        at = bisect_left(self.offsets, offset)
        return at < len(self.offsets) and self.offsets[at] == offset

    def copies(self) -> Iterator[Copy]:
        """Yield all that is sound, in the order of offsets."""
        for pair in self.pairs:
            fd = self._open(pair.base, 0)
            try:
                for unit in self._units(pair):
                    data = self._read(fd, pair.base, unit)
                    yield Copy(unit.offset, unit.tags_code, unit.store_timestamp, data)
            finally:
                if fd is not None:
                    self._files.close(fd)

    def _units(self, pair: Pair) -> Iterator[CopyUnit]:
        if (found := self._found.get(pair.base)) is not None:
            yield from found
        elif pair.count:
            with OpenPair(self._files, self._folders, pair) as opened:
                yield from opened.units()

    def _fault(self, base: int, which: int, words: str) -> None:
        path = self._folders.paths(base)[which]
        self.faults.append(f"{path}: {words}")
        if path not in self.damaged[-2:]:
            self.damaged.append(path)

    def _look_at_sizes(self, base: int, there: tuple[bool, bool]) -> None:
        wanted = (self._sizes.file_bytes, self._sizes.unit_file_bytes)
        for which, path in enumerate(self._folders.paths(base)):
            if not there[which]:
                self._fault(base, which, "missing, its other file is there")
            elif (size := self._files.size(path)) != wanted[which]:
                self._fault(base, which, f"{size} bytes, it should have {wanted[which]}")

    def _look_at(self, pair: Pair, noted_end: int | None) -> None:
        """Say what is wrong with a pair; `noted_end` is None where another one follows."""
        last = self.offsets[-1] if self.offsets else -1
        if pair.count and pair.first <= last:
            self._fault(pair.base, 1, f"offset {pair.first} follows {last}")
        with OpenPair(self._files, self._folders, pair) as opened:
            for unit in opened.units():
                record = sound_record(opened.record(unit), unit)
                words = self._wrong(record, unit)
                if words is not None:
                    self._fault(pair.base, 0, words)
        for number, unit in self._unit_places(pair.base, pair.count):
            if number == pair.count or unit.offset <= pair.last:
                continue
            if (noted_end is None or unit.offset < noted_end) and self._sound(pair.base, unit):
                self._fault(pair.base, 1, f"no units from {pair.count} up to {number}")
                return

    def _wrong(self, record: Record | None, unit: CopyUnit) -> str | None:
        if record is None:
            return f"no sound record of offset {unit.offset} at {unit.position}"
        if (record.topic, record.queue_id) != self._name:
            return f"a record of {record.topic}-{record.queue_id}"
        if key_of(record.properties) is None:
            return f"offset {unit.offset} has no key"
        return None

    def _salvaged(self, pair: Pair) -> Iterator[CopyUnit]:
        """Yield units of what is sound of a pair with a fault, in the order of offsets."""
        base, found = pair.base, dict[int, CopyUnit]()
        for number, unit in self._unit_places(base, 0):
            record = self._sound(base, unit)
            if record is None:
                if number < pair.count:
                    self.lost.add(unit.offset)
            elif number < pair.count or self._is_agreed(record):
                found.setdefault(unit.offset, unit)
        for unit, record in self._scanned(base):
            if unit.offset not in found and self._is_agreed(record):
                found[unit.offset] = unit
        last = self.offsets[-1] if self.offsets else -1
        yield from (found[offset] for offset in sorted(found) if offset > last)

    def _is_agreed(self, record: Record) -> bool:
        """Whether what no unit vouches for may be of the queue: the log has it, or nothing."""
        if self.source is None or record.queue_offset >= self.source.queue.max_offset:
            return self.source is None
        own = self.source.record(record.queue_offset)
        return own is None or same_message(record, own)

    def _unit_places(self, base: int, begin: int) -> Iterator[tuple[int, CopyUnit]]:
        """Yield number and unit of each place that has one, from a number on."""
        if (fd := self._open(base, 1)) is None:
            return
        try:
            at = begin * UNIT_BYTES
            while (at_data := self._files.next_data(fd, at)) is not None:
                at = max(at, at_data // UNIT_BYTES * UNIT_BYTES)
                data = self._files.read(fd, STEP_BYTES // UNIT_BYTES * UNIT_BYTES, at)
                if not data:
                    return
                for place in range(0, len(data), UNIT_BYTES):
                    if (unit := unit_at(data, place)) is not None:
                        yield (at + place) // UNIT_BYTES, unit
                at += -(-len(data) // UNIT_BYTES) * UNIT_BYTES
        finally:
            self._files.close(fd)

    def _scanned(self, base: int) -> Iterator[tuple[CopyUnit, Record]]:
        """Yield every sound record of a file, as far as it says itself that it belongs there."""
        if (fd := self._open(base, 0)) is None:
            return
        try:
            at: int | None = 0
            while at is not None:
                head = self._files.read(fd, RECORD_FIELDS.size, at)
                if len(head) < RECORD_FIELDS.size:
                    return
                size, offset, position = _HEAD.unpack_from(head)
                unit = CopyUnit(position, size, 0, 0, offset)
                belongs = position == base + at and 0 < size <= self._sizes.file_bytes - at
                record = self._sound(base, unit) if belongs else None
                if record is None:
                    at = self._next_magic(fd, at + 1)
                    continue
                yield (
                    unit._replace(
                        tags_code=_tags_code(record), store_timestamp=record.store_timestamp
                    ),
                    record,
                )
                at += size
        finally:
            self._files.close(fd)

    def _next_magic(self, fd: int, at: int) -> int | None:
        """Return the first place from one on where a record may begin, None behind the last."""
        at += MAGIC_AT
        while (at_data := self._files.next_data(fd, at)) is not None:
            at = max(at, at_data - _MAGIC_BYTES)
            data = self._files.read(fd, STEP_BYTES, at)
            found = [place for magic in _MAGICS if (place := data.find(magic)) >= 0]
            if found:
                return at + min(found) - MAGIC_AT
            if len(data) < STEP_BYTES:
                return None
            at += len(data) - _MAGIC_BYTES
        return None

    def _sound(self, base: int, unit: CopyUnit) -> Record | None:
        """Return the record of a unit if it is sound, and of this queue."""
        if not base <= unit.position <= base + self._sizes.file_bytes - unit.size:
            return None
        if (fd := self._open(base, 0)) is None:
            return None
        try:
            record = sound_record(self._read(fd, base, unit), unit)
        finally:
            self._files.close(fd)
        return record if record is None or self._wrong(record, unit) is None else None

    def _open(self, base: int, which: int) -> int | None:
        path = self._folders.paths(base)[which]
        try:
            return self._files.open(path, write=False)
        except FileNotFoundError:
            return None

    def _read(self, fd: int | None, base: int, unit: CopyUnit) -> bytes:
        return b"" if fd is None else self._files.read(fd, unit.size, unit.position - base)


def _tags_code(record: Record) -> int:
    tags = find_property(record.properties, Property.TAGS)
    return java_string_hash(tags) if tags else 0
