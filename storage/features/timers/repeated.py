"""What another broker delivered after it last said how far it was, as after a kill of RocketMQ.

It leaves no mark with a delivered record, but all properties of the message: what waits is the same
one if unique key, real topic and second agree. Of two messages of one key, a producer's retry, as
many count as were delivered.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.remoting.message.record import Record, decode_record
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY, mentions
from aerobee.storage.features.timers.codecs import PRECISION_MS, ms_of
from aerobee.storage.features.timers.index import TimerIndex
from aerobee.storage.recovery.walk import records_over
from aerobee.storage.store import MessageStore

_NEEDLE: Final = f"{Property.TIMER_DEQUEUE_MS}\x01".encode()
_MARK: Final = f"{DELIVERED_PROPERTY}\x01".encode()

Identity = tuple[str, str, str]  # unique key, real topic, and when it was due, as RocketMQ has it


def delivered_unmarked(store: MessageStore, index: TimerIndex, end: int) -> tuple[set[int], int]:
    """Return the offsets of messages that wait for a second from `read_s` on and were delivered.

    And the latest of these seconds.
    """
    delivered = Counter(_delivered(store, index, end))
    found, until_s = set[int](), 0
    if not delivered:
        return found, until_s
    seconds = {_second(identity) for identity in delivered}
    for record in _waiting(store, index, seconds):
        identity = _identity(record)
        if identity is not None and delivered[identity] > 0:
            delivered[identity] -= 1
            found.add(record.queue_offset)
            until_s = max(until_s, _second(identity))
    return found, until_s


def _delivered(store: MessageStore, index: TimerIndex, end: int) -> Iterator[Identity]:
    begin = max(index.position, store.commit_log.begin)
    if end <= begin or not mentions(store.segments, _NEEDLE, begin, end):
        return
    for scanned in records_over(store.segments, begin, store.commit_log.damage):
        if scanned.position >= end:
            return
        properties = scanned.properties
        if _NEEDLE not in properties or _MARK in properties or scanned.topic == TIMER_TOPIC:
            continue
        identity = _identity_of(parse_properties(properties))
        is_own = identity is not None and identity[1] == scanned.topic
        if identity is not None and is_own and _second(identity) >= index.read_s:
            yield identity


def _waiting(store: MessageStore, index: TimerIndex, seconds: set[int]) -> Iterator[Record]:
    """Yield messages of some seconds, in the order of their arrival within each, and of no slot."""
    for time_s in sorted(seconds):
        places = [(unit.position, unit.record_bytes) for unit in index.chain(time_s)]
        yield from _records(store, reversed(places))
    queue = store.find_queue(TIMER_TOPIC, 0)
    if queue is not None:
        offsets = range(max(index.next_offset, queue.min_offset), queue.max_offset)
        yield from _records(store, (queue.entry(offset)[:2] for offset in offsets))


def _records(store: MessageStore, places: Iterator[tuple[int, int]]) -> Iterator[Record]:
    for position, size in places:
        if not 0 < size < BLANK_SIZE or (data := store.record_at(position)) is None:
            continue
        try:
            yield decode_record(data)
        except CorruptRecord:
            continue


def _second(identity: Identity) -> int:
    return int(identity[2]) // PRECISION_MS


def _identity(record: Record) -> Identity | None:
    properties = parse_properties(record.properties)
    return None if Property.TIMER_DEL_UNIQKEY in properties else _identity_of(properties)


def _identity_of(properties: dict[str, str]) -> Identity | None:
    key, topic, out = (
        properties.get(name)
        for name in (Property.UNIQ_KEY, Property.REAL_TOPIC, Property.TIMER_OUT_MS)
    )
    if not key or not topic or not out or ms_of(out) is None:
        return None
    return key, topic, out
