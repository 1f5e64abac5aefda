"""How far transactions are done, as committed offsets of RocketMQ's own group for them.

Everything before the one in the half topic is over, and what the op messages before the other one
name lies before that. They never run ahead of the disk: what a power cut takes of the log must not
count as done. A start, also RocketMQ's, looks from there on.
"""

import logging
from typing import Final, NamedTuple

from aerobee.broker.features.transactions.halves import OpenHalves
from aerobee.broker.features.transactions.ops import QUEUE_ID, Clocks, OpMessages, PendingCall
from aerobee.broker.rules.own_groups import TRANSACTION_GROUP as GROUP
from aerobee.broker.tables.committed import OffsetTable
from aerobee.remoting.words import HALF_TOPIC, OP_HALF_TOPIC
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

NOTE_INTERVAL_S: Final = 1.0


class Noted(NamedTuple):
    """Both offsets, and the position of the log that the disk must have before they count.

    Before `ended` whatever was committed has its op message.
    """

    position: int
    ended: int
    half: int
    op: int


class TransactionProgress:
    """Notes progress while there is any; nothing is scheduled otherwise."""

    def __init__(
        self,
        store: MessageStore,
        offsets: OffsetTable,
        halves: OpenHalves,
        ops: OpMessages,
        clock: Clocks,
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._halves = halves
        self._ops = ops
        self._clock = clock
        self._candidate: Noted | None = None
        self._call: PendingCall | None = None
        self._running = False
        self.ended_before = 0  # no op message is missing before this position, says the disk

    def begin(self, topic: str, queue: ConsumeQueue) -> int:
        """Return the offset from which on a queue is to be looked at."""
        self._offsets.take_reset(GROUP, topic, QUEUE_ID)  # nobody but us is to be told
        noted = self._offsets.committed(GROUP, topic, QUEUE_ID)
        if noted is not None and noted < queue.min_offset:
            log.error("transactions_lost topic=%s from=%d to=%d reason=%r", topic, noted,
                      queue.min_offset, "the log was kept too short a time")  # fmt: skip
        return min(max(noted or 0, queue.min_offset), queue.max_offset)

    def start(self) -> None:
        """Note from now on."""
        self._running = not self._store.read_only

    def changed(self) -> None:
        """Note soon: something was done."""
        if self._running and self._call is None:
            self._call = self._clock.call_later(NOTE_INTERVAL_S, self._note)

    def stop(self) -> None:
        """Note nothing more but by `settle`."""
        self._running = False
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def settle(self) -> bool:
        """Note what the disk has; whether that is all that was done."""
        flushed = self._store.commit_log.flushed_position
        now = self._now()
        for noted in (self._candidate, now):
            if noted is not None and noted.position <= flushed:
                self._offsets.commit_own(GROUP, HALF_TOPIC, QUEUE_ID, noted.half)
                self._offsets.commit_own(GROUP, OP_HALF_TOPIC, QUEUE_ID, noted.op)
                self.ended_before = max(self.ended_before, noted.ended)
                self._candidate = None
        if self._candidate is None:
            self._candidate = now
        committed = self._offsets.committed
        return (now.half, now.op) == (
            committed(GROUP, HALF_TOPIC, QUEUE_ID), committed(GROUP, OP_HALF_TOPIC, QUEUE_ID)
        )  # fmt: skip

    def _now(self) -> Noted:
        queue = self._store.find_queue(HALF_TOPIC, QUEUE_ID)
        end = queue.max_offset if queue is not None else 0
        half = min([self._halves.oldest_offset(end), *self._ops.pending])
        position = self._store.commit_log.position
        return Noted(position, 0 if self._ops.pending else position, half, self._ops.forget(half))

    def _note(self) -> None:
        self._call = None
        settled = False
        try:
            settled = self.settle()
        except Exception:  # no memory, say: the next one comes
            log.exception("transaction_progress_not_noted")
        if not settled:
            self.changed()
