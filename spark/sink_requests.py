"""Messages with ids of our choice as requests, and what a broker's reply to one says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aerobee.client.errors import BrokerRefused, InvalidMessage
from aerobee.client.message import Message, MessageQueue
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.batch import BatchedMessage, encode_batch
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode, SysFlag
from aerobee.remoting.command import Command
from aerobee.remoting.compression import CODECS, compress
from aerobee.remoting.headers._fields import decode_header, encode_header
from aerobee.remoting.headers.send import SendMessageReply, SendMessageRequestV2
from aerobee.remoting.properties import Property

PRODUCER_GROUP: Final = "SPARK_SINK"  # a name in traces; brokers keep nothing of it
USUAL: Final = ProducerSettings()
_STORED: Final = {  # the last three: stored, though a flush or a replica was late or missing
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
}


def send_request(messages: Sequence[Message], ids: Sequence[str], queue: MessageQueue) -> Command:
    """The request that stores messages of one topic in a queue, several as a batch.

    A large body of a single message is compressed. Raises InvalidMessage for properties or a
    batch that are too long, and for names and values with separators.
    """
    flags = 0
    if len(messages) == 1:
        body, properties = messages[0].body, messages[0].wire_properties(ids[0])
        if len(body) > USUAL.compress_over_bytes:
            flags = SysFlag.COMPRESSED | CODECS[USUAL.compression]
            body = compress(body, USUAL.compression, USUAL.compression_level)
    else:
        parts = [
            BatchedMessage(message.flag, message.body, message.wire_properties(each).encode())
            for message, each in zip(messages, ids, strict=True)
        ]
        body, properties = encode_batch(parts), f"{Property.UNIQ_KEY}\x01{ids[0]}\x02"
        if len(body) > USUAL.body_bytes_max:
            raise InvalidMessage(
                f"{len(messages)} messages have {len(body)} bytes together, with their properties;"
                f" the limit is {USUAL.body_bytes_max}"
            )
    header = SendMessageRequestV2(
        producer_group=PRODUCER_GROUP,
        topic=queue.topic,
        default_topic=USUAL.create_topic_key,
        default_topic_queue_nums=USUAL.default_topic_queues,
        queue_id=queue.queue_id,
        sys_flag=flags,
        born_timestamp=wall_clock_ms(),
        flag=messages[0].flag,
        properties=properties,
        reconsume_times=0,
        unit_mode=False,
        batch=len(messages) > 1,
        broker_name=queue.broker_name,
    )
    single = len(messages) == 1
    code = RequestCode.SEND_MESSAGE_V2 if single else RequestCode.SEND_BATCH_MESSAGE
    return Command(code, encode_header(header), body)


def stored_at(reply: Command, address: str) -> int:
    """The offset of the first message that was stored.

    Raises BrokerRefused for a code that does not mean "stored", RequestError for nonsense.
    """
    if reply.code not in _STORED:
        raise BrokerRefused(reply.code, reply.remark, address)
    return decode_header(SendMessageReply, reply.ext).queue_offset
