"""Rows of a DataFrame as messages: which columns a write understands, and what they become."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from aerobee.client.errors import InvalidMessage
from aerobee.client.message import TOPIC_CHARACTERS_MAX, Message, check_message, check_name
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.message.properties import Property
from aerobee.spark.errors import OptionError
from aerobee.spark.options.values import near

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ROW_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "keys": ("string", "array<string>"),
    "tags": ("string",),
    "properties": ("map<string,string>",),
    "sharding_key": ("string", "int", "bigint"),
    "delay_level": ("int",),
}
DELAY_LEVEL_MAX: Final = 18
BODY_BYTES_MAX: Final = ProducerSettings().body_bytes_max
# what brokers and clients write into properties themselves: a row that was read has them too
RESERVED: Final = frozenset(
    value
    for name, value in vars(Property).items()
    if isinstance(value, str) and not name.startswith("_")
)


class RowMessage(NamedTuple):
    """A message to send; equal sharding keys go to one queue, None to any.

    That of a bigint is its hash: by it Java chooses the queue.
    """

    message: Message
    sharding_key: str | int | None


def check_rows(schema: StructType, topic: str | None) -> None:
    """Raise OptionError unless rows of the schema can be sent."""
    for field in schema.fields:
        if field.name not in ROW_COLUMNS:
            raise OptionError(
                f"write: no message has a column {near(field.name, list(ROW_COLUMNS))}: select the"
                " columns to send, under these names"
            )
        kinds, given = ROW_COLUMNS[field.name], field.dataType.simpleString()
        if given not in kinds:
            raise OptionError(
                f"write: column {field.name} is {given}, not {' or '.join(kinds)}: cast it"
            )
    if "body" not in schema.names:
        raise OptionError("write: there is no column body (binary or string)")
    if topic is None and "topic" not in schema.names:
        raise OptionError("write: name the topic by the option topic, or by a column of that name")
    if topic is not None and "topic" in schema.names:
        raise OptionError(
            "write: the option topic and a column topic exclude each other: leave one of them out"
        )


def rows_of(batch: pa.RecordBatch, topic: str | None) -> Iterator[RowMessage]:
    """The rows of a batch. Raises InvalidMessage for one that no broker takes."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    cells = [
        columns[name].to_pylist() if name in columns else [None] * batch.num_rows
        for name in ROW_COLUMNS
    ]
    is_long = "sharding_key" in columns and str(columns["sharding_key"].type) == "int64"
    own = {name for name in ("keys", "tags") if name in columns}
    for place, body, keys, tags, properties, sharding_key, delay in zip(*cells, strict=True):
        named = topic if topic is not None else place
        if named is None or body is None:
            raise InvalidMessage(f"a row's {'body' if named else 'topic'} is null")
        found = dict(properties or ())
        if "keys" not in own:
            keys = found.get(Property.KEYS)
        if "tags" not in own:
            tags = found.get(Property.TAGS)
        message = _message(named, body, keys, tags, found, _delay_level(delay))
        if sharding_key is not None:
            message.properties[Property.SHARDING_KEY] = str(sharding_key)
        check_name("topic", named, TOPIC_CHARACTERS_MAX)
        check_message(message, BODY_BYTES_MAX)
        yield RowMessage(message, _long_hash(sharding_key) if is_long else sharding_key)


def _delay_level(value: int | None) -> int:
    """A broker would take a level that there is not for the last one, or for none at all."""
    level = value or 0
    if not 0 <= level <= DELAY_LEVEL_MAX:
        raise InvalidMessage(
            f"column delay_level: {level} is no level: 1 to {DELAY_LEVEL_MAX}, or 0 for at once"
        )
    return level


def _long_hash(value: int | None) -> int | None:
    """Java's Long.hashCode, which is the value itself for what is no longer than an int."""
    if value is None:
        return None
    folded = (value ^ (value >> 32)) & 0xFFFF_FFFF
    return folded - (folded >> 31 << 32)


def _message(
    topic: str,
    body: bytes | str,
    keys: str | list[str | None] | None,
    tags: str | None,
    properties: dict[str, str | None],
    delay_level: int,
) -> Message:
    """A message; properties of RocketMQ's own names, and empty ones, are left out."""
    if isinstance(keys, list):
        keys = " ".join(key for key in keys if key)
    own = {
        name: value for name, value in properties.items() if name and value and name not in RESERVED
    }
    return Message(
        topic,
        body.encode() if isinstance(body, str) else body,
        tags=tags or None,
        keys=keys or (),
        delay_level=delay_level,
        properties=own,
    )
