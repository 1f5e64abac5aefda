"""A record that lies about its size or its offset stops no queue, and moves no commit astray."""

import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.consumers import QUICK, Seen
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import ConsumeFrom, MessageQueue, PushConsumer
from aerobee.client.cluster.decoding import decode_pulled
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.record import Record, encode_record

QUEUE = MessageQueue("t", "broker-a", 0)
COUNT = 7


def number(value: int) -> Callable[[bytearray], None]:
    """Return what writes another queue offset into a record."""

    def change(record: bytearray) -> None:
        record[20:28] = value.to_bytes(8, "big", signed=True)

    return change


def size(value: int) -> Callable[[bytearray], None]:
    """Return what writes another size into a record."""

    def change(record: bytearray) -> None:
        record[0:4] = value.to_bytes(4, "big")

    return change


def port_and_body(record: bytearray) -> None:
    """Let the broker's port be negative, and the body another than that of the checksum."""
    record[68] ^= 0x80
    record[88] ^= 0xFF


CHANGES = {
    "offset 0": (number(0), True),
    "offset 1": (number(1), True),
    "offset 5": (number(5), True),
    "offset -5": (number(-5), True),
    "offset 2**40": (number(2**40), True),
    "size 0": (size(0), False),
    "size 95": (size(95), False),
    "size 2**30": (size(2**30), False),
    "port below 0": (port_and_body, False),
}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("at", [0, 3, COUNT - 1])
async def test_one_bad_record_harms_itself_alone(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, change: str, at: int, ordered: bool
) -> None:
    """No checksum covers these fields. All others are handled, and all is committed."""
    damage, readable = CHANGES[change]

    def encode(record: Record) -> bytes:
        data = bytearray(encode_record(record))
        if record.queue_offset == at:
            damage(data)
        return bytes(data)

    monkeypatch.setattr("support.stand_ins.fake_cluster.encode_record", encode)
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker = cluster.brokers[0]
    for each in range(COUNT):
        broker.store("t", 0, b"%d" % each)
    seen = Seen()
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=QUICK,
        consume_from=ConsumeFrom.FIRST,
        ordered=ordered,
    )
    member.subscribe("t", seen.handle)
    wanted = {b"%d" % each: 1 for each in range(COUNT) if readable or each != at}
    async with member:
        await until(lambda: len(seen.bodies) >= len(wanted))
        await until(lambda: member.statistics().queues[QUEUE].next_offset == COUNT)
        await until(lambda: member.statistics().queues[QUEUE].messages == 0)
        assert member.statistics().queues[QUEUE].unreadable == (0 if readable else 1)
    assert dict(seen.bodies) == wanted
    assert broker.committed["g", "t", 0] == COUNT


def records(offsets: list[int]) -> bytes:
    """Return records that name these offsets."""
    return b"".join(
        encode_record(Record(topic="t", queue_offset=each, store_host=("127.0.0.1", 1)))
        for each in offsets
    )


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12), st.integers(0, 20))
def test_offsets_rise_within_what_was_asked_for(said: list[int], first: int) -> None:
    """Whatever records name; those that may be right are left alone."""
    behind = first + 12
    got = [
        each.queue_offset
        for each in decode_pulled(records(said), QUEUE, span=(first, behind)).messages
    ]
    assert len(got) == len(said)
    assert got == sorted(set(got)) and all(first <= each < behind for each in got)
    if said == sorted(set(said)) and all(first <= each < behind for each in said):
        assert got == said


def test_where_nothing_is_filtered_out_it_gets_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """Also where the wrong one lies among those of the reply; one warning tells of it."""
    with caplog.at_level(logging.WARNING):
        got = decode_pulled(records([10, 11, 14, 13, 14]), QUEUE, span=(10, 15))
    assert [each.queue_offset for each in got.messages] == [10, 11, 12, 13, 14]
    assert len(caplog.records) == 1 and "says 14" in caplog.text


def test_more_records_than_offsets_are_no_reply() -> None:
    """Nobody can tell which of them are meant."""
    with pytest.raises(CorruptRecord, match="3 records"):
        decode_pulled(records([1, 2, 3]), QUEUE, span=(1, 3))
