"""What users send and what they get back: messages, queues and the outcome of a send."""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

import msgspec

from aerobee.client.errors import InvalidMessage
from aerobee.remoting import bodies
from aerobee.remoting.message.properties import (
    NAME_SEPARATOR,
    PROPERTIES_BYTES_MAX,
    PROPERTY_SEPARATOR,
    Property,
)
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX

TOPIC_CHARACTERS_MAX: Final = 127  # Validators.TOPIC_MAX_LENGTH; retry and dead-letter topics: 255
GROUP_CHARACTERS_MAX: Final = 120
_NAME_CHARACTERS: Final = frozenset(
    "%|-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker (MessageQueue.java).

    Queues sort by topic, broker name and number; every member of a group sorts them alike, which
    is what lets each compute its share by itself.
    """

    topic: str
    broker_name: str
    queue_id: int

    @classmethod
    def of(cls, named: bodies.QueueBody | bodies.QueueOffset) -> Self:
        """Return the queue that a body names; `bodies.QueueBody(*queue)` is the way back."""
        return cls(named.topic, named.broker_name, named.queue_id)


class Message(msgspec.Struct):
    """A message to send (Message.java).

    `body` is at most 4 MiB by default; `tags` is one tag (RocketMQ filters by it); `keys` are
    business keys by which tools find the message; `delay_level` 1-18 asks the broker to deliver it
    later (1 s, 5 s, 10 s, 30 s, 1 m ... 2 h by default), 0 at once; `properties` are the user's
    own, and RocketMQ's as far as no other field says the same (TIMER_DELAY_SEC, __SHARDINGKEY ...):
    without empty names or values, and without the id that the client gives every message
    (UNIQ_KEY), nor what makes a half message (TRAN_MSG), which a TransactionProducer says.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | Iterable[str] = ()
    delay_level: int = 0
    properties: dict[str, str] = {}  # each message gets a dict of its own
    flag: int = 0

    def wire_properties(self, unique_key: str, own: Mapping[str, str] = {}) -> str:
        """Write all the properties as they travel; the message itself is left as it is.

        `own` are more of them, which the client says and users cannot. Raises InvalidMessage if a
        name or value is empty, holds one of the two separator characters
        or half a character, if a name would be there twice, or where they are too long together.
        """
        keys = self.keys
        if not isinstance(keys, str):
            keys = " ".join(keys)
        text = f"UNIQ_KEY\x01{unique_key}\x02"
        pairs = 1
        if keys:
            pairs += 1
            text += f"KEYS\x01{keys}\x02"
        if self.tags:
            pairs += 1
            text += f"TAGS\x01{self.tags}\x02"
        if self.properties or self.delay_level or own:
            more = dict(self.properties)
            self._check_names(more, keys, own)
            more.update(own)
            if self.delay_level:
                more[Property.DELAY] = str(self.delay_level)
            pairs += len(more)
            text = "".join([f"{name}\x01{value}\x02" for name, value in more.items()]) + text
        if text.count(NAME_SEPARATOR) != pairs or text.count(PROPERTY_SEPARATOR) != pairs:
            raise InvalidMessage(
                f"a property, key or tag contains a separator (\\x01 or \\x02): {text!r:.200}"
            )
        size = len(text) if text.isascii() else _utf8_size(text)
        if size > PROPERTIES_BYTES_MAX:
            raise InvalidMessage(
                f"the properties have {size} bytes, at most {PROPERTIES_BYTES_MAX}"
            )
        return text

    def _check_names(
        self, properties: Mapping[str, str], keys: str, own: Mapping[str, str]
    ) -> None:
        """Raise InvalidMessage for what readers would leave out, or could read in two ways.

        Java's client takes none of RocketMQ's names from users (Message.putUserProperty).
        """
        if "" in properties or not all(properties.values()):
            name = next((name for name, value in properties.items() if not value), "")
            raise InvalidMessage(f"property {name!r}: its name or value is empty")
        if Property.TRAN_MSG in properties:
            raise InvalidMessage(
                f"property {Property.TRAN_MSG!r} makes a half message, which a TransactionProducer"
                " sends; a message that is sent on takes ReceivedMessage.user_properties along"
            )
        said: dict[str, object] = {
            Property.UNIQ_KEY: True,
            Property.KEYS: keys,
            Property.TAGS: self.tags,
            Property.DELAY: self.delay_level,
            **own,
        }
        for name, elsewhere in said.items():
            if elsewhere and name in properties:
                raise InvalidMessage(
                    f"property {name!r} is said twice: the client says it, or another field of the "
                    "message"
                )


def _utf8_size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise InvalidMessage(
            f"a property, key or tag contains half a character: {half!r}"
        ) from None


class SendStatus(enum.Enum):
    """How well a stored message is kept (SendStatus.java).

    All but SEND_OK mean: stored by the broker, but a flush or a replica was late or missing.
    """

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message went (SendResult.java).

    `message_id` is the id that the client gave (a batch: all, joined by commas);
    `offset_message_id` the broker's, with its address and the position in its log; `queue_offset`
    the offset in `queue` (of a batch: of its first message). `recall_handle` is there for a message
    with a time of its own: `Producer.recall` takes it back by that. `trace_on` says whether the
    broker wants the message traced.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str | None = None
    recall_handle: str | None = None
    trace_on: bool = True


def check_name(what: str, name: str, characters_max: int) -> None:
    """Raise InvalidMessage unless `name` is a topic or group name that brokers accept."""
    if not name or not name.strip():
        raise InvalidMessage(f"the {what} is empty")
    if len(name) > characters_max and not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise InvalidMessage(
            f"the {what} {name[:40]!r}... has {len(name)} characters, at most {characters_max}"
        )
    if not _NAME_CHARACTERS.issuperset(name):
        bad = next(character for character in name if character not in _NAME_CHARACTERS)
        raise InvalidMessage(f"the {what} {name!r} has {bad!r}; allowed: letters, digits, %|-_")


def check_message(message: Message, body_bytes_max: int) -> None:
    """Raise InvalidMessage for what no broker takes: an empty body, one too large, a bad topic."""
    if not message.body:
        raise InvalidMessage(f"the message for {message.topic!r} has an empty body")
    if len(message.body) > body_bytes_max:
        raise InvalidMessage(
            f"the body has {len(message.body)} bytes, the limit is {body_bytes_max} "
            "(ProducerSettings.body_bytes_max, and maxMessageSize of the broker)"
        )


def joined_keys(properties: Mapping[str, str]) -> list[str]:
    """Split the KEYS property into the business keys of a message."""
    return properties.get(Property.KEYS, "").split()
