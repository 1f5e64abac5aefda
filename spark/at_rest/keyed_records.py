"""What the keys of a single record are, read without its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aerobee.remoting.message.layout import (
    BODY_BYTES_AT,
    BODY_LENGTH_BYTES,
    HOST_BITS,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH_BYTES,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.spark.at_rest.open_segment import OpenLog
from aerobee.storage.features.index.keys import index_hash, key_text, record_keys

_HEAD: Final = RECORD_FIELDS.pick(
    "total_size", "magic", "queue_id", "queue_offset", "position", "sys_flag"
)
_HEAD_BYTES: Final = max(BODY_BYTES_AT.values()) + BODY_LENGTH_BYTES
TAIL_BYTES_MAX: Final = 2 + (1 << 15) + PROPERTIES_LENGTH_BYTES + (1 << 15)


class NoRecordError(Exception):
    """At a place that an index names stands no record."""


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """A record and the hashes of its keys; `keys` is how many entries an index has for it."""

    position: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    keys: int
    hashes: frozenset[int]

    @property
    def end(self) -> int:
        """The log position behind it."""
        return self.position + self.size


def key_hash(topic: str, key: str) -> int:
    """The hash of an ordinary key of a topic's messages."""
    return index_hash(key_text(topic, key))


def read_keyed(log: OpenLog, position: int) -> KeyedRecord:
    """The record at a log position. Raises NoRecordError, DataLost, StoreUnreadable."""
    size, magic, queue_id, queue_offset, own, sys_flag = _HEAD.unpack_from(
        _read(log, position, RECORD_BYTES_MIN)
    )
    if magic not in (MAGIC_V1, MAGIC_V2) or own != position or size < RECORD_BYTES_MIN:
        raise NoRecordError(f"no record begins at {position}")
    head = _read(log, position, min(size, _HEAD_BYTES))
    body_at = BODY_BYTES_AT[sys_flag & HOST_BITS] + BODY_LENGTH_BYTES
    body = int.from_bytes(head[body_at - BODY_LENGTH_BYTES : body_at], "big", signed=True)
    tail_bytes = size - body_at - body
    if body < 0 or not 0 < tail_bytes <= TAIL_BYTES_MAX:
        raise NoRecordError(f"the record at {position} contradicts its size")
    tail = _read(log, position + body_at + body, tail_bytes)
    prefix = 2 if magic == MAGIC_V2 else 1
    topic_end = prefix + int.from_bytes(tail[:prefix], "big")
    properties_at = topic_end + PROPERTIES_LENGTH_BYTES
    if properties_at + int.from_bytes(tail[topic_end:properties_at], "big") != len(tail):
        raise NoRecordError(f"the record at {position} contradicts its size")
    topic = tail[prefix:topic_end].decode("utf-8", "replace")
    texts = [key_text(topic, key, kind) for kind, key in record_keys(topic, tail[properties_at:])]
    hashes = frozenset(map(index_hash, texts))
    return KeyedRecord(position, size, topic, queue_id, queue_offset, len(texts), hashes)


def _read(log: OpenLog, position: int, count: int) -> bytes:
    file = log.file_at(position)
    if file is None or position + count > file.segment.end:
        raise NoRecordError(f"the log has no {count} bytes at {position}")
    data = bytearray(count)
    file.read_into(memoryview(data), position)
    return bytes(data)
