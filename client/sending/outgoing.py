"""Messages as requests, and replies as results."""

from collections.abc import Sequence
from typing import Final

import msgspec

from aerobee.client.errors import BrokerRefused, InvalidMessage
from aerobee.client.message import Message, MessageQueue, SendResult, SendStatus
from aerobee.client.sending.due import waits_by
from aerobee.client.sending.handles import Handle
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode, SysFlag
from aerobee.remoting.command import Command
from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.headers.acks import Ack, AckFields
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.compression import CODECS, compress
from aerobee.remoting.message.message_id import UniqueIds
from aerobee.remoting.message.properties import Property
from aerobee.remoting.words import REPLY, RETRY_PREFIX

SINGLE: Final = RequestCode.SEND_MESSAGE_V2
BATCH: Final = RequestCode.SEND_BATCH_MESSAGE
REPLY_CODE: Final = RequestCode.SEND_REPLY_MESSAGE_V2

_STATUS_BY_CODE: Final = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class Outgoing(msgspec.Struct, gc=False):
    """A message or batch made ready once, for every attempt to send it.

    `message_id` is the client's own id, the ids of a batch joined by commas; `born_ms` is when
    this was, in milliseconds since 1970; `is_plain` says that it is one message without flags.
    """

    code: int
    topic: str
    body: bytes
    properties: str
    message_id: str
    born_ms: int
    flag: int = 0
    sys_flag: int = 0
    is_plain: bool = False


class Packer:
    """Turns messages of one producer into requests (DefaultMQProducerImpl.sendKernelImpl)."""

    def __init__(self, group: str, settings: ProducerSettings) -> None:
        self._group = group
        self._settings = settings
        self._ids = UniqueIds()

    def next_id(self) -> str:
        """Return the id of one more message."""
        return self._ids.next()

    def pack(
        self, message: Message, message_id: str | None = None, *, half: bool = False
    ) -> Outgoing:
        """Make one message ready: give it an id unless it has one, compress a large body.

        A `half` message is kept from consumers until its producer group says what becomes of it.
        Raises InvalidMessage if its properties cannot be written.
        """
        now_ms = wall_clock_ms()
        if message_id is None:
            message_id = self._ids.at(now_ms)
        body = message.body
        code = SINGLE
        if message.properties and message.properties.get(Property.MSG_TYPE) == REPLY:
            code = REPLY_CODE
        sys_flag = 0
        if len(body) > self._settings.compress_over_bytes:
            settings = self._settings
            sys_flag = SysFlag.COMPRESSED | CODECS[settings.compression]
            body = compress(body, settings.compression, settings.compression_level)
        if half:
            sys_flag |= SysFlag.TRANSACTION_PREPARED
            own = {Property.TRAN_MSG: "true", Property.PGROUP: self._group}
            properties = message.wire_properties(message_id, own)
        else:
            properties = message.wire_properties(message_id)
        return Outgoing(
            code,
            message.topic,
            body,
            properties,
            message_id,
            now_ms,
            message.flag,
            sys_flag,
            not (message.flag or sys_flag) and code == SINGLE,
        )

    def pack_batch(self, messages: Sequence[Message], message_ids: Sequence[str] = ()) -> Outgoing:
        """Make messages of one topic ready as one batch; their bodies are not compressed.

        Raises InvalidMessage for no messages, several topics, delays or retry topics
        (MessageBatch.generateFromList), and for more bytes than one message may have.
        """
        if not messages:
            raise InvalidMessage("a batch needs at least one message")
        topic = messages[0].topic
        if topic.startswith(RETRY_PREFIX):
            raise InvalidMessage(f"a batch cannot go to a retry topic: {topic!r}")
        ids = message_ids or [self._ids.next() for _ in messages]
        parts = []
        for message, message_id in zip(messages, ids, strict=True):
            if message.topic != topic:
                raise InvalidMessage(
                    f"a batch goes to one topic, not to {topic!r} and {message.topic!r}"
                )
            if (waits := waits_by(message)) is not None:
                raise InvalidMessage(f"a delay ({waits}) is not supported for batching")
            properties = message.wire_properties(message_id).encode()
            parts.append(BatchedMessage(message.flag, message.body, properties))
        body = encode_batch(parts)
        if len(body) > self._settings.body_bytes_max:
            raise InvalidMessage(
                f"the batch has {len(body)} bytes, the limit is {self._settings.body_bytes_max}: "
                "send it in smaller parts"
            )
        properties_of_all = f"{Property.UNIQ_KEY}\x01{self._ids.next()}\x02"
        return Outgoing(BATCH, topic, body, properties_of_all, ",".join(ids), wall_clock_ms())

    def pack_again(self, messages: Sequence[Message], outgoing: Outgoing) -> Outgoing:
        """Make messages ready anew, under the same ids: a hook may have changed them."""
        if outgoing.code != BATCH:
            half = bool(outgoing.sys_flag & SysFlag.TRANSACTION_PREPARED)
            return self.pack(messages[0], outgoing.message_id, half=half)
        return self.pack_batch(messages, outgoing.message_id.split(","))

    def fields(self, outgoing: Outgoing, queue: MessageQueue) -> dict[str, str]:
        """Return a request's header fields, for one that has more of them than `SendHeaders` knows.

        Source: SendMessageRequestHeaderV2.java.
        """
        return {
            "a": self._group,
            "b": outgoing.topic,
            "c": self._settings.create_topic_key,
            "d": str(self._settings.default_topic_queues),
            "e": str(queue.queue_id),
            "f": str(outgoing.sys_flag),
            "g": str(outgoing.born_ms),
            "h": str(outgoing.flag),
            "i": outgoing.properties,
            "j": "0",
            "k": "false",
            "m": "true" if outgoing.code == BATCH else "false",
            "n": queue.broker_name,
        }


def outgoing_of(handle: Handle) -> Outgoing:
    """Return the request of a message that is in a lane, as a `Packer` would have made it.

    One whose turn has not come has an empty id.
    """
    body, tags, keys, more, message_id = handle._parts()
    if isinstance(more, Outgoing):
        return more
    queue = handle.queue
    assert queue is not None
    assert body is not None
    properties = (
        msgspec.json.decode(b'"%b"' % more, type=str) if type(more) is bytes else more or ""
    )
    properties += f"UNIQ_KEY\x01{message_id}\x02"
    if keys:
        properties += f"KEYS\x01{keys}\x02"
    if tags:
        properties += f"TAGS\x01{tags}\x02"
    now_ms = wall_clock_ms()
    return Outgoing(SINGLE, queue.topic, body, properties, message_id, now_ms, is_plain=True)


def read_reply(
    reply: Command | Ack, outgoing: Outgoing, queue: MessageQueue, address: str
) -> SendResult:
    """Read where the message went (MQClientAPIImpl.processSendResponse).

    Raises BrokerRefused for a code that does not mean "stored".
    """
    if type(reply) is Ack:
        status, fields = SendStatus.SEND_OK, reply.extFields
    else:
        assert isinstance(reply, Command)
        status, fields = _read_status(reply, address), _read_fields(reply, address)
    if fields.queueId != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, fields.queueId)
    return SendResult(
        status,
        fields.batchUniqId or outgoing.message_id,
        fields.msgId,
        queue,
        fields.queueOffset,
        fields.transactionId,
        fields.MSG_REGION,
        fields.recallHandle,
        fields.TRACE_ON != "false",
    )


def _read_status(reply: Command, address: str) -> SendStatus:
    status = _STATUS_BY_CODE.get(reply.code)
    if status is None:
        raise BrokerRefused(reply.code, reply.remark, address)
    return status


def _read_fields(reply: Command, address: str) -> AckFields:
    try:
        return msgspec.convert(reply.ext, AckFields, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"{address}: reply to a send is damaged: {error}") from None
