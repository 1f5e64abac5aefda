"""The properties of a transaction's records: half, commit, copy for a check, and op message.

Source: TransactionalMessageBridge, EndTransactionProcessor.endMessageTransaction and
TransactionalMessageServiceImpl of RocketMQ 5.5.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from aerobee.broker.features.transactions.halves import Half, Key
from aerobee.broker.rules.names import topic_problem
from aerobee.broker.rules.system_topics import SEND_FORBIDDEN
from aerobee.remoting.message.properties import Property

COPY_BYTES_MAX: Final = 96
"""What a copy may need beside what the half message has: two names, two numbers, separators."""
QUEUE_ID_MAX: Final = 32_767

OP_TAG: Final = "d"
OP_PROPERTIES: Final = b"WAIT\x01true\x02TAGS\x01d\x02"
OP_OFFSETS_MAX: Final = 4096
"""Offsets in one op message at most; a turn with more writes several."""

_OWN: Final = (
    Property.TRAN_PREPARED_QUEUE_OFFSET,
    Property.TRANSACTION_CHECK_TIMES,
    Property.INNER_MULTI_QUEUE_OFFSET,
)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


def is_prepared(properties: Mapping[str, str]) -> bool:
    """Whether a message begins a transaction, as Boolean.parseBoolean reads TRAN_MSG."""
    return properties.get(Property.TRAN_MSG, "").lower() == "true"


def make_half(properties: dict[str, str], topic: str, queue_id: int) -> None:
    """Change a message's properties into those of its half message; `queue_id` is where it goes."""
    for name in _OWN:
        properties.pop(name, None)  # the broker's own: a program may have copied them
    properties[Property.REAL_TOPIC] = topic
    properties[Property.REAL_QID] = str(queue_id)
    properties[Property.TRANSACTION_ID] = properties[Property.UNIQ_KEY]


def key_of(properties: Mapping[str, str]) -> Key:
    """Return which transaction a half message, or a committed one, belongs to."""
    return Key(
        properties.get(Property.PGROUP, ""),
        properties.get(Property.UNIQ_KEY, ""),
        properties.get(Property.REAL_TOPIC, ""),
    )


def half_of(
    properties: Mapping[str, str], offset: int, position: int, born_ms: int, stored_ms: int
) -> Half:
    """Return a half message as it is kept in memory."""
    return Half(
        key_of(properties),
        offset,
        position,
        number(properties.get(Property.REAL_QID)) or 0,
        born_ms,
        stored_ms,
        max(0, number(properties.get(Property.TRANSACTION_CHECK_TIMES)) or 0),
        immunity_ms(properties),
        number(properties.get(Property.TRAN_PREPARED_QUEUE_OFFSET)),
    )


def number(text: str | None) -> int | None:
    """Read a number as Java does, None for what is none."""
    if text is None or _NUMBER.fullmatch(text) is None:
        return None
    return int(text)


def immunity_ms(properties: Mapping[str, str]) -> int | None:
    """Return how long a half message is not to be checked, None where nothing of use is said."""
    seconds = number(properties.get(Property.CHECK_IMMUNITY_TIME_IN_SECONDS))
    return None if seconds is None else max(0, seconds) * 1000


def destination(properties: Mapping[str, str]) -> tuple[str, int]:
    """Return topic and queue of a half message; ValueError where they cannot be."""
    topic = properties.get(Property.REAL_TOPIC, "")
    queue_id = number(properties.get(Property.REAL_QID))
    if problem := topic_problem(topic):
        raise ValueError(problem)
    if topic in SEND_FORBIDDEN:
        raise ValueError(f"its own topic is {topic}")
    if queue_id is None or not 0 <= queue_id <= QUEUE_ID_MAX:
        raise ValueError(f"its own queue is {properties.get(Property.REAL_QID)!r}")
    return topic, queue_id


def committed_text(stored: bytes) -> bytes:
    """Return the properties of a committed message: the half's without its topic and queue."""
    topic_at = stored.find(b"\x02REAL_TOPIC\x01")
    topic_end = stored.find(b"\x02", topic_at + 1)
    queue_end = stored.find(b"\x02", topic_end + 1)
    if topic_at >= 0 and stored.startswith(b"REAL_QID\x01", topic_end + 1) and queue_end > 0:
        left = stored[:topic_at] + stored[queue_end:]
        if b"REAL_" not in left:
            return left if left.endswith(b"\x02") else left + b"\x02"
    return without(stored, Property.REAL_TOPIC, Property.REAL_QID)


def copied_text(stored: bytes, checks: int, first_offset: int | None) -> bytes:
    """Return the properties of a copy that counts so many checks.

    `first_offset` is where the half message was at first; a copy says so that only moves on.
    """
    names = [Property.TRANSACTION_CHECK_TIMES]
    text = b""
    if checks:
        text = b"%b\x01%d\x02" % (Property.TRANSACTION_CHECK_TIMES.encode(), checks)
    if first_offset is not None:
        names.append(Property.TRAN_PREPARED_QUEUE_OFFSET)
        text += b"%b\x01%d\x02" % (Property.TRAN_PREPARED_QUEUE_OFFSET.encode(), first_offset)
    return without(stored, *names) + text


def without(stored: bytes, *names: str) -> bytes:
    """Return properties, ending with their separator, without those of some names."""
    unwanted = tuple(name.encode() + b"\x01" for name in names)
    pairs = [each for each in stored.split(b"\x02") if each and not each.startswith(unwanted)]
    return b"".join([each + b"\x02" for each in pairs])


def op_body(offsets: Iterable[int]) -> bytes:
    """Return the body of an op message: the half messages that are over."""
    return b"".join([b"%d," % offset for offset in offsets])


def op_offsets(body: bytes) -> list[int]:
    """Read the body of an op message; what is no number is passed over."""
    return [int(each) for each in body.split(b",") if each.isdigit() and len(each) < 20]
