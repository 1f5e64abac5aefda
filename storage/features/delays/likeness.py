"""Whether a record that claims to be a delivery is like the message that waited.

What is sent to this broker has no mark of a delivery, whatever its producer wrote. Another broker
stores what it gets, and nobody can tell afterwards whether one has had the store: so a mark alone
proves nothing. What it is on must have unique key, topic, birth and body of the message it names.
Who may send to a topic then holds back no message of others by a record that is forged, but for one
whose producer's address and port he has, and whose body comes with the forged one.
"""

import struct
from typing import Final

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BODY_BYTES_AT, HOST_BITS
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.message.record import Record, decode_record
from aerobee.storage.log.scan import HEAD, Scanned
from aerobee.storage.store import MessageStore

_LENGTH: Final = struct.Struct(">i")
_BEGIN_BYTES: Final = max(BODY_BYTES_AT.values()) + _LENGTH.size
"""Up to the body, behind any two hosts; all that waits is longer, by its topic and REAL_TOPIC."""


def is_alike(
    store: MessageStore, scanned: Scanned, position: int, named: tuple[str, int, int]
) -> bool:
    """Whether a record of the log is like the one that waits at a position.

    `named` are topic, queue and offset of what waits. The body that waits is read only where the
    record has one of that length: many small records that name a large one cost little.
    """
    begin = store.commit_log.read(position, _BEGIN_BYTES)
    if len(begin) < _BEGIN_BYTES or _body(begin) != _body(scanned.buffer, scanned.at):
        return False
    try:
        delivered = decode_record(scanned.buffer, scanned.at)
        if (data := store.record_at(position, named)) is None:
            return False  # nor can it be delivered
        waiting = decode_record(data, check_crc=False)  # it was checked when it was read
    except CorruptRecord:
        return False
    return _told(delivered) == _told(waiting)


def _body(buffer: bytes, at: int = 0) -> tuple[int, int]:
    """Return checksum and length of a record's body."""
    _, _, crc, _, _, _, _, sys_flag = HEAD.unpack_from(buffer, at)
    (length,) = _LENGTH.unpack_from(buffer, at + BODY_BYTES_AT[sys_flag & HOST_BITS])
    return crc, length


def _told(record: Record) -> tuple[object, ...]:
    named = (Property.UNIQ_KEY, Property.REAL_TOPIC)
    properties = tuple(find_property(record.properties, name) for name in named)
    return *properties, record.born_timestamp, record.born_host, record.body
