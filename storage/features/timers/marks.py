"""Which waiting messages the log says were delivered: those that a delivered record names.

Such a record has to be like the message that it names (`delays/likeness.py`).
"""

import re
from typing import Final

from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.features.delays.likeness import is_alike
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY, mentions
from aerobee.storage.features.timers.codecs import PRECISION_MS
from aerobee.storage.log.scan import Scanned
from aerobee.storage.recovery.walk import records_over
from aerobee.storage.store import MessageStore

_NEEDLE: Final = DELIVERED_PROPERTY.encode() + b"\x01timer-"
_VALUE: Final = re.compile(r"timer-(\d{1,18})")


def timer_mark(offset: int) -> bytes:
    """Return what is added to a delivered record, or to one that is put aside once more: which of
    the messages that waited it is, by its offset in the timers' queue."""
    return b"%b%d\x02" % (_NEEDLE, offset)


def delivered_between(store: MessageStore, begin: int, end: int) -> tuple[set[int], int]:
    """Return the offsets of the timers' queue that records between two positions deliver.

    And the second in which the last of them was.
    """
    found: set[int] = set()
    until_ms = 0
    begin = max(begin, store.commit_log.begin)
    queue = store.find_queue(TIMER_TOPIC, 0)
    if queue is None or end <= begin or not mentions(store.segments, _NEEDLE, begin, end):
        return found, 0
    for record in records_over(store.segments, begin, store.commit_log.damage):
        if record.position >= end:
            break
        if _NEEDLE in record.buffer[record.properties_at : record.at + record.size]:
            offset = _delivered(record)
            if (
                offset is not None
                and queue.min_offset <= offset < queue.max_offset
                and queue.entry(offset)[0] < record.position  # else of a queue that was before
                and is_alike(store, record, queue.entry(offset)[0], (TIMER_TOPIC, 0, offset))
            ):
                found.add(offset)
                until_ms = max(until_ms, record.store_timestamp)
    return found, until_ms // PRECISION_MS


def marked_offset(properties: bytes) -> int | None:
    """Return which of the messages that waited a record's properties name, None if none."""
    match = _VALUE.fullmatch(find_property(properties, DELIVERED_PROPERTY) or "")
    return None if match is None else int(match[1])


def _delivered(record: Scanned) -> int | None:
    if (offset := marked_offset(record.properties)) is None:
        return None
    own = find_property(record.properties, Property.REAL_TOPIC)
    return offset if record.topic in (own, TIMER_TOPIC) else None
