"""Messages as lines of JSON: how they are written, and how they are read to be sent."""

import base64
import binascii
from collections.abc import Iterator
from typing import IO, Any, Final

import msgspec

from aerobee.cli.operate.output import moment_of
from aerobee.cli.program import ctrl_c_ends
from aerobee.client.errors import InvalidMessage, InvalidUse
from aerobee.client.message import Message
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.message.properties import Property

LINE_BYTES_MAX: Final = 64 * 1024 * 1024


class MessageLine(msgspec.Struct):
    """What a line may say of a message that is to be sent; what else it says is passed over."""

    body: str | None = None
    body_base64: str | None = None
    json: Any = msgspec.UNSET
    tags: str | None = None
    keys: list[str] | str = []
    properties: dict[str, str] = {}
    delay_level: int = 0
    sharding_key: str | None = None
    damage: str | None = None

    def content(self) -> bytes:
        """Return the body; raises ValueError unless it is said once, and is what was sent."""
        if self.damage is not None:
            raise ValueError(f"its body is not what was sent ({self.damage})")
        given = [
            self.body is not None,
            self.body_base64 is not None,
            self.json is not msgspec.UNSET,
        ]
        if sum(given) != 1:
            raise ValueError("give one of body, body_base64 and json")
        if self.body is not None:
            return self.body.encode()
        if self.body_base64 is not None:
            return base64.b64decode(self.body_base64, validate=True)
        return msgspec.json.encode(self.json)


class ProducedLines:
    """Reads messages from a file, line by line; `sent` is counted by who sends them.

    Raises InvalidUse, with the number of the line, for one that is no message.
    """

    def __init__(
        self, source: IO[bytes], topic: str, *, raw: bool, tag: str | None, skip: int
    ) -> None:
        self._source = source
        self._topic = topic
        self._raw = raw
        self._tag = tag
        self._skip = skip
        self.sent = 0
        self.is_cut = True

    def __iter__(self) -> Iterator[tuple[Message, str | None]]:
        """Give each message and its sharding key."""
        left = self._skip
        for number, line in enumerate(iter(self._next, b""), 1):
            text = line.rstrip(b"\r\n")
            if not text:
                continue
            if left:
                left -= 1
                continue
            try:
                yield self._message(text)
            except (ValueError, TypeError, RecursionError, InvalidMessage) as error:
                raise InvalidUse(f"line {number}: {error}") from None
        self.is_cut = False

    def _next(self) -> bytes:
        with ctrl_c_ends():  # who types has not typed it yet
            line = self._source.readline(LINE_BYTES_MAX)
        if len(line) >= LINE_BYTES_MAX:
            raise InvalidUse(f"a line has more than {LINE_BYTES_MAX} bytes")
        return line

    def _message(self, text: bytes) -> tuple[Message, str | None]:
        if self._raw:
            return Message(self._topic, text, tags=self._tag), None
        line = msgspec.json.decode(text, type=MessageLine)
        try:
            body = line.content()
        except binascii.Error as error:
            raise ValueError(f"body_base64: {error}") from None
        made = Message(
            self._topic,
            body,
            tags=line.tags or self._tag,
            keys=line.keys,
            properties=line.properties,
            delay_level=line.delay_level,
        )
        if line.sharding_key is not None:
            made.properties = made.properties | {Property.SHARDING_KEY: line.sharding_key}
        return made, line.sharding_key


def message_row(message: ReceivedMessage) -> dict[str, Any]:
    """Return what `-o json` says of a message; a body that is no text is base64."""
    row: dict[str, Any] = {
        "topic": message.queue.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "stored": moment_of(message.store_timestamp_ms),
        "born": moment_of(message.born_timestamp_ms),
        "born_host": ":".join(map(str, message.born_host)),
        "message_id": message.message_id,
        "tags": message.tags,
        "keys": message.keys,
        "reconsume_times": message.reconsume_times,
        "properties": message.user_properties,
    }
    if (key := message.properties.get(Property.SHARDING_KEY)) is not None:
        row["sharding_key"] = key
    if message.damage is not None:
        row["damage"] = message.damage.reason
    try:
        return row | {"body": message.body.decode()}
    except UnicodeDecodeError:
        return row | {"body_base64": base64.b64encode(message.body).decode()}
