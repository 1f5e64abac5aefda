"""How transactions of a unique key have ended: by memory, else by what the log has.

A producer may send a half message again whose topic stores a retry once. Where that transaction was
rolled back, or given up, nobody will ever see the first one: to answer with it would lose the
second, whose END would meet nothing that is open.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from aerobee.broker.cold.lookups import Lookups
from aerobee.broker.features.transactions.ending import COMMIT
from aerobee.broker.features.transactions.halves import Key, OpenHalves
from aerobee.broker.features.transactions.texts import key_of, number
from aerobee.broker.sends.storing import unavailable
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.remoting.message.record import Record, decode_record
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.queues.snapshot import QueueSnapshot
from aerobee.storage.reads.cold.file_lookup import FileEntries, FileLookup
from aerobee.storage.reads.search import record_bytes_at
from aerobee.storage.store import MessageStore

ENTRIES_AT_ONCE: Final = 1024
READ_MAX: Final = 200_000  # records that are read for one answer
ALIKE_BYTES: Final = 512  # by which the sizes of a transaction's records differ at most


class Outcomes:
    """Says of half messages that are known whether they stand."""

    def __init__(self, store: MessageStore, lookups: Lookups, halves: OpenHalves) -> None:
        self._store = store
        self._lookups = lookups
        self._halves = halves

    async def stands(self, record: Record) -> bool:
        """Whether a half message is open, or was committed; not so: nobody will ever see it.

        True where that cannot be told. Raises RequestError where the disk refuses.
        """
        properties = parse_properties(record.properties)
        key = key_of(properties)
        if self._halves.find(key) is not None or self._store.commit_log.losses:
            return True
        outcome = self._halves.outcome(key)
        if outcome is not None:
            return outcome == COMMIT
        return await self._was_committed(record, properties, key)

    async def _was_committed(self, record: Record, properties: Mapping[str, str], key: Key) -> bool:
        queue_id = number(properties.get(Property.REAL_QID)) or 0
        queue = self._store.find_queue(key.topic, queue_id)
        if queue is None:
            return False
        size_bytes = None if Property.INNER_MULTI_DISPATCH in properties else record.total_size
        where = queue.snapshot(), (key.topic, queue_id), record.position
        look = partial(stored_since, *where, size_bytes, key, read_max=READ_MAX)
        try:
            return await self._lookups.beside(look)
        except OSError as error:
            raise unavailable(f"how the transaction ended cannot be read: {error}") from error


def stored_since(
    queue: QueueSnapshot,
    named: tuple[str, int],
    begin: int,
    size_bytes: int | None,
    key: Key,
    lookup: FileLookup,
    *,
    read_max: int = 1 << 62,
) -> bool:
    """Whether a queue has a message of a transaction behind a position; for a thread.

    `named` is its topic and number. Only records of about `size_bytes` are read, all of them where
    that is None. True where they are more than `read_max`.
    """
    entries = lookup.entries(queue)
    offset = _first_behind(entries, begin)
    while offset < queue.max_offset and (run := entries.run(offset, ENTRIES_AT_ONCE)):
        for position, size, _ in ENTRY.iter_unpack(run[: len(run) // ENTRY_BYTES * ENTRY_BYTES]):
            if size < BLANK_SIZE and (size_bytes is None or abs(size - size_bytes) <= ALIKE_BYTES):
                if read_max <= 0 or _is_of(lookup, position, (*named, offset), key):
                    return True
                read_max -= 1
            offset += 1
    return False


def _first_behind(entries: FileEntries, begin: int) -> int:
    """Return the first offset whose message lies behind a position; lost ones are passed over."""
    low, high = entries.min_offset, entries.max_offset
    while low < high:
        known = middle = (low + high) // 2
        while known < high and not 0 < entries.entry(known)[1] < BLANK_SIZE:
            known += 1
        if known < high and entries.entry(known)[0] <= begin:
            low = known + 1
        else:
            high = middle
    return low


def _is_of(lookup: FileLookup, position: int, named: tuple[str, int, int], key: Key) -> bool:
    try:
        data = record_bytes_at(lookup, position, named)
    except CorruptRecord:
        return False
    if data is None or key.unique_key.encode() not in data:
        return False
    properties = parse_properties(decode_record(data, check_crc=False).properties)
    return key == Key(
        properties.get(Property.PGROUP, ""),
        properties.get(Property.UNIQ_KEY, ""),
        properties.get(Property.REAL_TOPIC, named[0]),  # a half's; a message has none
    )
