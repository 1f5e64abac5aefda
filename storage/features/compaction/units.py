"""The 46-byte units that say where a copy's records are, and how large both kinds of files are."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from aerobee.storage.layout import UNIT_FIELDS
from aerobee.storage.settings import MIB

_UNIT: Final = UNIT_FIELDS.run()
UNIT_BYTES: Final = UNIT_FIELDS.size
NO_POSITION: Final = -1
FILES_PER_UNITS_MIN: Final = 5

END_UNIT: Final = _UNIT.pack(NO_POSITION, 0, 0, 0, 0, 0, NO_POSITION, 0)
"""What closes a file of units that is not full."""


class CopyUnit(NamedTuple):
    """One record of a copy: where it is, what filters by, and its offset in the queue."""

    position: int
    size: int
    tags_code: int
    store_timestamp: int
    offset: int

    def pack(self) -> bytes:
        """Return the 46 bytes."""
        return _UNIT.pack(
            self.position, self.size, self.tags_code, self.store_timestamp, self.offset, 1,
            NO_POSITION, 0,
        )  # fmt: skip


class CompactionSettings(msgspec.Struct, frozen=True):
    """Sizes of files and memory, RocketMQ's key in brackets; files become as large as its own."""

    file_bytes_wanted: int = 100 * MIB  # [compactionMappedFileSize]
    unit_file_bytes_wanted: int = 10 * MIB  # [compactionCqMappedFileSize]
    map_bytes_max: int = 100 * MIB  # [maxOffsetMapSize] of the keys of all rounds at a time
    rounds_max: int = 6  # [compactionThreadNum] at a time

    @property
    def unit_file_bytes(self) -> int:
        """Return the size of a file of units."""
        return max(1, self.unit_file_bytes_wanted // UNIT_BYTES) * UNIT_BYTES

    @property
    def file_bytes(self) -> int:
        """Return the size of a file of records: a multiple of the other (getCompactionLogSize)."""
        units = self.unit_file_bytes
        times, rest = divmod(self.file_bytes_wanted, units)
        if times < FILES_PER_UNITS_MIN:
            return units * FILES_PER_UNITS_MIN
        return units * (times if 0 < rest < units // 2 else times + 1)


def unit_at(data: bytes, at: int) -> CopyUnit | None:
    """Return the unit at a byte; None for one that names no record: there the units end."""
    if at + UNIT_BYTES > len(data):
        return None
    position, size, code, stamp, offset, messages, _, _ = _UNIT.unpack_from(data, at)
    if position < 0 or size <= 0 or offset < 0 or messages <= 0:
        return None
    return CopyUnit(position, size, code, stamp, offset)


def units_of(data: bytes) -> Iterator[CopyUnit]:
    """Yield the units that bytes begin with, up to the first that names no record."""
    for at in range(0, len(data), UNIT_BYTES):
        unit = unit_at(data, at)
        if unit is None:
            return
        yield unit
