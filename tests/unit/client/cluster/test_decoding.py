"""Pull replies become messages, or a clear complaint."""

import pytest

from aerobee.client.cluster.decoding import decode_messages, decode_pulled
from aerobee.client.message import MessageQueue
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.compression import CODECS, compress
from aerobee.remoting.message.record import Record, encode_record

QUEUE = MessageQueue("t", "broker-a", 3)
RECORD = Record(
    topic="t",
    queue_id=3,
    flag=7,
    queue_offset=42,
    position=1000,
    born_timestamp=1,
    born_host=("10.0.0.1", 5000),
    store_timestamp=2,
    store_host=("10.0.0.2", 10911),
    reconsume_times=1,
    body=b"hello",
    properties=b"TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01ID\x02",
)


def with_(**changes: object) -> Record:
    """Return the record with some fields changed."""
    fields = {name: getattr(RECORD, name) for name in RECORD.__struct_fields__}
    return Record(**(fields | changes))


def test_every_field_arrives() -> None:
    """What was stored is what a handler sees."""
    (message,) = decode_messages(encode_record(RECORD), QUEUE)
    assert (message.topic, message.queue, message.body) == ("t", QUEUE, b"hello")
    assert (message.queue_offset, message.position, message.flag) == (42, 1000, 7)
    assert (message.born_timestamp_ms, message.store_timestamp_ms) == (1, 2)
    assert (message.born_host, message.store_host) == (("10.0.0.1", 5000), ("10.0.0.2", 10911))
    assert (message.tags, message.keys, message.message_id) == ("a", ["k1", "k2"], "ID")
    assert message.offset_message_id == "0A00000200002A9F00000000000003E8"
    assert (message.reconsume_times, message.body_bytes) == (1, 5)
    assert message.properties["TAGS"] == message.tags == "a"
    assert message.queue_offset_min is message.queue_offset_max is None, "it was not pulled"


def test_ipv6_hosts_and_long_topics_arrive() -> None:
    """The other record layouts are read as well."""
    flags = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
    record = with_(
        sys_flag=flags, born_host=("fd00::1", 1), store_host=("fd00::2", 2), topic="x" * 200
    )
    one, two = decode_messages(encode_record(record) + encode_record(RECORD), QUEUE)
    assert (one.born_host, one.store_host, one.body) == (("fd00::1", 1), ("fd00::2", 2), b"hello")
    assert two.body == b"hello"


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_bodies_are_unpacked(codec: str) -> None:
    """The handler gets the body as it was sent, and `body_bytes` tells what it took."""
    body = b"abc" * 5000
    packed = compress(body, codec)
    record = with_(body=packed, sys_flag=SysFlag.COMPRESSED | CODECS[codec])
    (message,) = decode_messages(encode_record(record), QUEUE)
    assert message.body == body
    assert message.body_bytes == len(packed)


def test_a_redelivered_message_shows_its_first_topic() -> None:
    """From a retry topic it carries the topic it was sent to."""
    record = with_(properties=b"RETRY_TOPIC\x01orders\x02", topic="%RETRY%g")
    queue = MessageQueue("%RETRY%g", "broker-a", 0)
    (message,) = decode_messages(encode_record(record), queue)
    assert message.topic == "orders"


def test_damage_is_noticed_wherever_it_is() -> None:
    """Cut at any byte, or with any byte of size, magic, lengths or body changed: never garbage."""
    whole = encode_record(RECORD)
    for end in range(1, len(whole)):
        with pytest.raises(CorruptRecord):
            decode_messages(whole[:end], QUEUE)
    checked = [*range(12), *range(84, 88), *range(88, 93)]
    for at in checked:
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        with pytest.raises(CorruptRecord):
            decode_messages(bytes(damaged), QUEUE)


def inner_batch(offset: int, *bodies: bytes, cut: int = 0) -> bytes:
    """A record of a batch queue."""
    texts = [b"UNIQ_KEY\x01I%d\x02" % n for n in range(len(bodies))]
    body = encode_batch(BatchedMessage(3, *each) for each in zip(bodies, texts, strict=True))
    return encode_record(
        with_(
            body=body[: len(body) - cut], queue_offset=offset,
            sys_flag=SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH,
            properties=b"INNER_NUM\x013\x02UNIQ_KEY\x01B\x02",
        )
    )  # fmt: skip


def test_inner_batches_are_taken_apart() -> None:
    """Each message has its own body, flag, properties and offset; earlier ones are left out."""
    data = inner_batch(42, b"a", b"b", b"c") + encode_record(with_(queue_offset=45))
    found = decode_pulled(data, QUEUE, span=(43, 46)).messages
    assert [(each.queue_offset, each.body) for each in found] == [
        (43, b"b"), (44, b"c"), (45, b"hello"),
    ]  # fmt: skip
    first = found[0]
    assert (first.message_id, first.flag, first.sys_flag, first.position) == ("I1", 3, 0, 1000)
    assert (first.body_bytes, first.held_bytes) == (1, 1)


def test_an_inner_batch_at_the_end_of_all_offsets_is_put_in_order() -> None:
    """A bit of its offset has flipped: there is none for the messages behind its first."""
    data = inner_batch((1 << 63) - 1, b"a", b"b", b"c")
    found = decode_pulled(data, QUEUE, span=(43, 46)).messages
    assert [(each.queue_offset, each.body) for each in found] == [
        (43, b"a"),
        (44, b"b"),
        (45, b"c"),
    ]


def test_a_damaged_inner_batch_harms_no_other_message() -> None:
    """It is handed out as unreadable, at its record's offset."""
    data = inner_batch(42, b"a", b"b", b"c", cut=2) + encode_record(with_(queue_offset=45))
    found = decode_pulled(data, QUEUE, span=(42, 46))
    assert [each.queue_offset for each in found.messages] == [45]
    (bad,) = found.unreadable
    assert bad.queue_offset == 42 and bad.damage is not None and "batch" in bad.damage.reason


def test_messages_of_a_light_queue_have_its_offsets() -> None:
    """And not those of their own topic's queue, though each could be one of this reply."""
    light = MessageQueue("%LMQ%a", "broker-a", 0)
    data = b""
    for own, properties in (
        (5, "INNER_MULTI_DISPATCH\x01%LMQ%b,%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x019,3\x02"),
        (6, "INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x017\x02"),
        (7, "INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x01x\x02"),
    ):
        data += encode_record(with_(queue_offset=own, properties=properties.encode()))
    found = decode_pulled(data, light, span=(2, 10)).messages
    assert [each.queue_offset for each in found] == [3, 7, 8], "the last one says nothing"
