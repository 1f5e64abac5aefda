"""Records: the bytes of the log and of pull replies."""

import struct

import pytest
from support.golden.java import java_bytes

from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_MAGIC, MAGIC_V1, MAGIC_V2
from aerobee.remoting.message.record import (
    BLANK,
    HEAD,
    Record,
    body_crc,
    decode_record,
    encode_record,
    host_address,
    host_bytes,
    iter_records,
    record_bytes,
)

BODY_LENGTH_AT = HEAD.size + 8 + 8 + 8 + 4 + 8


def java_record(ip: str) -> Record:
    """Return what the golden records were made of."""
    return Record(
        topic="TopicTest",
        queue_id=3,
        flag=7,
        queue_offset=11,
        position=123456789012,
        sys_flag=48 if ":" in ip else 0,
        born_timestamp=1700000000000,
        born_host=(ip, 54321),
        store_timestamp=1700000000123,
        store_host=(ip, 10911),
        reconsume_times=2,
        prepared_transaction_offset=99,
        body="héllo".encode(),
        properties=b"k\x01v\x02TAGS\x01TagA\x02",
    )


@pytest.mark.parametrize(("name", "ip"), [("record_v4", "10.1.2.3"), ("record_v6", "2001:db8::1")])
def test_agrees_with_java_byte_for_byte(name: str, ip: str) -> None:
    """Both kinds of host, written and read."""
    wire = java_bytes(name)
    assert encode_record(java_record(ip)) == wire
    decoded = decode_record(wire)
    assert decoded.total_size == len(wire)
    assert decoded.body_crc == body_crc(decoded.body)
    assert encode_record(decoded) == wire
    assert decoded.born_host == (ip, 54321)


def test_long_topics_make_version_2() -> None:
    """A topic of 128 bytes needs two bytes for its length, one of 127 does not."""
    for chars, magic in ((127, MAGIC_V1), (128, MAGIC_V2), (32_767, MAGIC_V2)):
        wire = encode_record(Record(topic="t" * chars))
        assert struct.unpack_from(">I", wire, 4) == (magic,)
        assert len(wire) == record_bytes(0, chars, 0)
        assert decode_record(wire).topic == "t" * chars


def test_hosts_may_be_of_different_kinds() -> None:
    """The two IPv6 bits are set one by one, and forgotten where they do not fit."""
    record = Record(topic="t", born_host=("::1", 1), store_host=("1.2.3.4", 2), sys_flag=32 | 1)
    decoded = decode_record(encode_record(record))
    assert decoded.sys_flag == SysFlag.BORN_HOST_V6 | SysFlag.COMPRESSED
    assert (decoded.born_host, decoded.store_host) == (("::1", 1), ("1.2.3.4", 2))


def test_host_bytes_as_java_writes_them() -> None:
    """IPv4 in IPv6 clothes becomes IPv4; a scope is dropped; names are refused."""
    assert host_bytes("::ffff:1.2.3.4", 5) == b"\x01\x02\x03\x04\0\0\0\x05"
    assert host_address(host_bytes("fe80::1%eth0", 65535)) == ("fe80::1", 65535)
    with pytest.raises(ValueError, match="localhost"):
        host_bytes("localhost", 1)


def test_the_body_can_be_skipped() -> None:
    """Without the body a wrong checksum does not matter."""
    wire = bytearray(encode_record(Record(topic="t", body=b"body", properties=b"a\x01b\x02")))
    wire[BODY_LENGTH_AT + 4] ^= 1
    assert decode_record(wire, body=False) == decode_record(wire, body=False, check_crc=False)
    assert decode_record(wire, body=False).body == b""
    assert decode_record(wire, check_crc=False).properties == b"a\x01b\x02"
    with pytest.raises(CorruptRecord, match="record at byte 0: body crc 0x"):
        decode_record(wire)


def test_records_back_to_back() -> None:
    """A pull reply's body gives its records in order, up to the damage."""
    records = [Record(topic="t", queue_offset=number, body=b"x" * number) for number in range(5)]
    wire = b"".join(map(encode_record, records))
    assert [record.queue_offset for record in iter_records(memoryview(wire))] == [0, 1, 2, 3, 4]
    found = iter_records(wire[:-1])
    assert [next(found).queue_offset for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(CorruptRecord, match=f"record at byte {len(wire) - 96}: "):
        next(found)


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [
        (0, 0, "size 0, expected"),
        (0, 10_000, "size 10000, expected"),
        (4, 0, "magic 0x00000000"),
        (36, 0x30, "too small for IPv6 hosts"),
        (BODY_LENGTH_AT, 0x7FFF_FFFF, "body of 2147483647 bytes"),
        (BODY_LENGTH_AT, 0xFFFF_FFFF, "body of -1 bytes"),
        (BODY_LENGTH_AT, 1, "properties of|topic of"),
    ],
)
def test_damage_is_named(at: int, value: int, text: str) -> None:
    """Each length that lies is found before anything is read by it."""
    wire = bytearray(encode_record(Record(topic="t")))
    struct.pack_into(">I", wire, at, value)
    with pytest.raises(CorruptRecord, match=text):
        decode_record(wire)


def test_damage_behind_the_body_is_named() -> None:
    """Topic, properties and the end of the record are checked too."""
    wire = bytearray(encode_record(Record(topic="t", properties=b"a\x01b\x02")))
    topic_at = BODY_LENGTH_AT + 4
    for at, value, text in (
        (topic_at, 200, "topic of 200 bytes"),
        (topic_at + 1, 0xFF, "no UTF-8"),
        (topic_at + 2, 0x80, "properties of -32764 bytes, expected 4"),
        (topic_at + 3, 3, "properties of 3 bytes, expected 4"),
    ):
        damaged = bytearray(wire)
        damaged[at] = value
        with pytest.raises(CorruptRecord, match=text):
            decode_record(damaged)


def test_a_blank_is_no_record() -> None:
    """The filler at the end of a log file is refused by its magic."""
    wire = BLANK.pack(200, BLANK_MAGIC) + bytes(192)
    with pytest.raises(CorruptRecord, match="magic 0xcbd43194"):
        decode_record(wire)
    with pytest.raises(CorruptRecord, match="8 bytes left"):
        decode_record(wire, 192)


def test_lengths_that_do_not_fit_are_refused() -> None:
    """Topic and properties have int16 lengths."""
    with pytest.raises(ValueError, match="topic of 32768 bytes"):
        encode_record(Record(topic="t" * 32_768))
    with pytest.raises(ValueError, match="properties of 32768 bytes"):
        encode_record(Record(topic="t", properties=bytes(32_768)))
