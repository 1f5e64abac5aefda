"""Lengths inside a record are checked before they are used."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from support.disks.stores import Stored, pack_record

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.records import loops
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import SLACK_BYTES

BODY_LENGTH_AT = 84


def records_of(*raw: bytes) -> Records:
    """The given records, one after the other."""
    sizes = np.array([len(record) for record in raw])
    starts = np.cumsum(sizes) - sizes
    data = np.frombuffer(b"".join(raw) + bytes(SLACK_BYTES), np.uint8)
    return Records(data, 1000, starts, sizes)


@pytest.mark.parametrize("topic", ["t", "t" * 200])
@pytest.mark.parametrize("born", ["10.0.0.1", "2001:db8::1"])
def test_whole_records_are_located(topic: str, born: str) -> None:
    """V1 and V2, IPv4 and IPv6, alone and mixed."""
    message = Stored(topic=topic, born_host=(born, 1), body=b"body", properties=b"p\x01v\x02")
    plain = Stored(queue_id=7)
    found = records_of(*(pack_record(each, 0, 0) for each in (plain, message, plain)))
    assert found.body_bytes.tolist() == [5, 4, 5]
    assert found.topic_bytes.tolist() == [6, len(topic), 6]
    assert found.properties_bytes.tolist() == [0, 4, 0]
    assert found.field("queue_id", np.int32).tolist() == [7, 0, 7]
    at = int(found.body_at[1])
    assert bytes(found.data[at : at + 4]) == b"body"


@pytest.mark.parametrize("rows", [slice(1, 4, 2), slice(None), [4, 1, 1], []])
def test_some_of_the_records_are_taken(rows: slice | list[int]) -> None:
    """In the order that is asked for, whatever has been read of all of them before."""
    messages = [
        Stored(topic=f"topic-{each}", body=b"b" * each, born_host=(host, each))
        for each, host in enumerate(["10.0.0.1", "2001:db8::1", "10.0.0.2", "::2", "10.0.0.3"])
    ]
    records = records_of(*(pack_record(each, 0, 0) for each in messages))
    loops.chosen.coded_hosts(records, "born_host")
    taken = records.only(rows if isinstance(rows, slice) else np.array(rows, np.int64))
    wanted = messages[rows] if isinstance(rows, slice) else [messages[row] for row in rows]
    topics = [
        bytes(taken.data[at : at + size]).decode()
        for at, size in zip(taken.topic_at, taken.topic_bytes, strict=True)
    ]
    assert topics == [each.topic for each in wanted]
    assert taken.body_bytes.tolist() == [len(each.body) for each in wanted]
    if wanted:
        ports = [
            int(text.rpartition(":")[2])
            for text in loops.chosen.coded_hosts(taken, "born_host").to_pylist()
        ]
        assert ports == [each.born_host[1] for each in wanted]


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 6, 100])
def test_wild_body_length_is_refused_with_its_position(length: int) -> None:
    """The second record's length lies; the text says where it stands in the log."""
    good = pack_record(Stored(), 0, 1000)
    bad = bytearray(pack_record(Stored(), 0, 1000 + len(good)))
    struct.pack_into(">i", bad, BODY_LENGTH_AT, length)
    with pytest.raises(CorruptRecord, match=f"log position {1000 + len(good)}: the length of its"):
        records_of(good, bytes(bad), good)


@pytest.mark.parametrize("byte", range(36, 40))
def test_any_flipped_header_byte_is_read_or_refused(byte: int) -> None:
    """A flag for IPv6 that is not true shifts every length behind it."""
    good = pack_record(Stored(body=b"\xff" * 50), 0, 0)
    for bit in range(8):
        bad = bytearray(good)
        bad[byte] ^= 1 << bit
        try:
            records_of(bytes(bad))
        except CorruptRecord:
            assert byte == 39
