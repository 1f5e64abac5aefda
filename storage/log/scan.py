"""Walks the records of a log from a position to the first byte that is none."""

import struct
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from aerobee.remoting.message.layout import (
    BATCH_FIELDS,
    BLANK_MAGIC,
    BODY_BYTES_AT,
    BODY_LENGTH_BYTES,
    HOST_BITS,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
    RECORD_SHAPES,
)
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.words import SCHEDULE_TOPIC
from aerobee.storage.log.segment import Segment
from aerobee.storage.log.segments import Segments

CHUNK_BYTES: Final = 4 << 20
FIRST_CHUNK_BYTES: Final = 16 << 10  # of a scan; the next ones grow, for many scans end at once

HEAD: Final = RECORD_FIELDS.run("total_size", "sys_flag")
"""Total size, magic, body crc, queue id, flag, queue offset, position, sys flag."""
_BODY_BYTES: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")
_STORED_AT: Final = {bits: fields.at("store_timestamp") for bits, fields in RECORD_SHAPES.items()}

_TRANSACTION_BITS: Final = 0xC
_COMMITTED: Final = 0x8
INNER_BATCH: Final = 0x80
BATCHED_BYTES_MIN: Final = BATCH_FIELDS.size + 2
"""What a message of an inner batch takes of its record at least."""


def store_timestamp(buffer: bytes, at: int, sys_flag: int) -> int:
    """Return when the record at byte `at` was stored, in milliseconds; it stands behind a host."""
    stamp: int = _TIMESTAMP.unpack_from(buffer, at + _STORED_AT[sys_flag & HOST_BITS])[0]
    return stamp


class Scanned(NamedTuple):
    """One sound record; `buffer[at : at + size]` are its bytes."""

    position: int
    size: int
    prefix: bytes  # the topic's length and the topic
    queue_id: int
    queue_offset: int
    sys_flag: int
    buffer: bytes
    at: int
    properties_at: int

    @property
    def topic(self) -> str:
        """The topic's name."""
        skip = 1 if len(self.prefix) == self.prefix[0] + 1 else 2
        return self.prefix[skip:].decode("utf-8", "replace")

    @property
    def store_timestamp(self) -> int:
        """When the broker stored it, in milliseconds."""
        return store_timestamp(self.buffer, self.at, self.sys_flag)

    @property
    def properties(self) -> bytes:
        """The raw property string."""
        return self.buffer[self.properties_at : self.at + self.size]

    @property
    def messages(self) -> int:
        """How many messages it holds: one, but for an inner batch (`queue.type=BatchCQ`)."""
        if not self.sys_flag & INNER_BATCH:
            return 1
        number = find_property(self.properties, Property.INNER_NUM) or ""
        if not number.isdecimal() or len(number) > 9:
            return 1
        return max(1, min(int(number), self.size // BATCHED_BYTES_MIN))

    @property
    def queued(self) -> bool:
        """Whether it has a queue entry: all but prepared and rolled-back transactions have."""
        return self.sys_flag & _TRANSACTION_BITS in (0, _COMMITTED)


class LogScan:
    """Iterate once; afterwards `end` is where the sound records end and `reason` says why there."""

    def __init__(self, segments: Segments, begin: int, *, check_crc: bool = True) -> None:
        self._segments = segments
        self._check_crc = check_crc
        self.end = begin
        self.reason = "the files end"

    def __iter__(self) -> Iterator[Scanned]:
        segment = self._segments.find(self.end)
        while segment is not None:
            blank = yield from self._scan(segment)
            if not blank:
                return
            self.end = segment.end
            segment = self._segments.after(segment)
        self.reason = "the files end"

    def _scan(self, segment: Segment) -> Generator[Scanned, None, bool]:
        position, check_crc = self.end, self._check_crc
        chunk_bytes = FIRST_CHUNK_BYTES
        buffer, base, length = b"", position, 0  # buffer holds the bytes from `base` on
        while position < segment.end:
            at = position - base
            if length - at < RECORD_BYTES_MIN:
                buffer, base, at = segment.read(position, chunk_bytes), position, 0
                chunk_bytes = min(4 * chunk_bytes, CHUNK_BYTES)
                length = len(buffer)
                if length < RECORD_BYTES_MIN and not segment.is_closed_at(position):
                    return self._stop(position, "the file ends", blank=False)
                if length < RECORD_BYTES_MIN:
                    return True
            total, magic, crc, queue_id, _, queue_offset, own, sys_flag = HEAD.unpack_from(
                buffer, at
            )
            if magic != MAGIC_V1 and magic != MAGIC_V2:
                if magic == BLANK_MAGIC and segment.is_closed_at(position):
                    return True
                return self._stop(position, f"magic {magic:#x}" if magic else "zeros")
            if total < RECORD_BYTES_MIN or position + total > segment.end:
                return self._stop(position, f"record size {total}")
            if own != position:
                return self._stop(position, f"a record of position {own}")
            if at + total > length:
                buffer = segment.read(position, max(chunk_bytes, total))
                base, at, length = position, 0, len(buffer)
                if length < total:
                    return self._stop(position, "the file ends")
            end = at + total
            body_at = at + BODY_BYTES_AT[sys_flag & HOST_BITS]
            (body_bytes,) = _BODY_BYTES.unpack_from(buffer, body_at)
            body_at += BODY_LENGTH_BYTES
            topic_at = body_at + body_bytes
            if body_bytes < 0 or topic_at + 3 > end:
                return self._stop(position, f"body of {body_bytes} bytes")
            if (
                check_crc
                and body_bytes
                and (crc32(memoryview(buffer)[body_at:topic_at]) & 0x7FFF_FFFF != crc)
            ):
                return self._stop(position, "wrong body crc")
            if magic == MAGIC_V1:
                topic_end = topic_at + 1 + buffer[topic_at]
            else:
                topic_end = topic_at + 2 + _LENGTH.unpack_from(buffer, topic_at)[0]
            if not topic_at < topic_end <= end - 2:
                return self._stop(position, "wrong topic length")
            (properties_bytes,) = _LENGTH.unpack_from(buffer, topic_end)
            if topic_end + 2 + properties_bytes != end:
                return self._stop(position, f"properties of {properties_bytes} bytes")
            position += total
            self.end = position
            yield Scanned(
                position - total, total, buffer[topic_at:topic_end], queue_id, queue_offset,
                sys_flag, buffer, at, topic_end + 2,
            )  # fmt: skip
        return True

    def _stop(self, position: int, reason: str, *, blank: bool = False) -> bool:
        self.end, self.reason = position, reason
        return blank


def tags_code(record: Scanned, topic: str, delay_levels_ms: tuple[int, ...]) -> int:
    """Return what the queue entry of a record says of its tags (checkMessageAndReturnSize).

    The Java hash of TAGS, 0 without; for a delayed message the time when it is due, in ms.
    """
    properties = record.properties
    if topic == SCHEDULE_TOPIC and (text := find_property(properties, Property.DELAY)):
        try:
            level = min(int(text), len(delay_levels_ms))
        except ValueError:
            level = 0
        if level > 0:
            return record.store_timestamp + delay_levels_ms[level - 1]
    tags = find_property(properties, Property.TAGS)
    return java_string_hash(tags) if tags else 0
