"""Whatever a broker puts into a pull reply: messages, or CorruptRecord, and nothing else."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from aerobee.client.cluster.decoding import Decoded, UnpackLimits, decode_messages, decode_pulled
from aerobee.client.message import MessageQueue
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.record import Record, encode_record

QUEUE = MessageQueue("t", "broker-a", 0)
RECORDS = st.builds(
    Record,
    topic=st.text("abc", min_size=1, max_size=200),
    queue_offset=st.integers(0, 2**62),
    body=st.binary(max_size=100),
    properties=st.binary(max_size=60),
    sys_flag=st.sampled_from([0, SysFlag.COMPRESSED, SysFlag.COMPRESSED | SysFlag.COMPRESSION_LZ4]),
)


def check(data: bytes) -> None:
    """Decode, and look at everything that is decoded only when asked for."""
    try:
        decoded = decode_pulled(data, QUEUE, limits=UnpackLimits(1000, 1000))
    except CorruptRecord:
        decoded = Decoded([], [], None)
    assert all(len(message.body) <= max(1000, len(data)) for message in decoded.messages)
    strict: list[ReceivedMessage] = []
    with contextlib.suppress(CorruptRecord):
        strict = decode_messages(data, QUEUE)
    for message in [*decoded.messages, *decoded.unreadable, *strict]:
        assert isinstance(message.topic, str)
        assert isinstance(message.properties, dict)
        assert message.tags is None or isinstance(message.tags, str)
        assert isinstance(message.message_id, str)
        assert isinstance(message.keys, list)


@given(st.binary(max_size=400))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    """No byte string makes decoding fail in another way."""
    check(data)


@given(st.lists(RECORDS, max_size=4), st.data())
def test_damaged_records_are_refused_or_read(records: list[Record], data: st.DataObject) -> None:
    """Neither does a reply with some bytes changed, or cut off."""
    wire = bytearray(b"".join(map(encode_record, records)))
    for _ in range(data.draw(st.integers(0, 4)) if wire else 0):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(wire[: data.draw(st.integers(0, len(wire)))]))


@given(st.lists(RECORDS.filter(lambda record: not record.sys_flag), max_size=6))
def test_sound_records_come_back(records: list[Record]) -> None:
    """Offsets, bodies and raw properties are those that were encoded, in their order."""
    messages = decode_messages(b"".join(map(encode_record, records)), QUEUE)
    assert [(each.queue_offset, each.body, each.raw_properties) for each in messages] == [
        (record.queue_offset, record.body, record.properties) for record in records
    ]
