"""Fills what cannot be read of a log with what every broker steps over, and nobody can consume.

The rest of a file, or a whole one, becomes a blank. Within a file stand records that were "rolled
back" (sysFlag 12): neither RocketMQ nor we give them a queue entry or an index entry.
"""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from aerobee.remoting.message.layout import (
    BLANK_MAGIC,
    HOST_V4_BYTES,
    MAGIC_V1,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.remoting.message.record import BLANK
from aerobee.remoting.words import AUTO_CREATE_TOPIC
from aerobee.storage.log.scan import HEAD, Scanned
from aerobee.storage.log.segment import Segment
from aerobee.storage.log.segments import Segments

# a system topic of every broker, which has neither producers nor groups
FILLER_TOPIC: Final = AUTO_CREATE_TOPIC.encode()
ROLLED_BACK: Final = 12
FILLER_BYTES_MAX: Final = 64 * 1024

_MIDDLE: Final = RECORD_FIELDS.run("born_timestamp")
_NOBODY: Final = bytes(HOST_V4_BYTES)
_FILLER_PREFIXES: Final = (bytes([len(FILLER_TOPIC)]) + FILLER_TOPIC, b"\0")


def fill(segments: Segments, begin: int, end: int, stamp_ms: int) -> bool:
    """Fill a span, file by file; False where a piece is too small to hold a record.

    `stamp_ms` is the store time that the fillers name. The files are synced.
    """
    complete = True
    for segment in segments.items:
        low, high = max(begin, segment.base), min(end, segment.end)
        if low >= high:
            continue
        if high == segment.end and high - low >= BLANK.size:
            segment.clear(low)
            segment.write(low, BLANK.pack(high - low, BLANK_MAGIC))
        elif high - low >= RECORD_BYTES_MIN:
            _fill_within(segment, low, high, stamp_ms)
        else:
            complete = False
        segment.sync()
    return complete


def _fill_within(segment: Segment, low: int, high: int, stamp_ms: int) -> None:
    position = low
    for size in _sizes(high - low):
        segment.write(position, filler(position, size, stamp_ms))
        position += size


def _sizes(count: int) -> Iterator[int]:
    """Share out a stretch; no piece is too small for a record."""
    while count > FILLER_BYTES_MAX:
        size = min(FILLER_BYTES_MAX, count - 2 * RECORD_BYTES_MIN)
        yield size
        count -= size
    yield count


def is_filler(record: Scanned) -> bool:
    """Whether a record is one of ours: no broker rolls back a message of that topic, or of none."""
    return not record.queued and record.prefix in _FILLER_PREFIXES


def filler(position: int, size: int, stamp_ms: int) -> bytes:
    """Return a record of exactly that size; 91 bytes are the least."""
    topic = FILLER_TOPIC if size >= RECORD_BYTES_MIN + len(FILLER_TOPIC) else b""
    body = bytes(size - RECORD_BYTES_MIN - len(topic))
    crc = crc32(body) & 0x7FFF_FFFF
    head = HEAD.pack(size, MAGIC_V1, crc, 0, 0, 0, position, ROLLED_BACK)
    middle = _MIDDLE.pack(stamp_ms, _NOBODY, stamp_ms, _NOBODY, 0, 0, len(body))
    return head + middle + body + bytes([len(topic)]) + topic + b"\0\0"
