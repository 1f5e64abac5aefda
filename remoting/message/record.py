"""One message as it lies in the log and as a pull reply carries it: encode, decode, walk.

A record is, big-endian (CommitLog and MessageDecoder.java; PROTOCOL.md has the ruler):

    total size i32 · magic u32 · body crc u32 · queue id i32 · flag i32 · queue offset i64
    · position i64 · sys flag i32 · born timestamp i64 · born host 8|20 · store timestamp i64
    · store host 8|20 · reconsume times i32 · prepared transaction offset i64
    · body length i32 + body · topic length u8|i16 + topic · properties length i16 + properties
"""

import ipaddress
import struct
from collections.abc import Iterator
from functools import lru_cache
from mmap import mmap
from typing import Final, TypeAlias

import msgspec
from isal.isal_zlib import crc32

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import (
    BLANK_FIELDS,
    BORN_HOST_V6_BIT,
    HOST_BITS,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    MAGIC_LAST_AT,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH_BYTES,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
    RECORD_SHAPES,
    STORE_HOST_V6_BIT,
)
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap
Host: TypeAlias = tuple[str, int]

TOPIC_BYTES_V1_MAX: Final = 127
TOPIC_BYTES_MAX: Final = 32_767

HEAD: Final = RECORD_FIELDS.run("total_size", "born_timestamp")
"""Total size, magic, body crc, queue id, flag, queue offset, position, sys flag, born timestamp."""

MIDDLES: Final = {
    bits: fields.run("born_host", "body_bytes") for bits, fields in RECORD_SHAPES.items()
}
"""Born host, store timestamp, store host, reconsume times, prepared offset, body length; by the two
IPv6 bits of the sys flag."""

BLANK: Final = BLANK_FIELDS.run()

_HEAD_BYTES: Final = HEAD.size
_UINT16: Final = struct.Struct(">H")
_INT16: Final = struct.Struct(">h")
_V4_MAPPED: Final = bytes(10) + b"\xff\xff"


class Record(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One stored message (MessageExt.java); offsets count messages, `position` bytes of the log.

    `body` is as stored, perhaps compressed (see `sys_flag`); `properties` is the raw property
    string. `total_size` and `body_crc` are what was read; encoding computes them afresh. Timestamps
    are milliseconds since 1970.
    """

    topic: str
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    position: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: Host = ("127.0.0.1", 0)
    store_timestamp: int = 0
    store_host: Host = ("127.0.0.1", 0)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body: bytes = b""
    properties: bytes = b""
    total_size: int = 0
    body_crc: int = 0


def body_crc(body: Buffer) -> int:
    """Return the checksum that a record keeps of its body: CRC-32 without the highest bit."""
    return crc32(body) & 0x7FFF_FFFF


def host_bytes(ip: str, port: int) -> bytes:
    """Write an address as a record holds it: 4 or 16 bytes of IP and the port as an int32.

    Raises ValueError for text that is no IP address. A v4 address in v6 clothes is written as v4,
    as Java does.
    """
    packed = ipaddress.ip_address(ip.partition("%")[0]).packed
    if packed.startswith(_V4_MAPPED):
        packed = packed[12:]
    return packed + port.to_bytes(4, "big", signed=True)


@lru_cache(maxsize=1024)  # a reply's records share a few hosts
def host_address(packed: bytes) -> Host:
    """Read an address of 8 or 20 bytes, the inverse of `host_bytes`."""
    if len(packed) == HOST_V4_BYTES:
        ip = f"{packed[0]}.{packed[1]}.{packed[2]}.{packed[3]}"
    else:
        ip = str(ipaddress.IPv6Address(packed[:-4]))
    return ip, int.from_bytes(packed[-4:], "big", signed=True)


def record_bytes(
    body_bytes: int, topic_bytes: int, properties_bytes: int, *, sys_flag: int = 0
) -> int:
    """Return how many bytes a record takes in the log, from the lengths of its parts."""
    topic_length_bytes = 1 if topic_bytes <= TOPIC_BYTES_V1_MAX else 2
    fixed = RECORD_SHAPES[sys_flag & HOST_BITS].size + PROPERTIES_LENGTH_BYTES
    return fixed + topic_length_bytes + body_bytes + topic_bytes + properties_bytes


def encode_record(record: Record) -> bytes:
    """Write a record; its size and checksum are computed, the IPv6 bits follow its hosts.

    Raises ValueError where topic or properties are longer than their length fields can say.
    """
    topic = record.topic.encode()
    if len(topic) > TOPIC_BYTES_MAX:
        raise ValueError(f"topic of {len(topic)} bytes, limit {TOPIC_BYTES_MAX}")
    if len(record.properties) > PROPERTIES_BYTES_MAX:
        raise ValueError(
            f"properties of {len(record.properties)} bytes, limit {PROPERTIES_BYTES_MAX}"
        )
    born_host, store_host = host_bytes(*record.born_host), host_bytes(*record.store_host)
    sys_flag = record.sys_flag & ~HOST_BITS
    if len(born_host) == HOST_V6_BYTES:
        sys_flag |= BORN_HOST_V6_BIT
    if len(store_host) == HOST_V6_BYTES:
        sys_flag |= STORE_HOST_V6_BIT
    version2 = len(topic) > TOPIC_BYTES_V1_MAX
    return b"".join(
        (
            HEAD.pack(
                record_bytes(
                    len(record.body), len(topic), len(record.properties), sys_flag=sys_flag
                ),
                MAGIC_V2 if version2 else MAGIC_V1,
                body_crc(record.body),
                record.queue_id,
                record.flag,
                record.queue_offset,
                record.position,
                sys_flag,
                record.born_timestamp,
            ),
            MIDDLES[sys_flag & HOST_BITS].pack(
                born_host,
                record.store_timestamp,
                store_host,
                record.reconsume_times,
                record.prepared_transaction_offset,
                len(record.body),
            ),
            record.body,
            _UINT16.pack(len(topic)) if version2 else bytes((len(topic),)),
            topic,
            _UINT16.pack(len(record.properties)),
            record.properties,
        )
    )


def decode_record(
    buffer: Buffer, at: int = 0, *, check_crc: bool = True, body: bool = True
) -> Record:
    """Read the record that starts at byte `at` of `buffer`; without `body` the body stays b"".

    Raises CorruptRecord, which names the byte, what was found and what was expected, for a wrong
    magic number, lengths that do not add up, a cut-off end, and (with `check_crc` and `body`) a
    body that does not match its checksum.
    """
    room = len(buffer) - at
    if room < RECORD_BYTES_MIN:
        raise _corrupt(at, f"{room} bytes left, a record has at least {RECORD_BYTES_MIN}")
    (
        total, magic, crc, queue_id, flag, queue_offset, position, sys_flag, born_timestamp,
    ) = HEAD.unpack_from(buffer, at)  # fmt: skip
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise _corrupt(at, f"magic {magic:#010x}, expected {MAGIC_V1:#010x} or {MAGIC_V2:#010x}")
    if not RECORD_BYTES_MIN <= total <= room:
        raise _corrupt(at, f"size {total}, expected {RECORD_BYTES_MIN}..{room}")
    end = at + total
    middle = MIDDLES[sys_flag & HOST_BITS]
    body_at = at + _HEAD_BYTES + middle.size
    if body_at > end:
        raise _corrupt(at, f"size {total} is too small for IPv6 hosts")
    (
        born_host, store_timestamp, store_host, reconsume_times, prepared, body_bytes,
    ) = middle.unpack_from(buffer, at + _HEAD_BYTES)  # fmt: skip
    topic_at, properties_at = _locate_tail(buffer, at, body_at, body_bytes, end)
    stored = b""
    if body:
        stored = bytes(buffer[body_at : body_at + body_bytes])
        if check_crc and body_crc(stored) != crc:
            raise _corrupt(at, f"body crc {body_crc(stored):#010x}, expected {crc:#010x}")
    try:
        topic = str(buffer[topic_at : properties_at - 2], "utf-8")
    except UnicodeDecodeError:
        raise _corrupt(at, "the topic is no UTF-8") from None
    return Record(
        topic=topic,
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        position=position,
        sys_flag=sys_flag,
        born_timestamp=born_timestamp,
        born_host=host_address(born_host),
        store_timestamp=store_timestamp,
        store_host=host_address(store_host),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
        body=stored,
        properties=bytes(buffer[properties_at:end]),
        total_size=total,
        body_crc=crc,
    )


def _locate_tail(
    buffer: Buffer, at: int, body_at: int, body_bytes: int, end: int
) -> tuple[int, int]:
    """Return where topic and properties begin; the lengths before them lead exactly to `end`."""
    length_bytes = 1 if buffer[at + MAGIC_LAST_AT] == MAGIC_V1 & 0xFF else 2
    topic_at = body_at + body_bytes + length_bytes
    if body_bytes < 0 or topic_at + 2 > end:
        raise _corrupt(at, f"body of {body_bytes} bytes in a record of {end - at}")
    topic_bytes = int.from_bytes(buffer[topic_at - length_bytes : topic_at], "big")
    properties_at = topic_at + topic_bytes + 2
    if properties_at > end:
        raise _corrupt(at, f"topic of {topic_bytes} bytes in a record of {end - at}")
    (properties_bytes,) = _INT16.unpack_from(buffer, properties_at - 2)
    if properties_bytes < 0 or properties_at + properties_bytes != end:
        raise _corrupt(
            at, f"properties of {properties_bytes} bytes, expected {end - properties_at}"
        )
    return topic_at, properties_at


def iter_records(buffer: Buffer, *, check_crc: bool = True, body: bool = True) -> Iterator[Record]:
    """Yield the records that lie back to back in `buffer`, as in the body of a pull reply.

    Raises CorruptRecord at the first record that is damaged or cut off; those before it have been
    yielded.
    """
    at, end = 0, len(buffer)
    while at < end:
        record = decode_record(buffer, at, check_crc=check_crc, body=body)
        yield record
        at += record.total_size


def _corrupt(at: int, found: str) -> CorruptRecord:
    return CorruptRecord(f"record at byte {at}: {found}")
