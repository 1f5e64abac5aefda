"""What another broker delivered, or put aside once more, after it last said how far it was.

RocketMQ that is killed leaves a store so, and no mark with such a record, but all properties of the
message, and who sent it when. What waits is the same one if unique key, real topic and second
agree, address and time of birth, and the bytes of the body. Of two that are alike in all of this,
as many count as were delivered. So nobody keeps a message back by sending what looks like its
delivery: that takes the connection of its producer, and sends the same body.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.remoting.message.record import Host, Record, decode_record
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY, mentions
from aerobee.storage.features.timers.codecs import PRECISION_MS, ROLL, ms_of
from aerobee.storage.features.timers.index import TimerIndex
from aerobee.storage.recovery.walk import records_over
from aerobee.storage.store import MessageStore

_NEEDLE: Final = f"{Property.TIMER_DEQUEUE_MS}\x01".encode()
_MARK: Final = f"{DELIVERED_PROPERTY}\x01".encode()


class _Identity(msgspec.Struct, frozen=True):
    unique_key: str
    topic: str  # where it goes
    out_ms: int  # when it is due, as RocketMQ has it
    born_timestamp: int
    born_host: Host
    body: bytes  # SHA-256
    rolls: int = 0  # how often it has been put aside once more

    @property
    def second(self) -> int:
        return self.out_ms // PRECISION_MS


class _Found(msgspec.Struct, frozen=True):
    """What the log has of another broker's work, and by when it was done with what it put aside."""

    delivered: Counter[_Identity]
    rolled: Counter[_Identity]  # each as it was before
    rolled_s: int


def delivered_unmarked(store: MessageStore, index: TimerIndex, end: int) -> tuple[set[int], int]:
    """Return the offsets of messages that wait in a slot from `read_s` on and are done with.

    They were delivered, or put aside once more. And the latest of these slots.
    """
    found, until_s = set[int](), 0
    work = _work(store, index, end)
    for kind, waiting in (
        (work.delivered, _waiting(store, index, {each.second for each in work.delivered})),
        (work.rolled, _rolling(store, index, work.rolled_s)),
    ):
        left = kind.total()
        while left and (each := next(waiting, None)) is not None:
            second, record = each
            identity = _identity(record)
            if identity is not None and kind is work.delivered:
                identity = msgspec.structs.replace(identity, rolls=0)
            if identity is not None and kind[identity] > 0:
                kind[identity] -= 1
                left -= 1
                found.add(record.queue_offset)
                until_s = max(until_s, identity.second if kind is work.delivered else second)
    return found, until_s


def _work(store: MessageStore, index: TimerIndex, end: int) -> _Found:
    """Return what of the log was delivered, or put aside once more, without a mark of ours."""
    delivered, rolled, rolled_s = Counter[_Identity](), Counter[_Identity](), 0
    begin = max(index.position, store.commit_log.begin)
    if end > begin and mentions(store.segments, _NEEDLE, begin, end):
        for scanned in records_over(store.segments, begin, store.commit_log.damage):
            if scanned.position >= end:
                break
            properties = scanned.properties
            if _NEEDLE not in properties or _MARK in properties:
                continue
            try:
                record = decode_record(scanned.buffer, scanned.at)
            except CorruptRecord:
                continue  # what nobody can read has not been delivered
            identity = _identity(record)
            if identity is None or identity.second < index.read_s:
                continue
            if record.topic == TIMER_TOPIC and identity.rolls:
                rolled[msgspec.structs.replace(identity, rolls=identity.rolls - 1)] += 1
                rolled_s = max(rolled_s, record.store_timestamp // PRECISION_MS)
            elif record.topic == identity.topic:
                delivered[msgspec.structs.replace(identity, rolls=0)] += 1
    return _Found(delivered, rolled, rolled_s)


def _waiting(
    store: MessageStore, index: TimerIndex, seconds: set[int]
) -> Iterator[tuple[int, Record]]:
    """Yield messages of some seconds, in the order of their arrival within each, and of no slot."""
    for time_s in sorted(seconds):
        places = [(unit.position, unit.record_bytes) for unit in index.chain(time_s)]
        yield from ((time_s, record) for record in _records(store, reversed(places)))
    yield from ((0, record) for record in _without_slot(store, index))


def _rolling(store: MessageStore, index: TimerIndex, until_s: int) -> Iterator[tuple[int, Record]]:
    """Yield messages that are to be put aside once more in slots up to a second, and of no slot."""
    time_s = index.wheel.next_used(index.read_s)
    while time_s is not None and time_s <= until_s:
        units = index.chain(time_s)
        places = [(unit.position, unit.record_bytes) for unit in units if unit.magic & ROLL]
        for record in _records(store, reversed(places)):
            yield time_s, record
        time_s = index.wheel.next_used(time_s + 1)
    yield from ((until_s, record) for record in _without_slot(store, index))


def _without_slot(store: MessageStore, index: TimerIndex) -> Iterator[Record]:
    queue = store.find_queue(TIMER_TOPIC, 0)
    if queue is not None:
        offsets = range(max(index.next_offset, queue.min_offset), queue.max_offset)
        yield from _records(store, (queue.entry(offset)[:2] for offset in offsets))


def _records(store: MessageStore, places: Iterable[tuple[int, int]]) -> Iterator[Record]:
    for position, size in places:
        if not 0 < size < BLANK_SIZE or (data := store.record_at(position)) is None:
            continue
        try:
            yield decode_record(data)
        except CorruptRecord:
            continue


def _identity(record: Record) -> _Identity | None:
    properties = parse_properties(record.properties)
    key, topic, out, rolls = (
        properties.get(name)
        for name in (
            Property.UNIQ_KEY, Property.REAL_TOPIC, Property.TIMER_OUT_MS,
            Property.TIMER_ROLL_TIMES,
        )
    )  # fmt: skip
    out_ms = ms_of(out or "")
    if not key or not topic or out_ms is None or Property.TIMER_DEL_UNIQKEY in properties:
        return None
    body = sha256(record.body).digest()
    born = record.born_timestamp, record.born_host
    return _Identity(key, topic, out_ms, *born, body, ms_of(rolls or "") or 0)
