"""The fast path of sends: plain messages for queues whose checks have passed before.

Whatever is unusual (another header codec, an unknown topic, a retry, a delay, a transaction, a
hook, a wrong number) is declined here and takes the checked path, `broker.processors.send`.
"""

from typing import Final

import msgspec

from aerobee.broker.compiled.choice import serve_run
from aerobee.broker.rules.delay_property import TIMER_PROPERTIES
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.writing.appender import Message
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import QueueExcerpt, TopicQueue, TopicQueues
from aerobee.broker.writing.stamps import broker_properties
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.command import FLAG_RESPONSE, VERSION, Codec, Language
from aerobee.remoting.headers.envelopes import SendFields
from aerobee.remoting.message.layout import BATCH_FIELDS, PROPERTIES_LENGTH_BYTES
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX, Property, format_properties
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY

# all but compressed, multi-tags and codec: transactions, hosts, inner batches
UNUSUAL_SYS_FLAGS: Final = ~(0x1 | 0x2 | 0x700)
UNUSUAL_PROPERTIES: Final = frozenset(
    {
        *TIMER_PROPERTIES, Property.DELAY, Property.TIMER_DEL_UNIQKEY, Property.TRAN_MSG,
        Property.INNER_NUM, Property.POP_CK, Property.INNER_MULTI_DISPATCH,
        Property.INNER_MULTI_QUEUE_OFFSET, DELIVERED_PROPERTY,
        Property.MSG_REGION, Property.TRACE_ON, Property.CLUSTER,  # the broker's own
    }
)  # fmt: skip
"""What the checked path refuses, or does not store as it is."""
BATCHED: Final = BATCH_FIELDS.run()
BATCHED_BYTES_MIN: Final = BATCHED.size + PROPERTIES_LENGTH_BYTES

unpack_entry = BATCHED.unpack_from
encode_msgpack = msgspec.msgpack.Encoder().encode


class Prefixes(dict[int, bytes]):
    """Header size to the eight bytes before a header that has no body behind it, JSON codec."""

    def __missing__(self, size: int) -> bytes:
        words = self[size] = (size + 4).to_bytes(4, "big") + size.to_bytes(4, "big")
        return words


class FastSends:
    """Appends plain messages for the queues on a short list; used by many connections.

    Each method appends what one request carries and adds the acknowledgement to `acks`, or returns
    False and has done nothing. They raise the errors of CommitLog.append when there is no room.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        writing: Writing,
        store_host: bytes,
        queues: TopicQueues | QueueExcerpt,
    ) -> None:
        self._log = writing.store.commit_log
        self._fast = queues.fast
        self._halves = writing.halves
        self._tick = writing.tick
        self._body_bytes_max = settings.max_message_size
        self._appender = writing.appender
        self._tag_hashes = writing.appender.tag_hashes
        self._tags_code = writing.appender.tag_hashes.of
        self._prefixes = Prefixes()
        self._host_hex = store_host.hex().upper().encode()
        self._batch_id = self._host_hex + b"%016X,"
        self._reply_fields = {
            "MSG_REGION": settings.region_id,
            "TRACE_ON": "true" if settings.trace_on else "false",
        }
        self._suffix = format_properties(
            broker_properties(settings.region_id, settings.trace_on, settings.broker_cluster_name)
        ).encode()
        self.serve_run = None  # many at once, where that is compiled
        if settings.compiled_fast_path:
            self.serve_run = serve_run(writing, queues, self._suffix, settings.max_message_size)

    def send(
        self,
        fields: SendFields,
        opaque: int,
        body: bytes,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
        codec: int = Codec.JSON,
    ) -> bool:
        """Append one message."""
        queues = self._fast.get(fields.topic)
        queue_id = fields.queue_id
        if queues is None or not 0 <= queue_id < len(queues) or not (queue := queues[queue_id]):
            return False
        sys_flag = fields.sys_flag
        if sys_flag & UNUSUAL_SYS_FLAGS or fields.reconsume_times or fields.batch or not body:
            return self._send_half(queue, fields, opaque, body, stamp, stamp_flag, acks, codec)
        properties = fields.properties
        if properties[-1:] != "\x02":
            properties += "\x02"
        pairs = [pair.partition("\x01") for pair in properties[:-1].split("\x02")]
        named = {name: value for name, _, value in pairs}
        if (
            len(named) != len(pairs)  # a name twice
            or "" in named
            or "" in named.values()
            or not UNUSUAL_PROPERTIES.isdisjoint(named)
        ):
            return False
        unique_key = named.get("UNIQ_KEY", "").encode()
        if not unique_key.isalnum():
            return False  # it goes into the JSON of the reply as it is
        tags_code = self._tag_hashes[named.get("TAGS", "")]
        stored_properties = properties.encode() + self._suffix
        if len(stored_properties) > PROPERTIES_BYTES_MAX or len(body) > self._body_bytes_max:
            return False
        stored = queue.stored
        offset = stored.max_offset
        position = self._log.append(
            stored,
            fields.flag,
            sys_flag | stamp_flag,
            fields.born_timestamp,
            stamp,
            body,
            stored_properties,
            tags_code,
        )
        queue.arrived_bytes += self._log.position - position
        if codec == Codec.JSON:
            payload = queue.ack % (position, offset, unique_key, opaque)
            acks += (self._prefixes[len(payload)], payload)
        else:
            message_id = b"%b%016X" % (self._host_hex, position)
            acks += self._msgpack_ack(queue, message_id, offset, opaque, unique_key)
        if queue.holds:
            self._tick.woken.append(queue)
        return True

    def _send_half(
        self,
        queue: TopicQueue,
        fields: SendFields,
        opaque: int,
        body: bytes,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
        codec: int,
    ) -> bool:
        """Append what begins a transaction, where there are any, and it is plain otherwise."""
        if (
            self._halves is None
            or fields.sys_flag & UNUSUAL_SYS_FLAGS != SysFlag.TRANSACTION_PREPARED
            or fields.reconsume_times
            or fields.batch
            or not 0 < len(body) <= self._body_bytes_max
        ):
            return False
        appended = self._halves.append(queue, fields, body, stamp, stamp_flag)
        if appended is None:
            return False
        position, offset, unique_key = appended
        if codec == Codec.JSON:
            payload = queue.ack % (position, offset, unique_key, opaque)
            acks += (self._prefixes[len(payload)], payload)
        else:
            message_id = b"%b%016X" % (self._host_hex, position)
            acks += self._msgpack_ack(queue, message_id, offset, opaque, unique_key)
        return True

    def send_batch(
        self,
        fields: SendFields,
        opaque: int,
        body: bytes,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
        codec: int = Codec.JSON,
    ) -> bool:
        """Append the messages of one batch with offsets that follow each other."""
        queues = self._fast.get(fields.topic)
        queue_id = fields.queue_id
        if queues is None or not 0 <= queue_id < len(queues):
            return False
        if (
            fields.sys_flag & UNUSUAL_SYS_FLAGS
            or fields.reconsume_times
            or not fields.batch
            or "INNER_NUM" in fields.properties
        ):
            return False
        if len(body) > self._body_bytes_max:
            return False
        queue = queues[queue_id]
        if queue is None or not (messages := self._split(body)):
            return False
        offset = queue.stored.max_offset
        positions = self._appender.append(
            queue, fields.sys_flag | stamp_flag, fields.born_timestamp, stamp, messages
        )
        message_ids = (self._batch_id * len(positions))[:-1] % tuple(positions)
        if codec == Codec.JSON:
            payload = queue.batch_ack % (message_ids, offset, opaque)
            acks += (self._prefixes[len(payload)], payload)
        else:
            acks += self._msgpack_ack(queue, message_ids, offset, opaque)
        return True

    def _split(self, body: bytes) -> list[Message]:
        """Return the messages of a batch body, [] where it is malformed or one is unusual.

        The strict decoder with its error messages is `remoting.batch.split_batch`.
        """
        messages: list[Message] = []
        at, end = 0, len(body)
        while at + BATCHED_BYTES_MIN <= end:
            size, _, _, flag, body_bytes = unpack_entry(body, at)
            body_end = at + BATCHED.size + body_bytes
            if body_bytes <= 0 or body_end + 2 > end:
                return []
            properties_end = body_end + 2 + (body[body_end] << 8 | body[body_end + 1])
            if properties_end - at != size or properties_end > end:
                return []
            properties = body[body_end + 2 : properties_end]
            if properties and properties[-1] != 2:
                properties += b"\x02"
            text = str(properties, "utf-8", "replace")
            if (
                "DEL" in text
                or "TRAN_" in text
                or "MULTI_" in text
                or len(properties) > PROPERTIES_BYTES_MAX
            ):
                return []
            messages.append(
                (flag, body[at + BATCHED.size : body_end], properties, self._tags_code(text))
            )
            at = properties_end
        return messages if at == end else []

    def _msgpack_ack(
        self,
        queue: TopicQueue,
        message_ids: bytes,
        offset: int,
        opaque: int,
        unique_key: bytes | None = None,
    ) -> tuple[bytes, bytes]:
        """Return length prefix and header of an acknowledgement for a peer that speaks msgpack."""
        fields = {
            **self._reply_fields,
            "msgId": message_ids.decode(),
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
        }
        if unique_key is not None:
            fields["transactionId"] = unique_key.decode()
        payload = encode_msgpack((0, fields, opaque, FLAG_RESPONSE, None, Language.JAVA, VERSION))
        size = len(payload)
        word = Codec.MSGPACK << 24 | size
        return (size + 4).to_bytes(4, "big") + word.to_bytes(4, "big"), payload
