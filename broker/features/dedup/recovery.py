"""Finding out at a start which unique keys are known: the snapshot, and the log behind it.

Nothing is believed but the log. Of the snapshot's keys the newest is looked for whose message is
where it says, stored when it says: what is older has not changed, for a log is only ever cut at its
end. Whatever lies behind that message is read, so a snapshot may be of any age, of before a loss of
power, or of before another broker had the store; without one all windows are read.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.features.dedup.firsts import TopicFirsts
from aerobee.broker.features.dedup.replay import (
    WAITING_TOPICS,
    Behind,
    ReadAhead,
    ReplayedQueue,
    Stored,
    replay,
    stored,
)
from aerobee.broker.writing.firsts import key_of
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.record import Record
from aerobee.remoting.words import HALF_TOPIC
from aerobee.storage.features.dedup.snapshot import ROW, ROW_BYTES, KnownKeys, decode_snapshot
from aerobee.storage.layout import DEDUP
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.store import MessageStore

T = TypeVar("T")

log = logging.getLogger(__name__)

READER: Final = "unique keys of the broker"
"""Whose turn it is among those that wait for the disk."""
ROWS_AT_ONCE: Final = 10_000  # a millisecond or two
RECORDS_AT_ONCE: Final = 300
ROWS_TRIED_MAX: Final = 100_000
"""Keys of a snapshot that are looked for in vain, before all of it is read from the log."""
BUSY_WAIT_S: Final = 0.05
SNAPSHOT_BYTES_MAX: Final = 16 << 30


class KeyRecovery:
    """Done once, by a broker that starts; until then sends to these topics wait."""

    def __init__(
        self,
        store: MessageStore,
        reads: ColdReads,
        files: Callable[[], FileLookup],
        firsts: TopicFirsts,
    ) -> None:
        self._store = store
        self._reads = reads
        self._files = files
        self._firsts = firsts
        self.replayed = 0
        self.loaded = 0

    async def run(self) -> None:
        """Fill the table of keys."""
        firsts = self._firsts
        if not firsts.numbers:
            return
        lookup, queues = self._files(), self._queues()
        snapshot = await self._beside(self._read)
        behind = Behind()
        if snapshot is not None and firsts.numbers.keys() <= set(snapshot.topics.values()):
            behind = Behind(await self._load(snapshot, lookup), firsts.keys.clock_ms)
        windows_ms = dict(firsts.windows_ms)
        found = replay(lookup, queues, windows_ms, behind, firsts.now_ms())
        await self._replay(found, lookup, behind.position)
        log.info("unique_keys_known loaded=%d read=%d", self.loaded, self.replayed)

    async def _load(self, snapshot: KnownKeys, lookup: FileLookup) -> int:
        """Take the keys that the log bears out; return the position of the newest, -1 for none."""
        firsts = self._firsts
        names = {n: topic for n, topic in snapshot.topics.items() if topic in firsts.numbers}
        here = {number: firsts.numbers[topic] for number, topic in names.items()}
        rows = snapshot.rows
        end = await self._beside(lambda: _believed(rows, names, lookup))
        for begin in range(0, end, ROWS_AT_ONCE * ROW_BYTES):
            firsts.keys.load(rows, begin, min(end, begin + ROWS_AT_ONCE * ROW_BYTES), here)
            await asyncio.sleep(0)
        self.loaded = end // ROW_BYTES
        return ROW.unpack_from(rows, end - ROW_BYTES)[1] if end else -1

    async def _beside(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, which may wait for the disk."""
        while True:
            try:
                return await self._reads.run(READER, work)
            except RequestError:  # others read so much that there is no room to wait
                await asyncio.sleep(BUSY_WAIT_S)

    async def _replay(
        self, found: Iterator[Stored | None], lookup: FileLookup, behind: int
    ) -> None:
        """Take what the log has: the first of each key, but for a half that another one follows.

        That one was stored since the transaction had come to nothing.
        """
        firsts, keys = self._firsts, self._firsts.keys
        halves = set[int]()
        while some := await self._beside(lambda: list(islice(found, RECORDS_AT_ONCE))):
            for each in some:
                number = firsts.numbers.get(each.topic) if each is not None else None
                if each is None or number is None:
                    continue
                key = key_of(each.unique_key)
                if (first := keys.find(number, key, each.stored_ms)) >= 0:
                    if first <= behind and await self._beside(partial(_is_half, lookup, first)):
                        halves.add(first)
                    if first not in halves:
                        continue
                keys.put(number, key, each.position, each.stored_ms)
                if each.is_half:
                    halves.add(each.position)
                self.replayed += 1

    def _read(self) -> KnownKeys | None:
        path = self._store.settings.root / DEDUP
        try:
            data = self._store.files.read_all(path, SNAPSHOT_BYTES_MAX)
        except OSError as error:
            log.warning("unique_keys_not_read path=%s error=%s", path, error)
            return None
        if data is None:
            return None
        snapshot = decode_snapshot(data)
        if snapshot is None:
            log.warning("unique_keys_damaged path=%s advice='they are read from the log'", path)
        return snapshot

    def _queues(self) -> list[ReplayedQueue]:
        queues = []
        for topic, numbers in self._store.topics().items():
            if topic in self._firsts.numbers or topic in WAITING_TOPICS:
                for number in numbers:
                    queue = self._store.find_queue(topic, number)
                    if queue is not None and queue.max_offset > queue.min_offset:
                        queues.append(ReplayedQueue(topic, queue.snapshot()))
        return queues


def _is_half(lookup: FileLookup, position: int) -> bool:
    record = _record(lookup, position)
    return record is not None and record.topic == HALF_TOPIC


def _record(lookup: FileLookup, position: int) -> Record | None:
    """Return the record at a position without its body, None where none can be read."""
    try:
        size = int.from_bytes(lookup.read(position, 4), "big", signed=True)
    except OSError:
        return None
    return ReadAhead(lookup).record(position, size) if size > 0 else None


def _believed(rows: bytes, topics: dict[int, str], lookup: FileLookup) -> int:
    """Return up to which byte the rows of a snapshot are borne out by the log."""
    windows_ms = dict.fromkeys(topics.values(), 0)
    begin = len(rows) - ROWS_TRIED_MAX * ROW_BYTES
    for at in range(len(rows) - ROW_BYTES, max(-1, begin), -ROW_BYTES):
        key, position, seen_ms, number = ROW.unpack_from(rows, at)
        if number not in topics:
            continue
        record = _record(lookup, position)
        if record is None or record.store_timestamp != seen_ms:
            continue
        said = stored(record, windows_ms)
        if said is not None and said.topic == topics[number] and key_of(said.unique_key) == key:
            return at + ROW_BYTES
    return 0
