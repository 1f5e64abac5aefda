"""The 46-byte units of RocketMQ's batch queues: one for each record, whatever it holds."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aerobee.storage.layout import UNIT_FIELDS
from aerobee.storage.log.scan import BATCHED_BYTES_MIN

_UNIT: Final = UNIT_FIELDS.run()
UNIT_BYTES: Final = UNIT_FIELDS.size
UNIT_FILE_BYTES: Final = 300_000 * UNIT_BYTES
UNIT_MESSAGES_MAX: Final = 32_767
"""More messages one unit cannot count (BatchConsumeQueue has a short for them)."""
_NO_OFFSET: Final = -1


class BatchUnit(NamedTuple):
    """One record of a batch queue, and how many messages it has; the first one's offset."""

    position: int
    size: int
    tags_code: int
    store_timestamp: int
    first_offset: int
    messages: int

    @property
    def end(self) -> int:
        """The offset behind its last message."""
        return self.first_offset + self.messages

    def follows(self, before: "BatchUnit | None") -> bool:
        """Whether it can be the next one: records and offsets are of one order.

        Between them are no more offsets than lost messages can have had; a lost record, too, of
        which only its first entries are left, may have had more.
        """
        if before is None:
            return True
        step = self.first_offset - before.first_offset
        return (
            self.position >= before.position + before.size
            and before.messages <= step <= (self.position - before.position) // BATCHED_BYTES_MIN
        )


def pack_units(units: Iterable[BatchUnit]) -> bytes:
    """Return the bytes of units."""
    return b"".join([_UNIT.pack(*unit, _NO_OFFSET, 0) for unit in units])


def unit_at(data: bytes, at: int) -> BatchUnit | None:
    """Return the unit at a byte; None for one that names no record: there the units end."""
    if at + UNIT_BYTES > len(data):
        return None
    unit = BatchUnit(*_UNIT.unpack_from(data, at)[:6])
    if unit.position < 0 or unit.size <= 0 or unit.first_offset < 0 or unit.messages <= 0:
        return None
    return unit


def units_of(data: bytes) -> Iterator[BatchUnit]:
    """Yield the units that bytes begin with, up to the first that names no record."""
    for at in range(0, len(data), UNIT_BYTES):
        unit = unit_at(data, at)
        if unit is None:
            return
        yield unit
