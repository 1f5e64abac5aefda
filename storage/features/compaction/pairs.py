"""Pairs of files, records and their units under one name: found, read, and searched.

A pair's name is the position of its first record. Units lie in the order of their offsets, and so
do pairs; offsets have gaps.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

import msgspec

from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.units import (
    NO_POSITION,
    UNIT_BYTES,
    CompactionSettings,
    CopyUnit,
    unit_at,
    units_of,
)
from aerobee.storage.layout import UNIT_FIELDS, file_name

UNITS_AT_ONCE: Final = 1024
_POSITION: Final = UNIT_FIELDS.run(last="position")


class Folders(msgspec.Struct, frozen=True):
    """Where the two files of each pair are."""

    records: Path
    units: Path

    def below(self, name: str) -> "Folders":
        """Return the folders of that name in both."""
        return Folders(self.records / name, self.units / name)

    def paths(self, base: int) -> tuple[Path, Path]:
        """Return the two files of a pair, records first."""
        return self.records / file_name(base), self.units / file_name(base)


class Pair(msgspec.Struct, frozen=True):
    """What one pair has: `count` units, of the offsets `first` to `last`, -1 where it has none.

    `used` bytes of its records' file hold records; a `closed` one takes no more.
    """

    base: int
    count: int = 0
    first: int = -1
    last: int = -1
    used: int = 0
    closed: bool = False


class OpenPair:
    """The two files of a pair, open for reading; errors are OSError."""

    def __init__(self, files: Files, folders: Folders, pair: Pair) -> None:
        self._files = files
        self.pair = pair
        records, units = folders.paths(pair.base)
        self._units = files.open(units, write=False)
        try:
            self._records = files.open(records, write=False)
        except BaseException:
            files.close(self._units)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close(self._units)
        self._files.close(self._records)

    def units(self, begin: int = 0) -> Iterator[CopyUnit]:
        """Yield the units from number `begin` on."""
        for number in range(begin, self.pair.count, UNITS_AT_ONCE):
            count = min(UNITS_AT_ONCE, self.pair.count - number)
            yield from units_of(self._read_units(number, count))

    def number_of(self, offset: int) -> int:
        """Return the number of the first unit of an offset or a later one."""
        return self._search(lambda unit: unit.offset < offset)

    def number_at(self, timestamp_ms: int) -> int:
        """Return the number of the first unit that was stored at a time or later."""
        return self._search(lambda unit: unit.store_timestamp < timestamp_ms)

    def record(self, unit: CopyUnit) -> bytes:
        """Return the bytes that a unit names; fewer where the file has no more."""
        at = unit.position - self.pair.base
        if at < 0 or at + unit.size > self.pair.used:
            return b""
        return self._files.read(self._records, unit.size, at)

    def _read_units(self, number: int, count: int) -> bytes:
        return self._files.read(self._units, count * UNIT_BYTES, number * UNIT_BYTES)

    def _search(self, before: Callable[[CopyUnit], bool]) -> int:
        low, high = 0, self.pair.count
        while low < high:
            middle = (low + high) // 2
            unit = unit_at(self._read_units(middle, 1), 0)
            if unit is not None and before(unit):
                low = middle + 1
            else:
                high = middle
        return low


def found_pair(files: Files, folders: Folders, base: int, settings: CompactionSettings) -> Pair:
    """Read what a pair has from its units, up to the first that names no record."""
    path = folders.paths(base)[1]
    count, first, last, used, closed = 0, -1, -1, 0, False
    fd = files.open(path, write=False)
    try:
        step, at = UNITS_AT_ONCE * UNIT_BYTES, 0
        while at < settings.unit_file_bytes:
            data = files.read(fd, min(step, settings.unit_file_bytes - at), at)
            for unit in units_of(data):
                end = unit.position + unit.size - base
                if unit.offset <= last or end <= used or end > settings.file_bytes:
                    return Pair(base, count, first, last, used, closed)
                first = unit.offset if first < 0 else first
                count, last, used = count + 1, unit.offset, end
            at += len(data)
            if count * UNIT_BYTES < at or not data:
                mark = files.read(fd, _POSITION.size, count * UNIT_BYTES)
                closed = mark == _POSITION.pack(NO_POSITION)
                break
    finally:
        files.close(fd)
    closed = closed or (count + 1) * UNIT_BYTES >= settings.unit_file_bytes
    return Pair(base, count, first, last, used, closed)
