"""Messages as a consumer gets them; properties are parsed when somebody asks for one."""

from typing import Any, Final, TypeVar, overload

from aerobee.client.codecs import JSON, BodyCodec, decoded
from aerobee.client.compiled.choice import MessageDamage, MessageFields, light
from aerobee.client.message import joined_keys
from aerobee.remoting.message.message_id import offset_message_id
from aerobee.remoting.message.properties import (
    PROPERTY_NAMES,
    Property,
    parse_properties,
)
from aerobee.remoting.message.record import host_address
from aerobee.remoting.words import RETRY_PREFIX

__all__ = ["BODY_BYTES_MAX", "UNPACKED_BYTES_MAX", "MessageDamage", "ReceivedMessage"]

BODY_BYTES_MAX: Final = 64 * 1024 * 1024  # a compressed body may not grow beyond it
UNPACKED_BYTES_MAX: Final = 32 * 1024 * 1024  # of one pull, and one more body
BODY_BYTES_SHOWN: Final = 64  # by `repr`

T = TypeVar("T")


@light
class ReceivedMessage(MessageFields):
    """A message that was fetched from a queue (MessageExt.java).

        print(message.topic, message.tags, message.keys, message.body)
        print(message.properties.get("by"), message.reconsume_times)
        sent_on = Message("billing", message.body, properties=message.user_properties)

    `queue_offset` counts messages of `queue`; `position` is the record's place in the broker's log,
    in bytes; timestamps are milliseconds since 1970; `reconsume_times` says how often handling it
    failed before. `body` is already decompressed; `body_bytes` is its size as it was stored,
    `held_bytes` the one that it came with. Where `damage` is set, `body` is as it was stored: no
    consumer hands out such a message but in `PullResult.unreadable`.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        """Show what a person looks for; of a long body the beginning, and how long it is."""
        body = repr(bytes(self.body[:BODY_BYTES_SHOWN]))
        if len(self.body) > BODY_BYTES_SHOWN:
            body += f"... ({len(self.body)} bytes)"
        again = f", reconsume_times={self.reconsume_times}" if self.reconsume_times else ""
        damage = f", damage={self.damage.reason!r}" if self.damage is not None else ""
        known = len(self.raw_store_host) > 4 or Property.UNIQ_KEY in self.properties
        queue = f"{self.queue.broker_name}:{self.queue.queue_id}"
        return (
            f"ReceivedMessage(topic={self.topic!r}, tags={self.tags!r}, keys={self.keys!r},"
            f" message_id={self.message_id if known else None!r}, queue={queue!r},"
            f" queue_offset={self.queue_offset}{again}{damage}, body={body})"
        )

    @overload
    def decode(self, kind: type[T], codec: BodyCodec = JSON) -> T: ...
    @overload
    def decode(self, kind: Any = Any, codec: BodyCodec = JSON) -> Any: ...
    def decode(self, kind: Any = Any, codec: BodyCodec = JSON) -> Any:
        """Return the value of the body: JSON, unless another codec is given.

            order = message.decode(Order)  # a msgspec.Struct, dataclass or pydantic model
            anything = message.decode()    # dicts, lists, texts, numbers

        Raises BadBody, a ClientError and a ValueError, for what is no `kind`; a handler that lets
        it pass gets the message again, at last as a dead letter.
        """
        topic, broker, queue_id = self.queue
        place = f"{self.queue_offset} of {topic}, queue {queue_id} of {broker}"
        return decoded(codec, self.body, kind, place)

    def json(self) -> Any:
        """Return the JSON of the body as dicts, lists, texts and numbers; raises BadBody."""
        return self.decode()

    @property
    def properties(self) -> dict[str, str]:
        """All properties, the user's and RocketMQ's own; parsed when first asked for."""
        if self.parsed is None:
            self.parsed = parse_properties(self.raw_properties)
        return self.parsed

    @property
    def user_properties(self) -> dict[str, str]:
        """The properties without RocketMQ's own: what to take along when a message is sent on.

            Message("billing", message.body, properties=message.user_properties)

        A copy of all of them would make a half of what was committed (TRAN_MSG), or wait again.
        """
        return {
            name: value for name, value in self.properties.items() if name not in PROPERTY_NAMES
        }

    @property
    def topic(self) -> str:
        """The topic it was sent to; of a redelivered message the original one."""
        topic = self.queue.topic
        if topic.startswith(RETRY_PREFIX):
            return self.properties.get(Property.RETRY_TOPIC, topic)
        return topic

    @property
    def tags(self) -> str | None:
        """The tag that consumers filter by, or None."""
        if self.parsed is not None:
            return self.parsed.get(Property.TAGS)
        return self.find(Property.TAGS)

    @property
    def keys(self) -> list[str]:
        """The business keys."""
        return joined_keys(self.properties)

    @property
    def message_id(self) -> str:
        """The id that the sending client gave, or the broker's where it gave none."""
        return self.properties.get(Property.UNIQ_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """The id that the broker gave: its address and the position in its log, in hex."""
        host, port = self.store_host
        return offset_message_id(host, port, self.position)

    @property
    def queue_offset_min(self) -> int | None:
        """The offset of the queue's oldest message when this one was pulled.

        None of a message that was not pulled. Java's client has it, and the next, among the
        properties (MIN_OFFSET, MAX_OFFSET; PullAPIWrapper.processPullResult).
        """
        return self.bounds[0] if self.bounds is not None else None

    @property
    def queue_offset_max(self) -> int | None:
        """The offset that the queue's next message was to get when this one was pulled."""
        return self.bounds[1] if self.bounds is not None else None

    @property
    def born_host(self) -> tuple[str, int]:
        """The address and port that the message was sent from."""
        return host_address(self.raw_born_host)

    @property
    def store_host(self) -> tuple[str, int]:
        """The address and port of the broker that stored it."""
        return host_address(self.raw_store_host)
