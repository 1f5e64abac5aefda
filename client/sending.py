"""Messages as requests, and replies as results."""

from collections.abc import Sequence
from typing import Final

from aerobee.client.errors import BrokerRefused, InvalidMessage
from aerobee.client.message import Message, MessageQueue, SendResult, SendStatus
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.batch import BatchedMessage, encode_batch
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode, SysFlag
from aerobee.remoting.command import Command
from aerobee.remoting.compression import CODECS, compress
from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.message_id import UniqueIds
from aerobee.remoting.properties import Property

SINGLE: Final = RequestCode.SEND_MESSAGE_V2
BATCH: Final = RequestCode.SEND_BATCH_MESSAGE

_STATUS_BY_CODE: Final = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class Outgoing:
    """A message or batch made ready once, for every attempt to send it.

    `message_id` is the client's own id, the ids of a batch joined by commas.
    """

    __slots__ = ("body", "code", "flag", "message_id", "properties", "sys_flag", "topic")

    def __init__(
        self,
        code: int,
        topic: str,
        body: bytes,
        properties: str,
        message_id: str,
        *,
        flag: int = 0,
        sys_flag: int = 0,
    ) -> None:
        self.code = code
        self.topic = topic
        self.body = body
        self.properties = properties
        self.message_id = message_id
        self.flag = flag
        self.sys_flag = sys_flag


class Packer:
    """Turns messages of one producer into requests (DefaultMQProducerImpl.sendKernelImpl)."""

    def __init__(self, group: str, settings: ProducerSettings) -> None:
        self._settings = settings
        self._group = group
        self._ids = UniqueIds()
        self._fields: dict[str, dict[str, str]] = {}  # by topic: what is the same in every request

    def pack(self, message: Message, message_id: str | None = None) -> Outgoing:
        """Make one message ready: give it an id unless it has one, compress a large body.

        Raises InvalidMessage if its properties cannot be written.
        """
        message_id = message_id or self._ids.next()
        body = message.body
        sys_flag = 0
        settings = self._settings
        if len(body) > settings.compress_over_bytes:
            sys_flag = SysFlag.COMPRESSED | CODECS[settings.compression]
            body = compress(body, settings.compression, settings.compression_level)
        return Outgoing(
            SINGLE,
            message.topic,
            body,
            message.wire_properties(message_id),
            message_id,
            flag=message.flag,
            sys_flag=sys_flag,
        )

    def pack_batch(self, messages: Sequence[Message], message_ids: Sequence[str] = ()) -> Outgoing:
        """Make messages of one topic ready as one batch; their bodies are not compressed.

        Raises InvalidMessage for no messages, several topics, delays or retry topics
        (MessageBatch.generateFromList), and for more bytes than one message may have.
        """
        if not messages:
            raise InvalidMessage("a batch needs at least one message")
        topic = messages[0].topic
        if topic.startswith("%RETRY%"):
            raise InvalidMessage(f"a batch cannot go to a retry topic: {topic!r}")
        ids = message_ids or [self._ids.next() for _ in messages]
        parts = []
        for message, message_id in zip(messages, ids, strict=True):
            if message.topic != topic:
                raise InvalidMessage(
                    f"a batch goes to one topic, not to {topic!r} and {message.topic!r}"
                )
            if message.delay_level:
                raise InvalidMessage("a delay (delay_level) is not supported for batching")
            properties = message.wire_properties(message_id).encode()
            parts.append(BatchedMessage(message.flag, message.body, properties))
        body = encode_batch(parts)
        if len(body) > self._settings.body_bytes_max:
            raise InvalidMessage(
                f"the batch has {len(body)} bytes, the limit is {self._settings.body_bytes_max}: "
                "send it in smaller parts"
            )
        properties_of_all = f"{Property.UNIQ_KEY}\x01{self._ids.next()}\x02"
        return Outgoing(BATCH, topic, body, properties_of_all, ",".join(ids))

    def pack_again(self, messages: Sequence[Message], outgoing: Outgoing) -> Outgoing:
        """Make messages ready anew, under the same ids: a hook may have changed them."""
        if outgoing.code == SINGLE:
            return self.pack(messages[0], outgoing.message_id)
        return self.pack_batch(messages, outgoing.message_id.split(","))

    def fields(self, outgoing: Outgoing, queue: MessageQueue) -> dict[str, str]:
        """Return the request's header fields (SendMessageRequestHeaderV2.java)."""
        same = self._fields.get(outgoing.topic)
        if same is None:
            same = self._fields[outgoing.topic] = {
                "a": self._group,
                "b": outgoing.topic,
                "c": self._settings.create_topic_key,
                "d": str(self._settings.default_topic_queues),
                "j": "0",
                "k": "false",
            }
        fields = same.copy()
        fields["e"] = str(queue.queue_id)
        fields["f"] = str(outgoing.sys_flag)
        fields["g"] = str(wall_clock_ms())
        fields["h"] = str(outgoing.flag)
        fields["i"] = outgoing.properties
        fields["m"] = "true" if outgoing.code == BATCH else "false"
        fields["n"] = queue.broker_name
        return fields


def read_reply(reply: Command, outgoing: Outgoing, queue: MessageQueue, address: str) -> SendResult:
    """Read where the message went (MQClientAPIImpl.processSendResponse).

    Raises BrokerRefused for a code that does not mean "stored".
    """
    status = _STATUS_BY_CODE.get(reply.code)
    if status is None:
        raise BrokerRefused(reply.code, reply.remark, address)
    ext = reply.ext
    try:
        queue_id = int(ext["queueId"])
        queue_offset = int(ext["queueOffset"])
        offset_message_id = ext["msgId"]
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"{address}: reply to a send without {error}") from None
    if queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, queue_id)
    return SendResult(
        status,
        ext.get("batchUniqId") or outgoing.message_id,
        offset_message_id,
        queue,
        queue_offset,
        ext.get("transactionId"),
        ext.get(Property.MSG_REGION),
        ext.get("recallHandle"),
    )
