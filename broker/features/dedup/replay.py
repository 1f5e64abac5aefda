"""What the log has of unique keys: the messages of topics, in the order of the log.

All of it is read beside the loop, from the files alone.
"""

import heapq
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.message.record import Record, decode_record
from aerobee.remoting.words import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.queues.snapshot import QueueSnapshot
from aerobee.storage.reads.cold.file_lookup import FileEntries, FileLookup
from aerobee.storage.reads.search import offset_by_time, stamp_of

log = logging.getLogger(__name__)

ENTRIES_AT_ONCE: Final = 1000  # of one queue
ENTRIES_AT_ONCE_MIN: Final = 16
ENTRIES_MAX: Final = 200_000  # of all queues, 4 MB
AHEAD_BYTES: Final = 64 << 10
READ_ANYWAY: Final = 100_000
"""So many messages are read without a look at when they were stored: half a second."""
SEARCHES_MAX: Final = 8
"""How often a clock may have gone back and forth before the rest is taken for too old."""

WAITING_TOPICS: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC})
"""Where messages wait that were sent to another topic, which they name."""

_WAITED: Final = {
    TIMER_TOPIC: (Property.TIMER_ROLL_TIMES,),
    HALF_TOPIC: (Property.TRANSACTION_CHECK_TIMES, Property.TRAN_PREPARED_QUEUE_OFFSET),
}
"""What one has there that has waited before, and was stored again to go on; no producer's."""


class Stored(NamedTuple):
    """A message with a unique key that a producer has sent to a topic."""

    topic: str
    unique_key: str
    position: int
    stored_ms: int
    is_half: bool  # nobody may ever see it


class ReplayedQueue(msgspec.Struct, frozen=True):
    """One queue, as it was when the broker started."""

    topic: str
    entries: QueueSnapshot


class Behind(NamedTuple):
    """Where the log is read from: behind the message at a position, -1 for all of it."""

    position: int = -1
    clock_ms: int = -1  # the latest time that any message up to there was stored


def replay(
    lookup: FileLookup,
    queues: Iterable[ReplayedQueue],
    windows_ms: Mapping[str, int],
    behind: Behind,
    now_ms: int,
) -> Iterator[Stored | None]:
    """Yield the messages of the topics of `windows_ms` behind a position, and within their windows.

    None stands for a record that is of no use, so that who takes some at a time never waits long.
    What is damaged, or not given by the disk, can be nobody's first: it is passed over.
    """
    longest_ms = max(windows_ms.values(), default=0)
    begun: list[tuple[ReplayedQueue, int]] = []
    for queue in queues:
        try:
            begin = _first_behind(lookup.entries(queue.entries), behind.position)
        except OSError as error:
            _tell(queue, error)
            continue
        if begin < queue.entries.max_offset:
            begun.append((queue, begin))
        yield None
    found = []
    # where the clock was right, all behind a message that counts do: what was stored in between
    # with an earlier time was so while it was set back
    at_once = min(ENTRIES_AT_ONCE, max(ENTRIES_AT_ONCE_MIN, ENTRIES_MAX // max(1, len(begun))))
    reads_all = sum(queue.entries.max_offset - begin for queue, begin in begun) <= READ_ANYWAY
    for queue, begin in begun:
        since_ms = now_ms - windows_ms.get(queue.topic, longest_ms)
        try:
            if not reads_all and not since_ms <= behind.clock_ms <= now_ms:
                begin = _first_since(lookup, queue, begin, since_ms, now_ms)
        except OSError as error:
            _tell(queue, error)
            continue
        found.append(_places(lookup, queue, begin, at_once))
        yield None
    ahead = ReadAhead(lookup)
    for position, size in heapq.merge(*found):
        record = ahead.record(position, size)
        yield None if record is None else stored(record, windows_ms)


class ReadAhead:
    """Records of the log that are asked for in its order; what the disk does not give is none."""

    def __init__(self, lookup: FileLookup) -> None:
        self._lookup = lookup
        self._begin = 0
        self._data = b""

    def record(self, position: int, size: int) -> Record | None:
        """Return the record of an entry, without its body, None where there is none."""
        at = position - self._begin
        if not 0 <= at <= len(self._data) - size:
            try:
                self._data = self._lookup.read(position, max(size, AHEAD_BYTES))
            except OSError as error:
                log.warning("unique_key_not_read position=%d error=%s", position, error)
                return None
            self._begin, at = position, 0
        try:
            record = decode_record(self._data, at, body=False)
        except CorruptRecord:
            return None
        return record if record.position == position else None


def stored(record: Record, windows_ms: Mapping[str, int]) -> Stored | None:
    """Return what a record says of unique keys, None where it is not what a producer has sent."""
    properties, topic = record.properties, record.topic
    unique_key = find_property(properties, Property.UNIQ_KEY)
    if topic in WAITING_TOPICS:
        topic = find_property(properties, Property.REAL_TOPIC) or ""
        names = _WAITED.get(record.topic, ())
        if any(find_property(properties, name) is not None for name in names):
            return None
        if find_property(properties, Property.TIMER_DEL_UNIQKEY) == unique_key:
            return None  # it takes the message with that key back
    elif (
        record.sys_flag & SysFlag.TRANSACTION_ROLLBACK == SysFlag.TRANSACTION_COMMIT
        or find_property(properties, DELIVERED_PROPERTY) is not None
    ):
        return None  # it was sent when it began to wait
    if topic not in windows_ms or unique_key is None:
        return None
    is_half = record.topic == HALF_TOPIC
    return Stored(topic, unique_key, record.position, record.store_timestamp, is_half)


def _first_since(
    lookup: FileLookup, queue: ReplayedQueue, begin: int, since_ms: int, now_ms: int
) -> int:
    """Return the first offset from `begin` on, behind which are all messages of the window.

    It ends now, or with the queue's newest message where the clock has been set back since. A
    clock that was wrong for a while leaves times that do not grow, and a search by halves may end
    behind the first that counts: so it looks back in steps that grow, and searches again from the
    earliest that counts, too. It may well end at one that is older.
    """
    entries, end = lookup.entries(queue.entries), queue.entries.max_offset
    newest_ms = stamp_of(lookup, entries, end - 1)
    since_ms += max(0, (newest_ms or 0) - now_ms)
    for _ in range(SEARCHES_MAX):
        entries.min_offset, entries.max_offset = begin, end
        end = offset_by_time(lookup, entries, since_ms)
        earlier = [end - (1 << step) for step in range((end - begin).bit_length())]
        stamps = [(at, stamp_of(lookup, entries, at)) for at in earlier if at >= begin]
        counts = [at for at, stamp in stamps if stamp is not None and stamp >= since_ms]
        if not counts:
            break
        end = counts[-1]
    return end


def _places(
    lookup: FileLookup, queue: ReplayedQueue, begin: int, at_once: int
) -> Iterator[tuple[int, int]]:
    """Yield position and size of the records that a queue names, from an offset on."""
    entries, end = lookup.entries(queue.entries), queue.entries.max_offset
    while begin < end:
        try:
            run = entries.run(begin, min(at_once, end - begin))
        except OSError as error:
            _tell(queue, error)
            return
        whole = len(run) // ENTRY_BYTES
        for position, size, _ in ENTRY.iter_unpack(run[: whole * ENTRY_BYTES]):
            if 0 < size < BLANK_SIZE:
                yield position, size
        begin += max(1, whole)


def _tell(queue: ReplayedQueue, error: OSError) -> None:
    log.warning("unique_keys_not_read queue=%s error=%s", queue.entries.folder, error)


def _first_behind(entries: FileEntries, behind: int) -> int:
    """Return the first offset of a message that lies behind a position.

    Entries of lost messages name none: they are stepped past.
    """
    low, high = entries.min_offset, entries.max_offset
    while low < high:
        known = middle = (low + high) // 2
        while (position := _position(entries, known)) < 0 and known + 1 < high:
            known += 1
        if 0 <= position <= behind:
            low = known + 1
        else:
            high = middle
    return low


def _position(entries: FileEntries, offset: int) -> int:
    """Return the position that an entry names, -1 where its message is lost."""
    position, size, _ = entries.entry(offset)
    return position if 0 < size < BLANK_SIZE else -1
