"""A record of a batch queue that holds no message is a damaged one, as any that cannot be read."""

from aerobee.client.cluster.decoding import WRAPPED, decode_pulled
from aerobee.client.message import MessageQueue
from aerobee.remoting.message.record import Record, encode_record

EMPTY = encode_record(Record(topic="t", sys_flag=WRAPPED, queue_offset=3, body=b""))


def test_a_batch_without_a_message_is_told_as_damaged() -> None:
    """Also where what follows it is no record: there the pull goes on behind it."""
    for data in (EMPTY, EMPTY + b"\0" * 40):
        decoded = decode_pulled(data, MessageQueue("t", "broker-a", 0), None, span=(3, 9))
        assert not decoded.messages
        [damaged] = decoded.unreadable
        assert damaged.queue_offset == 3
        assert damaged.damage is not None
        assert "without a message" in damaged.damage.reason
        assert decoded.next_offset == (None if data == EMPTY else 4)
