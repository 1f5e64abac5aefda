"""Whether the log has the record that a queue's entry names.

Both were written together, so they agree unless one of them has gone bad since: a sector that was
lost, a bit that has flipped. Recovery does not see that behind a position that is proven. The body
has a checksum of its own, which clients compare.
"""

from collections.abc import Iterable
from typing import Final

from aerobee.remoting.message.layout import MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, RECORD_FIELDS
from aerobee.remoting.message.record import Buffer

LONG_BYTES: Final = 1 << 20
"""Records longer than this are looked at before they are touched as a whole (record_runs.pyx)."""

_HEAD: Final = RECORD_FIELDS.pick("total_size", "magic", "position")
HEAD_BYTES: Final = _HEAD.size
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)


def is_record(data: Buffer, at: int, position: int, size: int) -> bool:
    """Whether what begins at byte `at` says that it is the record of that position and size."""
    if size < RECORD_BYTES_MIN:
        return False
    total, magic, own = _HEAD.unpack_from(data, at)
    return total == size and own == position and magic in _MAGICS


def are_records(data: Buffer, places: Iterable[int], sizes: Iterable[int]) -> bool:
    """Whether records that lie side by side, from the first byte on, are all what they should."""
    at, unpack = 0, _HEAD.unpack_from
    for position, size in zip(places, sizes, strict=True):
        if size < RECORD_BYTES_MIN:
            return False
        total, magic, own = unpack(data, at)
        if total != size or own != position or magic not in _MAGICS:
            return False
        at += size
    return True
