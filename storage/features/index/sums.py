"""Check sums of index files, `aerobee.sums/NAME`: a wrong bit is seen before it is believed."""

import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from isal.isal_zlib import crc32

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.features.index.choice import loops
from aerobee.storage.features.index.files import SLOT_BYTES, IndexShape, index_names
from aerobee.storage.layout import (
    INDEX_ENTRY_FIELDS,
    INDEX_SUM_ENTRIES,
    INDEX_SUM_SLOTS,
    INDEX_SUMS,
    INDEX_SUMS_FIELDS,
    INDEX_SUMS_MAGIC,
)

SUM_BYTES: Final = 4
SLOTS_BYTES: Final = SLOT_BYTES * INDEX_SUM_SLOTS
"""Of slots that have one sum."""
ENTRY_BYTES: Final = INDEX_ENTRY_FIELDS.size
BLOCK_BYTES: Final = ENTRY_BYTES * INDEX_SUM_ENTRIES
"""Of entries that have one sum."""
_HEAD: Final = INDEX_SUMS_FIELDS.run()

Numbers = Any
"""An array of 32 bits without a sign."""


class DamagedIndexError(Exception):
    """An index file does not agree with its check sums, or these are damaged; the text says which.

    What it would say may be wrong, or lack something.
    """


class IndexSums(msgspec.Struct, frozen=True):
    """The sums of a file's head, of its slots, and of its entries before `count`."""

    count: int
    head: int
    slots: Numbers
    entries: Numbers

    def sound(self, data: bytes, number: int) -> int:
        """Return how many entries of `data` come before the first block that is wrong.

        The first one has that number, and begins a block. Of a block that is not wholly there
        nothing is said.
        """
        last = number + len(data) // ENTRY_BYTES
        for which, begin, end in blocks(number, min(last, self.count)):
            whole = end == self.count or end % INDEX_SUM_ENTRIES == 0
            part = memoryview(data)[(begin - number) * ENTRY_BYTES : (end - number) * ENTRY_BYTES]
            if whole and crc32(part) != self.entries[which]:
                return begin - number
        return len(data) // ENTRY_BYTES


class EntrySums:
    """The sums of the entries that a file has, while some are added and taken away."""

    def __init__(self) -> None:
        self._whole: Numbers = array("I")
        self._begun = 0  # of the block that is not full
        self._count = 1

    @classmethod
    def of(cls, sums: IndexSums) -> Self:
        """Return the same as a file has them."""
        made = cls()
        made._whole, made._count = sums.entries[:], sums.count
        return made

    def add(self, data: memoryview | bytes) -> None:
        """Go on with entries."""
        room = (INDEX_SUM_ENTRIES - self._count % INDEX_SUM_ENTRIES) * ENTRY_BYTES
        full = _zeros(len(data) // BLOCK_BYTES + 2)
        count, self._begun = loops().add_sums(data, self._begun, room, BLOCK_BYTES, full)
        self._count += len(data) // ENTRY_BYTES
        self._whole.extend(full[:count])

    def cut(self, count: int) -> int:
        """Have no entry from a number on; return from which one on they are to be added again."""
        del self._whole[count // INDEX_SUM_ENTRIES :]
        self._begun = 0
        self._count = max(1, count - count % INDEX_SUM_ENTRIES)
        return self._count

    def all(self) -> Numbers:
        """Return the sums of all blocks, the one that is not full with them."""
        found = self._whole[:]
        if self._count % INDEX_SUM_ENTRIES:
            found.append(self._begun)
        return found


def blocks(number: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield which blocks entries are of, and from where to where; the first one begins a block."""
    while number < last:
        which = number // INDEX_SUM_ENTRIES
        end = min(last, (which + 1) * INDEX_SUM_ENTRIES)
        yield which, number, end
        number = end


def sums_of_none(slots_bytes: int) -> Numbers:
    """Return the sums of slots that are zeros, without a look at them."""
    whole, rest = divmod(slots_bytes, SLOTS_BYTES)
    sums = array("I", [crc32(bytes(SLOTS_BYTES))]) * whole
    if rest:
        sums.append(crc32(bytes(rest)))
    return sums


def sums_of_slots(slots: Any) -> Numbers:
    """Return the sums of a file's slots."""
    sums = _zeros(len(slots) // SLOTS_BYTES + 1)
    count, last = loops().add_sums(slots, 0, SLOTS_BYTES, SLOTS_BYTES, sums)
    sums[count] = last
    return sums[: -(-len(slots) // SLOTS_BYTES)]


def _zeros(count: int) -> Numbers:
    return array("I", bytes(SUM_BYTES * count))


def sums_path(index_file: Path) -> Path:
    """Return where the sums of an index file are."""
    return index_file.parent.parent / INDEX_SUMS / index_file.name


def encode_sums(sums: IndexSums, shape: IndexShape) -> bytes:
    """Pack them."""
    numbers = array("I", [sums.head])
    numbers.extend(sums.slots)
    numbers.extend(sums.entries)
    data: bytes = _turned(numbers).tobytes()
    return _HEAD.pack(INDEX_SUMS_MAGIC, shape.slots, shape.entries, sums.count) + data


def shape_of_sums(data: bytes) -> IndexShape | None:
    """Return of what shape the index file is that some sums are of, None where they are none."""
    if len(data) < _HEAD.size:
        return None
    magic, slots, entries, _ = _HEAD.unpack_from(data)
    return IndexShape(slots, entries) if magic == INDEX_SUMS_MAGIC else None


def decode_sums(data: bytes, shape: IndexShape) -> IndexSums | None:
    """Unpack them; None where they are no sums of a file of that shape."""
    if shape_of_sums(data) != shape:
        return None
    _, slots, entries, count = _HEAD.unpack_from(data)
    of_slots, of_entries = _blocks(slots, INDEX_SUM_SLOTS), _blocks(count, INDEX_SUM_ENTRIES)
    if not 0 < count <= entries or len(data) != _size(1 + of_slots + of_entries):
        return None
    numbers = array("I")
    numbers.frombytes(data[_HEAD.size :])
    numbers = _turned(numbers)
    return IndexSums(count, numbers[0], numbers[1 : 1 + of_slots], numbers[1 + of_slots :])


def read_sums(files: Files, index_file: Path, shape: IndexShape) -> IndexSums | None:
    """Read the sums of an index file, None where it has none. Raises DamagedIndexError, OSError."""
    path = sums_path(index_file)
    of_slots = _blocks(shape.slots, INDEX_SUM_SLOTS)
    most = 2 + of_slots + _blocks(shape.entries, INDEX_SUM_ENTRIES)  # 1 more than there may be
    data = files.read_all(path, _size(most))
    if data is None:
        return None
    sums = decode_sums(data, shape)
    if sums is None:
        raise DamagedIndexError(
            f"{path} is damaged; stop the broker and have `repair` make it anew"
        )
    return sums


def sums_or_none(files: Files, index_file: Path, shape: IndexShape) -> IndexSums | None:
    """Read the sums of an index file, where there are some and they can be read."""
    try:
        return read_sums(files, index_file, shape)
    except (DamagedIndexError, OSError):
        return None


def write_sums(files: Files, index_file: Path, shape: IndexShape, sums: IndexSums) -> None:
    """Replace the sums of an index file in one step, on the disk."""
    path = sums_path(index_file)
    files.make_directory(path.parent)
    replace_file(files, path, encode_sums(sums, shape))


def remove_sums(files: Files, index_file: Path) -> None:
    """Remove the sums of an index file, if there are some."""
    files.remove(sums_path(index_file))


def remove_orphans(files: Files, root: Path) -> None:
    """Remove sums of index files that are not there: RocketMQ removes some after a kill."""
    names = {path.name for path in index_names(files, root)}
    for name in files.names(root / INDEX_SUMS):
        if name not in names:
            files.remove(root / INDEX_SUMS / name)


def _blocks(count: int, each: int) -> int:
    return -(-count // each)


def _size(numbers: int) -> int:
    return _HEAD.size + SUM_BYTES * numbers


def _turned(numbers: Numbers) -> Numbers:
    """Return numbers of this machine as those of a file, or the other way."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
