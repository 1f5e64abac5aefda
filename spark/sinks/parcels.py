"""Rows as parcels: messages of one topic that travel together, those left out that are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aerobee.client.errors import InvalidMessage
from aerobee.client.message import Message, MessageQueue
from aerobee.client.sending.selectors import by_key
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX
from aerobee.spark.sinks.row_ids import Attempted, RowIds
from aerobee.spark.sinks.rows import RowMessage

PARCEL_BYTES: Final = 256 << 10
PARCEL_MESSAGES: Final = 1000
OVERHEAD_BYTES: Final = 200  # of a message in a batch: its head, its id, some properties
_SINGLE: Final = (RETRY_PREFIX, DLQ_PREFIX)  # topics to which brokers take no batches


@dataclass(slots=True)
class Parcel:
    """Messages of one topic that travel together, with their ids.

    `queue` is where they must go, or where they go at first: `bound` says which.
    """

    topic: str
    queue: MessageQueue
    bound: bool
    messages: list[Message] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    size: int = 0

    def leave_out(self, stored: set[str]) -> int:
        """Take the messages out whose ids are among those; return how many that were."""
        left = [at for at, each in enumerate(self.ids) if each not in stored]
        count = len(self.ids) - len(left)
        self.messages = [self.messages[at] for at in left]
        self.ids = [self.ids[at] for at in left]
        return count


class TopicMet(NamedTuple):
    """What there is of a topic: its queues to write to, and ids of rows that are stored already."""

    queues: tuple[MessageQueue, ...]
    stored: set[str]


class Packing:
    """Rows to parcels; a parcel is given out when it is full.

    `meet` tells of a topic at its first row. `rows` are counted, and those `found` stored.
    """

    def __init__(self, attempted: Attempted, meet: Callable[[str], TopicMet]) -> None:
        self.rows = self.found = 0
        self._partition = attempted.partition
        self._meet = meet
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

    def pack(self, rows: Iterator[RowMessage]) -> list[Parcel]:
        """The parcels that these rows have filled."""
        full: list[Parcel] = []
        try:
            for message, sharding_key in rows:
                self.rows += 1
                queues = self._queues.get(message.topic) or self._met(message.topic)
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
                f"row {self.rows + 1} of partition {self._partition} cannot be sent: {error}"
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

    def _met(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues of a topic at its first row."""
        met = self._meet(topic)
        self._stored |= met.stored
        self._queues[topic] = met.queues
        return met.queues


def takes_batches(topic: str) -> bool:
    """Whether brokers take several messages for a topic in one request."""
    return not topic.startswith(_SINGLE)


def _size(message: Message) -> int:
    """About how long a message is in a batch."""
    own = sum(len(name) + len(value) for name, value in message.properties.items())
    return OVERHEAD_BYTES + len(message.body) + own
