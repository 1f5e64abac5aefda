"""The file `aerobee.dedup`: unique keys of topics, each with its message's place in the log.

A head, the topics, a row for each key in the order of the log, and the CRC-32 of all that. Nothing
in it is believed but what the log bears out (FORMAT.md).
"""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from aerobee.remoting.message.layout import Layout

MAGIC: Final = b"AERODUP1"

HEAD: Final = Layout(magic="8s", topics="I", rows="I").run()
TOPIC: Final = Layout(number="I", name_bytes="H").run()
ROW: Final = Layout(key="16s", position="q", seen_ms="q", topic="I").run()
ROW_BYTES: Final = ROW.size
_CRC: Final = struct.Struct(">I")


class KnownKeys(msgspec.Struct, frozen=True):
    """`rows` are packed; `topics` has the names of the numbers in them."""

    topics: Mapping[int, str]
    rows: bytes


def encode_snapshot(topics: Mapping[int, str], rows: Sequence[bytes]) -> bytes:
    """Pack a snapshot, whose rows may be in pieces."""
    count = sum(map(len, rows)) // ROW_BYTES
    parts = [HEAD.pack(MAGIC, len(topics), count)]
    for number, topic in topics.items():
        name = topic.encode()
        parts += (TOPIC.pack(number, len(name)), name)
    parts += rows
    data = b"".join(parts)
    return data + _CRC.pack(zlib.crc32(data))


def decode_snapshot(data: bytes) -> KnownKeys | None:
    """Unpack a snapshot; None if a single bit is wrong."""
    end = len(data) - _CRC.size
    if end < HEAD.size or _CRC.unpack_from(data, end)[0] != zlib.crc32(memoryview(data)[:end]):
        return None
    magic, count, rows = HEAD.unpack_from(data)
    if magic != MAGIC:
        return None
    topics, at = {}, HEAD.size
    for _ in range(count):
        if at + TOPIC.size > end:
            return None
        number, name_bytes = TOPIC.unpack_from(data, at)
        at += TOPIC.size + name_bytes
        topics[number] = data[at - name_bytes : at].decode("utf-8", "replace")
    if end - at != rows * ROW_BYTES:
        return None
    return KnownKeys(topics, data[at:end])
