"""What users send and what they get back: messages, queues and the outcome of a send."""

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

import msgspec

from aerobee.client.codecs import JSON
from aerobee.client.errors import (
    OFFSET_MAX,
    InvalidMessage,
    several,
    what_is_wrong,
    whole_number,
    wrong_argument,
)
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

SOUND_TAGS_MAX: Final = 1_000
_sound_tags: Final[set[str]] = set()  # that were looked at


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


class Message(msgspec.Struct, repr_omit_defaults=True):
    """A message to send: a topic and a body, and what finds or delays it (Message.java).

        Message("orders", b"one", tags="new", keys="order-1", properties={"by": "me"})
        Message("orders", json={"order": 1})  # or a dataclass, msgspec.Struct or pydantic model

    - `topic`: 1 to 127 letters, digits and %|-_ (no dots).
    - `body`: bytes, at most 4 MiB by default, at least one; or `json`, which is written at once.
    - `tags`: one tag without blanks, by which consumers filter (`subscribe(tags="new || paid")`).
    - `keys`: one or several business keys without blanks, by which `find` and tools find it.
    - `delay_level`: 1 to 18, the broker delivers it after 1 s, 5 s, 10 s, 30 s, 1 m ... 2 h; 0: at
      once. For other times see `Producer.send`: `delay`, `deliver_at`.
    - `properties`: texts by name, at most 32 KiB together: the user's own, and RocketMQ's as far as
      no field says the same (__SHARDINGKEY ...); without empty names or values, and without the id
      that the client gives every message (UNIQ_KEY), nor what makes a half message (TRAN_MSG).
    - `flag`: an int32 that only the user reads.

    Raises InvalidMessage for a body that is no bytes; a send does for all else.
    """

    topic: str
    body: bytes = b""
    tags: str | None = None
    keys: str | Iterable[str] = ()
    delay_level: int = 0
    properties: dict[str, str] = {}  # each message gets a dict of its own
    flag: int = 0
    json: Any = msgspec.UNSET  # once it is written, too

    def __post_init__(self) -> None:
        """Write the body."""
        if type(self.body) is not bytes or self.json is not msgspec.UNSET:
            self._write_body()

    def _write_body(self) -> None:
        if self.json is not msgspec.UNSET:
            if self.body != b"":
                raise InvalidMessage("give one of body and json")
            self.body, self.json = JSON.encode(self.json), msgspec.UNSET
        else:
            self.body = _as_bytes(self.body)

    def wire_properties(self, unique_key: str, own: Mapping[str, str] = {}) -> str:
        """Write all the properties as they travel; the message itself is left as it is.

        `own` are more of them, which the client says and users cannot. Raises InvalidMessage if a
        name or value is empty, holds one of the two separator characters
        or half a character, if a name would be there twice, or where they are too long together.
        """
        keys = self.keys
        if not isinstance(keys, str):
            try:
                keys = " ".join(keys)
            except TypeError:
                raise InvalidMessage(what_is_wrong("keys", "a text or texts", keys)) from None
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
        try:
            "".join(properties), "".join(properties.values())
        except TypeError:
            for each in properties.items():
                for what, value in zip(("name", "value"), each, strict=True):
                    if not isinstance(value, str):
                        hint = f"of {each[0]!r}; write str(...)"
                        what = what_is_wrong(f"a property's {what}", "a text", value, hint)
                        raise InvalidMessage(what) from None
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

        result = await producer.send(message)
        if result.status is not SendStatus.SEND_OK:
            print("stored, but not yet on the disk or the replica:", result)

    - `status`: SEND_OK, or what is missing though the message is stored (see SendStatus).
    - `message_id`: the id that the client gave (a batch: all, joined by commas); `find` takes it.
    - `offset_message_id`: the broker's, with its address and the position in its log, in hex.
    - `queue`, `queue_offset`: its place (of a batch: of its first message).
    - `transaction_id`: of a half message. `region_id`: the broker's, if it has one.
    - `recall_handle`: of a message with a time of its own; `Producer.recall` takes it back by that.
    - `trace_on`: whether the broker wants the message traced.
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

    def __repr__(self) -> str:
        """Say what matters, and of the rest what is there."""
        rest = "".join(
            f", {name}={value!r}"
            for name in ("transaction_id", "region_id", "recall_handle")
            if (value := getattr(self, name)) is not None
        )
        return (
            f"SendResult({self.status.name}, topic={self.queue.topic!r},"
            f" broker={self.queue.broker_name!r}, queue_id={self.queue.queue_id},"
            f" queue_offset={self.queue_offset}, message_id={self.message_id!r:.200}{rest})"
        )


def check_name(what: str, name: str, characters_max: int) -> None:
    """Raise InvalidMessage unless `name` is a topic or group name that brokers accept."""
    if not isinstance(name, str):
        raise InvalidMessage(what_is_wrong(f"the {what}", "a text", name))
    if not name or not name.strip():
        raise InvalidMessage(f"the {what} is empty")
    if len(name) > characters_max and not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise InvalidMessage(
            f"the {what} {name[:40]!r}... has {len(name)} characters, at most {characters_max}"
        )
    if not _NAME_CHARACTERS.issuperset(name):
        bad = next(character for character in name if character not in _NAME_CHARACTERS)
        hint = f"; for an address write namesrv={name!r}" if what == "group" and ":" in name else ""
        allowed = "allowed: letters, digits, %|-_"
        raise InvalidMessage(f"the {what} {name!r} has {bad!r}; {allowed}{hint}")


def check_topic(topic: str) -> str:
    """Return the name of a topic; raises InvalidMessage for what brokers do not take as one."""
    check_name("topic", topic, TOPIC_CHARACTERS_MAX)
    return topic


def check_queue(queue: object, name: str = "queue") -> MessageQueue:
    """Return an argument that has to be a queue; raises InvalidUse for what only looks like one."""
    if not isinstance(queue, MessageQueue):
        raise wrong_argument(name, "a MessageQueue, of fetch_queues", queue)
    return queue


def check_queues(queues: object) -> list[MessageQueue]:
    """Return an argument that has to be several queues; raises InvalidUse."""
    wanted = "a sequence of MessageQueue, of fetch_queues"
    if isinstance(queues, MessageQueue):  # a tuple
        raise wrong_argument("queues", wanted, queues, "write [queue] for one")
    return [check_queue(queue, "each of queues") for queue in several("queues", wanted, queues)]


def check_offsets(offsets: object) -> dict[MessageQueue, int]:
    """Return an argument that has to be offsets by their queues; raises InvalidUse."""
    if not isinstance(offsets, Mapping):
        raise wrong_argument("offsets", "a dict of offsets by MessageQueue", offsets)
    return {
        check_queue(queue, "each key of offsets"): whole_number(
            f"the offset of {queue}", offset, 0, OFFSET_MAX
        )
        for queue, offset in offsets.items()
    }


def check_message(message: Message, body_bytes_max: int, delay_level_max: int = 18) -> None:
    """Raise InvalidMessage for what no broker takes: an empty body, one too large, a bad topic.

    Fields can be set, so that their kinds are looked at as well (`type`, which costs least), those
    of properties when they are written.
    """
    if type(message) is not Message and not isinstance(message, Message):
        hint = "write Message(topic, body)"
        raise InvalidMessage(what_is_wrong("message", "a Message", message, hint))
    body, tags = message.body, message.tags
    if type(body) is not bytes:
        body = message.body = _as_bytes(body)
    if not body:
        raise InvalidMessage(f"the message for {message.topic!r} has an empty body")
    if len(body) > body_bytes_max:
        raise InvalidMessage(
            f"the body has {len(body)} bytes, the limit is {body_bytes_max} "
            "(ProducerSettings.body_bytes_max, and maxMessageSize of the broker)"
        )
    if type(message.topic) is not str:
        raise InvalidMessage(what_is_wrong("the topic", "a text", message.topic))
    if tags is not None and (type(tags) is not str or tags not in _sound_tags):
        _check_tags(tags)
    if message.delay_level or message.flag or type(message.properties) is not dict:
        _check_rest(message, delay_level_max)


def _as_bytes(body: object) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    hint = "write json=... for its JSON"
    if isinstance(body, str):
        hint = "write body.encode()"
    elif body is None:
        hint = "consumers see no empty bodies; b'-' would do"
    raise InvalidMessage(what_is_wrong("body", "bytes", body, hint))


def _check_tags(tags: str) -> None:
    """Raise InvalidMessage for a tag that no subscription could name; remember a sound one."""
    if not isinstance(tags, str):
        raise InvalidMessage(what_is_wrong("tags", "a text", tags, "a message has one tag"))
    if tags and (tags.split() != [tags] or "||" in tags):
        raise InvalidMessage(f"tags={tags[:80]!r}: a message has one tag, without blanks and ||")
    if len(_sound_tags) >= SOUND_TAGS_MAX:
        _sound_tags.clear()
    _sound_tags.add(tags)


def _check_rest(message: Message, delay_level_max: int) -> None:
    if not isinstance(message.properties, dict):
        raise InvalidMessage(what_is_wrong("properties", "a dict of texts", message.properties))
    level, flag = message.delay_level, message.flag
    if type(level) is not int or not 0 <= level <= delay_level_max:
        raise InvalidMessage(
            f"delay_level={level!r}: allowed are 0 to {delay_level_max} (of a broker's"
            " messageDelayLevel; see ProducerSettings.delay_level_max); for another time write"
            " send(message, delay=timedelta(minutes=7))"
        )
    if type(flag) is not int or not -(2**31) <= flag < 2**31:
        raise InvalidMessage(f"flag={flag!r}: it must be an int of 32 bits")


def joined_keys(properties: Mapping[str, str]) -> list[str]:
    """Split the KEYS property into the business keys of a message."""
    return properties.get(Property.KEYS, "").split()
