"""Which transactions a store has open, from the log and its queues alone.

Half messages from the noted progress on are open unless an op message names them, a later copy took
their place, or a committed message of theirs lies behind them whose op message is missing: the
process was killed, the power failed, or another broker kept its op messages in memory. What is over
without an op message is told, so that it gets one.
"""

import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from aerobee.broker.features.transactions.ending import COMMIT, ROLLBACK
from aerobee.broker.features.transactions.halves import Half, Key, OpenHalves
from aerobee.broker.features.transactions.ops import QUEUE_ID, Clocks, OpMessages
from aerobee.broker.features.transactions.progress import TransactionProgress
from aerobee.broker.features.transactions.texts import half_of, op_offsets
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.remoting.message.record import Record, decode_record
from aerobee.remoting.words import HALF_TOPIC, OP_HALF_TOPIC
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.walk import records_over
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

CLOCKS_APART_MS: Final = 600_000  # a client's and ours
NAMED_MAX: Final = 10  # log lines for records that cannot be read


class RecoveredTransactions(msgspec.Struct):
    """What a recovery met beside open halves: offsets that are over and have no op message."""

    over: list[int] = msgspec.field(default_factory=list)
    committed: int = 0
    unreadable: int = 0


class TransactionRecovery:
    """Fills the open halves and the known op messages of a store that was just opened."""

    def __init__(
        self,
        store: MessageStore,
        progress: TransactionProgress,
        halves: OpenHalves,
        ops: OpMessages,
        clock: Clocks,
    ) -> None:
        self._store = store
        self._progress = progress
        self._halves = halves
        self._ops = ops
        self._clock = clock
        self._found = RecoveredTransactions()
        self._first_position: dict[Key, int] = {}
        self._copies: list[Half] = []  # of half messages that were not met

    def run(self) -> RecoveredTransactions:
        """Look at everything once."""
        found = self._found
        queue = self._store.find_queue(HALF_TOPIC, QUEUE_ID)
        if queue is None:
            return found
        begin = self._progress.begin(HALF_TOPIC, queue)
        doubted_from = self._doubted_from(queue, begin)
        self._open(queue, begin, self._named(begin, doubted_from))
        if len(self._halves):
            self._committed(queue, 0 if doubted_from is not None else self._ended_before())
        self._halves.recovered()
        if len(self._halves) or found.over:
            log.info(
                "transactions_recovered from=%d to=%d open=%d committed=%d without_op=%d",
                begin, queue.max_offset, len(self._halves), found.committed, len(found.over),
            )  # fmt: skip
        if found.unreadable:
            log.error("transactions_unreadable records=%d", found.unreadable)
        return found

    def _doubted_from(self, queue: ConsumeQueue, begin: int) -> int | None:
        """Return from which position on op messages say too much, None where none does.

        Behind a damaged span one may name what was committed in that span and is lost. Who asks
        again about what it names does no harm: what is there of a commit is found in the log.
        """
        damage = self._store.commit_log.damage
        if damage is None or begin >= queue.max_offset:
            return None
        first = queue.entry(begin)[0]
        return min((span.begin for span in damage if span.end > first), default=None)

    def _named(self, begin: int, doubted_from: int | None) -> set[int]:
        """Return the half offsets from `begin` on that op messages name which are not doubted."""
        named: set[int] = set()
        queue = self._store.find_queue(OP_HALF_TOPIC, QUEUE_ID)
        if queue is None:
            return named
        written = []
        first = self._progress.begin(OP_HALF_TOPIC, queue)
        for offset, record in self._records(OP_HALF_TOPIC, queue, first, set()):
            offsets = op_offsets(record.body)
            if doubted_from is None or record.position < doubted_from:
                named.update(each for each in offsets if each >= begin)
            written.append((offset, max(offsets, default=-1)))
        self._ops.found(written)
        return named

    def _open(self, queue: ConsumeQueue, begin: int, named: set[int]) -> None:
        now_ms, steady_ms = self._clock.now_ms(), self._clock.steady_ms()
        for offset, record in self._records(HALF_TOPIC, queue, begin, named):
            half = half_of(
                parse_properties(record.properties), offset, record.position,
                record.born_timestamp, record.store_timestamp,
            )  # fmt: skip
            before = self._halves.add(half, now_ms, steady_ms)
            if before is None and (half.checks or half.first_offset is not None):
                self._copies.append(half)
            if before is not None:
                self._found.over.append(before.offset)
                self._first_position.setdefault(half.key, before.position)

    def _ended_before(self) -> int:
        """Return before which position of the log no op message is missing."""
        noted = self._progress.ended_before
        return noted if noted <= self._store.commit_log.committed else 0

    def _look_before_copies(self, queue: ConsumeQueue, ended_before: int) -> None:
        """Look for commits before copies of another broker, which knows its own ops late.

        It may copy, for a check, what it has committed; only the first record gets an op message.
        """
        copies = [half for half in self._copies if half.position >= ended_before]
        if copies:
            sent_ms = min(min(half.born_ms, half.stored_ms) for half in copies) - CLOCKS_APART_MS
            first = self._store.offset_by_time(queue, sent_ms)
            begin = min(half.position for half in copies)
            if first < queue.max_offset:
                begin = min(begin, queue.entry(first)[0])
            self._first_position.update((half.key, begin) for half in copies)

    def _committed(self, queue: ConsumeQueue, ended_before: int) -> None:
        """End what was committed without an op message."""
        self._look_before_copies(queue, ended_before)
        store, halves, found = self._store, self._halves, self._found
        end = store.commit_log.committed
        begin = min(half.position for half in halves)
        begin = max(ended_before, min([begin, *self._first_position.values()]))
        damage = store.commit_log.damage
        for record in records_over(store.segments, begin, damage):
            if record.position >= end or not len(halves):
                break
            if damage is not None and damage.touches(
                record.position, record.position + record.size
            ):
                continue  # it only looks like one
            if record.sys_flag & ROLLBACK != COMMIT or record.topic not in halves.by_topic:
                continue
            properties = parse_properties(record.properties)
            key = Key(
                properties.get(Property.PGROUP, ""),
                properties.get(Property.UNIQ_KEY, ""),
                record.topic,
            )
            half = halves.find(key)
            if half is None or record.position < self._first_position.get(key, half.position):
                continue
            halves.end(half, COMMIT)
            found.over.append(half.offset)
            found.committed += 1

    def _records(
        self, topic: str, queue: ConsumeQueue, begin: int, without: set[int]
    ) -> Iterator[tuple[int, Record]]:
        """Yield offset and record of what can be read of a queue."""
        for offset in range(begin, queue.max_offset):
            if offset in without:
                continue
            position, size, _ = queue.entry(offset)
            if size == BLANK_SIZE:
                continue
            try:
                data = self._store.record_at(position, (topic, QUEUE_ID, offset))
            except CorruptRecord as error:
                data = None
                reason = str(error)
            else:
                reason = "the log does not have it"
            if data is None:
                self._found.unreadable += 1
                if self._found.unreadable <= NAMED_MAX:
                    log.error("transaction_record_passed_over topic=%s offset=%d position=%d"
                              " reason=%r", topic, offset, position, reason)  # fmt: skip
                continue
            yield offset, decode_record(data, check_crc=False)
