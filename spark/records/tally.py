"""Which queue each of many records belongs to, and what there was of each queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.records import loops
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import Words
from aerobee.spark.records.queue_table import (
    BREAKS,
    FIRST,
    HIGH,
    LAST,
    LOW,
    ROWS,
    QueueTable,
    decoded,
)


@dataclass(slots=True)
class Found:
    """How many messages of a queue there were, and from which to which offset.

    `ordered` says whether these were each of the offsets between, one after the other.
    """

    rows: int
    first: int
    last: int
    ordered: bool = field(default=True, compare=False)

    def add(self, other: Found) -> None:
        """Count others of the same queue too."""
        self.rows += other.rows
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.ordered = self.ordered and other.ordered


class QueueTally:
    """Numbers the queues of one store in the order in which they are met.

    With `wanted`, ranges of different queues, only these are: records of other queues and offsets
    have the number -1, and are not counted. `loops.py` has what numbers and counts them here.
    """

    def __init__(self, broker: str, wanted: Sequence[QueueRange] | None = None) -> None:
        self._broker = broker
        self._table = QueueTable(wanted)

    @property
    def topics(self) -> list[str]:
        """The topics met, by their numbers."""
        return list(self._table.topic_numbers)

    @property
    def complete(self) -> bool:
        """Whether each wanted message has been met once, those of a queue in their order."""
        seen = self._table.seen[:, : len(self._table.queues)]
        there = seen[ROWS] == seen[HIGH] - seen[LOW]
        return self._table.closed and bool(there.all()) and not seen[BREAKS].any()

    def found(self) -> dict[BrokerQueue, Found]:
        """What was met of each queue, if anything."""
        found: dict[BrokerQueue, Found] = {}
        seen = self._table.seen
        for (name, queue_id), number in self._table.queues.items():
            rows, first, last, breaks = seen[[ROWS, FIRST, LAST, BREAKS], number].tolist()
            if not rows:
                continue
            # names that are no UTF-8 may look alike
            key = BrokerQueue(self._broker, decoded(name), queue_id)
            # the first one met may follow none
            met = Found(rows, first, last, breaks <= 1 and rows == last - first + 1)
            found.setdefault(key, Found(0, first, last)).add(met)
        return found

    def topic_numbers(self, records: Records) -> Words:
        """The numbers of the records' topics, -1 where a record is not wanted."""
        queues = loops.chosen.number_queues(records, self._table)
        numbers: Words = self._table.topic_of[queues]
        if self._table.closed and len(queues) and queues.min() < 0:
            numbers[queues < 0] = -1
        return numbers
