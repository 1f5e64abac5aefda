"""A message as it comes into its slot, when it is sent, or later from its record."""

from aerobee.broker.features.timers.times import due_ms, out_ms
from aerobee.broker.features.timers.waiting import WaitingRecord
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.features.timers.codecs import PRECISION_MS
from aerobee.storage.features.timers.index import Waiting

Taken = tuple[Waiting, str | None, str]
"""What the index is told, the key that the message takes back, if it does, and its own topic."""


def as_waiting(
    offset: int, position: int, record_bytes: int, due: int, properties: dict[str, str]
) -> Taken:
    """Return a message as it waits that is due then."""
    topic = properties.get(Property.REAL_TOPIC, "")
    key = properties.get(Property.TIMER_DEL_UNIQKEY)
    message = Waiting(
        offset, position, record_bytes, out_ms(due) // PRECISION_MS, due, key is not None,
        java_string_hash(topic),
    )  # fmt: skip
    return message, key, topic


def waiting(record: WaitingRecord, offset: int, position: int, record_bytes: int) -> Taken:
    """Return a message of the timers' queue as it waits; ValueError for one without a time."""
    properties = parse_properties(record.properties)
    _, due = due_ms(properties, record.store_timestamp)
    return as_waiting(offset, position, record_bytes, due, properties)


def due_of(record: WaitingRecord) -> int:
    """Return when a message is due; 0, which is at once, for one without a time."""
    try:
        return due_ms(parse_properties(record.properties), record.store_timestamp)[1]
    except ValueError:
        return 0
