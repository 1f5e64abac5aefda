"""Records as copies have them: moved, held against their units, and asked for their key."""

import struct
from typing import Final

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_FIELDS, BLANK_MAGIC, POSITION_AT, RECORD_FIELDS
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.message.record import Record, decode_record
from aerobee.storage.features.compaction.units import CopyUnit

_POSITION: Final = struct.Struct(">q")
_OFFSETS: Final = RECORD_FIELDS.pick("total_size", "queue_offset", "position")
BLANK: Final = BLANK_FIELDS.run()
BLANK_BYTES: Final = BLANK_FIELDS.size


def moved(record: bytes | memoryview, position: int) -> bytes:
    """Return a record as it lies at another position."""
    data = bytearray(record)
    _POSITION.pack_into(data, POSITION_AT, position)
    return bytes(data)


def blank(rest_bytes: int) -> bytes:
    """Return what closes a file that has so many bytes left."""
    return BLANK.pack(rest_bytes, BLANK_MAGIC)


def is_named(data: bytes, unit: CopyUnit) -> bool:
    """Whether bytes are, by their head, the record that a unit names; bodies have a checksum."""
    if len(data) != unit.size or unit.size < RECORD_FIELDS.size:
        return False
    return bool(_OFFSETS.unpack_from(data) == (unit.size, unit.offset, unit.position))


def sound_record(data: bytes, unit: CopyUnit) -> Record | None:
    """Decode the record that a unit names; None where it is another, or damaged."""
    if not is_named(data, unit):
        return None
    try:
        return decode_record(data)
    except CorruptRecord:
        return None


def key_of(properties: bytes | memoryview) -> str | None:
    """Return what a record is the latest of: its whole KEYS, None where those are blank."""
    keys = find_property(properties, Property.KEYS)
    return keys if keys is not None and keys.strip() else None


def same_message(copied: Record, own: Record) -> bool:
    """Whether two records of one offset are of one message."""
    return (copied.store_timestamp, copied.body, copied.properties) == (
        own.store_timestamp, own.body, own.properties,
    )  # fmt: skip
