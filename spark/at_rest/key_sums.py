"""Check sums of one index file, as our broker leaves them in `aerobee.sums`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from aerobee.spark.at_rest import disk
from aerobee.storage.layout import (
    INDEX_SUM_ENTRIES,
    INDEX_SUM_SLOTS,
    INDEX_SUMS_FIELDS,
    INDEX_SUMS_MAGIC,
)

_HEAD: Final = INDEX_SUMS_FIELDS.run()
_SUM: Final = np.dtype(">u4")


class IndexDoubtfulError(Exception):
    """An index does not agree with itself or the log, or does not say what is asked."""


@dataclass(frozen=True, slots=True)
class KeySums:
    """The shape of a file, and the sums of its slots and of its entries before `count`."""

    slots: int
    entries: int
    count: int
    of_slots: Any
    of_entries: Any


def read_sums(path: str) -> KeySums | None:
    """The sums that a file has, None where it has none. Raises IndexDoubtfulError, OSError."""
    try:
        fd = disk.open_file(path)
    except FileNotFoundError:
        return None
    try:
        data = disk.read(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)
    if len(data) < _HEAD.size:
        raise IndexDoubtfulError("check sums that are cut off")
    magic, slots, entries, count = _HEAD.unpack_from(data)
    if magic != INDEX_SUMS_MAGIC or slots <= 0 or not 0 < count <= entries:
        raise IndexDoubtfulError("check sums of another kind")
    numbers = 1 + -(-slots // INDEX_SUM_SLOTS) + -(-count // INDEX_SUM_ENTRIES)  # 1 of the head
    if len(data) != _HEAD.size + numbers * _SUM.itemsize:
        raise IndexDoubtfulError("check sums that are cut off")
    sums = np.frombuffer(data, _SUM, offset=_HEAD.size)
    of_slots, of_entries = np.split(sums[1:], [-(-slots // INDEX_SUM_SLOTS)])
    return KeySums(slots, entries, count, of_slots, of_entries)
