"""Which queue each of many records belongs to, and what there was of each queue."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aerobee.spark.offsets import QueueKey, QueueRange
from aerobee.spark.records import loops
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import Ints, Mask, Words

_LOW, _HIGH, _ROWS, _FIRST, _LAST, _NEXT, _BREAKS = range(7)  # the rows of `seen`
_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NEW: Final = np.array([_MIN, _MAX, 0, _MAX, _MIN, 0, 0], np.int64)  # all offsets are wanted
_ROOM = 64  # queues at first
_NAME_BYTES = 32  # room for their topics


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
        self.closed = wanted is not None
        self.queues: dict[tuple[bytes, int], int] = {}
        self._topic_numbers: dict[str, int] = {}
        self._topic_of = np.empty(_ROOM, np.int32)
        self.names = np.zeros(_ROOM * _NAME_BYTES, np.uint8)
        self._names_bytes = 0
        self.known = np.zeros((5, _ROOM), np.int64)  # as `record_loops.number_queues` has them
        self.seen = np.zeros((len(_NEW), _ROOM), np.int64)
        self.slots = np.full(4 * _ROOM, -1, np.int32)
        for each in wanted or ():
            number = self._add(os.fsencode(each.key.topic), each.key.queue_id)
            self.seen[:, number][[_LOW, _HIGH, _NEXT]] = each.start, each.end, each.start

    @property
    def topics(self) -> list[str]:
        """The topics met, by their numbers."""
        return list(self._topic_numbers)

    @property
    def complete(self) -> bool:
        """Whether each wanted message has been met once, those of a queue in their order."""
        seen = self.seen[:, : len(self.queues)]
        there = seen[_ROWS] == seen[_HIGH] - seen[_LOW]
        return self.closed and bool(there.all()) and not seen[_BREAKS].any()

    def found(self) -> dict[QueueKey, Found]:
        """What was met of each queue, if anything."""
        found: dict[QueueKey, Found] = {}
        for (name, queue_id), number in self.queues.items():
            rows, first, last, breaks = self.seen[[_ROWS, _FIRST, _LAST, _BREAKS], number].tolist()
            if not rows:
                continue
            # names that are no UTF-8 may look alike
            key = QueueKey(self._broker, _decoded(name), queue_id)
            # the first one met may follow none
            met = Found(rows, first, last, breaks <= 1 and rows == last - first + 1)
            found.setdefault(key, Found(0, first, last)).add(met)
        return found

    def topic_numbers(self, records: Records) -> Words:
        """The numbers of the records' topics, -1 where a record is not wanted."""
        queues = loops.chosen.number_queues(records, self)
        numbers: Words = self._topic_of[queues]
        if self.closed and len(queues) and queues.min() < 0:
            numbers[queues < 0] = -1
        return numbers

    def number(self, name: bytes, queue_id: int) -> int:
        """The number of a queue, a new one if it is met for the first time; -1 if not wanted."""
        number = self.queues.get((name, queue_id), -1)
        return self._add(name, queue_id) if number < 0 and not self.closed else number

    def wanted(self, number: int, offsets: Ints) -> Mask:
        """Which of a queue's offsets are wanted."""
        low, high = self.seen[[_LOW, _HIGH], number]
        mask: Mask = (offsets >= low) & (offsets < high)
        return mask

    def count(self, number: int, offsets: Ints) -> None:
        """Count messages of a queue, met in this order."""
        if not len(offsets):
            return
        seen = self.seen[:, number]
        seen[_ROWS] += len(offsets)
        seen[_FIRST] = min(seen[_FIRST], offsets.min())
        seen[_LAST] = max(seen[_LAST], offsets.max())
        seen[_BREAKS] += np.count_nonzero(offsets != np.append(seen[_NEXT], offsets[:-1] + 1))
        seen[_NEXT] = offsets[-1] + 1

    def _add(self, name: bytes, queue_id: int) -> int:
        number = len(self.queues)
        if number == len(self._topic_of):
            self._grow()
        topic = self._topic_numbers.setdefault(_decoded(name), len(self._topic_numbers))
        at = self._names_bytes
        self._names_bytes += len(name)
        if self._names_bytes > len(self.names):
            self.names = np.resize(self.names, 2 * self._names_bytes)
        self.names[at : self._names_bytes] = np.frombuffer(name, np.uint8)
        self.known[:3, number] = at, len(name), queue_id
        self._topic_of[number] = topic
        self.seen[:, number] = _NEW
        self.queues[name, queue_id] = number
        loops.chosen.place_queue(self, name, queue_id, number)
        return number

    def _grow(self) -> None:
        room = 2 * len(self._topic_of)
        self._topic_of = np.resize(self._topic_of, room)
        self.known = np.concatenate([self.known, self.known], axis=1)
        self.seen = np.concatenate([self.seen, self.seen], axis=1)
        self.slots = np.full(4 * room, -1, np.int32)
        for (name, queue_id), number in self.queues.items():
            loops.chosen.place_queue(self, name, queue_id, number)


def _decoded(name: bytes) -> str:
    return name.decode(errors="replace")
