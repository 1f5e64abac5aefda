"""What one task writes: its rows as messages, without those that an earlier attempt has stored."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aerobee.client.errors import InvalidMessage
from aerobee.client.message import Message, MessageQueue
from aerobee.client.selectors import by_key
from aerobee.spark.network.brokers import Network
from aerobee.spark.network.loop_thread import LoopThread
from aerobee.spark.offsets import Offsets, QueueRange
from aerobee.spark.sinks.ids import Attempted, RowIds
from aerobee.spark.sinks.plan import SinkPlan
from aerobee.spark.sinks.progress import SinkRecord
from aerobee.spark.sinks.rows import Row, rows_of
from aerobee.spark.sinks.search import stored_ids
from aerobee.spark.sinks.sends import Parcel, Sends, takes_batches
from aerobee.spark.topics import TopicChoice

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

PARCEL_BYTES: Final = 256 << 10
PARCEL_MESSAGES: Final = 1000
OVERHEAD_BYTES: Final = 200  # of a message in a batch: its head, its id, some properties
CLOCKS_APART_MS: Final = 60_000  # what a broker's clock may be behind the driver's


@dataclass(frozen=True, slots=True)
class SinkReport:
    """What a task has done: rows that it sent, and rows that it found stored."""

    query: str
    topics: frozenset[str] = frozenset()
    sent: int = 0
    found: int = 0


def write_rows(
    plan: SinkPlan, attempted: Attempted, attempt: int, batches: Iterable[pa.RecordBatch]
) -> SinkReport:
    """Write the rows of a partition; `attempt` counts this task's attempts from 0.

    Raises InvalidMessage for a row that no broker takes, ClusterUnreachable.
    """
    with LoopThread("aerobee-sink") as loop:
        sends = Sends(plan.address, attempted.prefix, plan.ends)
        packing = _Packing(plan, attempted, attempt, loop, sends)
        try:
            for batch in batches:
                loop.run(sends.submit(packing.pack(rows_of(batch, plan.topic))))
            loop.run(sends.submit(packing.rest()))
            loop.run(sends.finish())
        finally:
            loop.run(sends.close())
    found = packing.found + sends.found
    return SinkReport(attempted.query, packing.topics, packing.rows - found, found)


class _Packing:
    """Rows to parcels; a parcel is given out when it is full."""

    def __init__(
        self, plan: SinkPlan, attempted: Attempted, attempt: int, loop: LoopThread, sends: Sends
    ) -> None:
        self.rows = self.found = 0
        self._plan = plan
        self._attempted = attempted
        self._attempt = attempt
        self._loop = loop
        self._sends = sends
        self._ids = RowIds(attempted)
        self._stored: set[str] = set()
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._open: dict[tuple[str, MessageQueue | None], Parcel] = {}
        # partitions and batches begin at different queues
        self._turn = attempted.partition + attempted.batch

    @property
    def topics(self) -> frozenset[str]:
        """The topics of the rows so far."""
        return frozenset(self._queues)

    def pack(self, rows: Iterator[Row]) -> list[Parcel]:
        """The parcels that these rows have filled."""
        full: list[Parcel] = []
        try:
            for message, sharding_key in rows:
                self.rows += 1
                queues = self._queues.get(message.topic) or self._meet(message.topic)
                message_id = self._ids.next(message)
                if message_id in self._stored:
                    self.found += 1
                    continue
                queue = None
                if sharding_key is not None:
                    queue = by_key(sharding_key)(queues, message)
                full += self._put(message, message_id, queue)
        except InvalidMessage as error:
            raise InvalidMessage(
                f"row {self.rows + 1} of partition {self._attempted.partition} cannot be sent:"
                f" {error}"
            ) from error
        return full

    def rest(self) -> list[Parcel]:
        """The parcels that are not full."""
        rest, self._open = [*self._open.values()], {}
        return rest

    def _put(self, message: Message, message_id: str, queue: MessageQueue | None) -> list[Parcel]:
        """Put a message into a parcel; return those that are to go now."""
        size = _size(message)
        place = message.topic, queue
        alone = bool(message.delay_level) or not takes_batches(message.topic)
        parcel = self._open.get(place)
        gone: list[Parcel] = []
        if parcel is not None and (alone or parcel.size + size > PARCEL_BYTES):
            gone.append(self._open.pop(place))
            parcel = None
        if parcel is None:
            target = queue if queue is not None else self._next_queue(message.topic)
            parcel = self._open[place] = Parcel(message.topic, target, queue is not None)
        parcel.messages.append(message)
        parcel.ids.append(message_id)
        parcel.size += size
        if alone or len(parcel.ids) >= PARCEL_MESSAGES:
            gone.append(self._open.pop(place))
        return gone

    def _next_queue(self, topic: str) -> MessageQueue:
        queues = self._queues[topic]
        self._turn += 1
        return queues[self._turn % len(queues)]

    def _meet(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues of a topic at its first row; what earlier attempts stored there is noted."""
        tails = [each for each in self._tails(topic) if each.start < each.end]
        if tails:
            prefix = self._attempted.prefix
            self._stored |= self._loop.run(stored_ids(self._plan.address, tails, prefix))
        self._queues[topic] = self._loop.run(self._sends.queues(topic))
        return self._queues[topic]

    def _tails(self, topic: str) -> list[QueueRange]:
        """Where in the topic's queues rows of earlier attempts may stand."""
        plan, record, batch = self._plan, self._plan.record, self._attempted.batch
        begun_ms = None if record is None else record.begun_ms(self._attempted.query, batch)
        if record is not None and begun_ms is not None:
            return self._tails_since(topic, record, begun_ms)
        lows: Offsets = {key: low for key, low in plan.lows.items() if key.topic == topic}
        if not self._attempt:  # what this attempt's tasks write, they write behind `ends`
            return [QueueRange(key, low, plan.ends[key]) for key, low in lows.items()]
        with Network(plan.address) as network:
            bounds = network.bounds(TopicChoice(names=frozenset({topic})), missing_fails=False)
            if unknown := [key for key in bounds if key not in lows]:
                lows |= network.offsets_at(unknown, plan.at_ms - CLOCKS_APART_MS)
        return [
            QueueRange(key, max(each.start, lows[key]), each.end) for key, each in bounds.items()
        ]

    def _tails_since(self, topic: str, record: SinkRecord, begun_ms: int) -> list[QueueRange]:
        """The same of a batch whose number was written before: its checkpoint was put back.

        Or the driver has died before Spark knew that the sink had all of it.
        """
        with Network(self._plan.address) as network:
            bounds = network.bounds(TopicChoice(names=frozenset({topic})), missing_fails=False)
            lows: Offsets = {key: each.start for key, each in bounds.items()}
            if self._attempted.batch == record.batch and bounds.keys() <= record.starts.keys():
                lows = record.starts
            elif begun_ms:
                lows = network.offsets_at(bounds, begun_ms - CLOCKS_APART_MS)
            else:
                log.warning(
                    "micro-batch %d was written longer ago than is known: all of topic %s is"
                    " searched for its rows",
                    self._attempted.batch,
                    topic,
                )
        return [
            QueueRange(key, max(each.start, lows[key]), each.end) for key, each in bounds.items()
        ]


def _size(message: Message) -> int:
    """About how long a message is in a batch."""
    own = sum(len(name) + len(value) for name, value in message.properties.items())
    return OVERHEAD_BYTES + len(message.body) + own
