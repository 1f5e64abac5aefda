"""Which queue each of many records belongs to, and what there was of each queue."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from aerobee.spark.offsets import QueueKey, QueueRange
from aerobee.spark.records import acceleration
from aerobee.spark.records.cells import ragged
from aerobee.spark.records.headers import Ints, Records

Numbers = npt.NDArray[np.int32]
_LOW, _HIGH, _ROWS, _FIRST, _LAST, _NEXT, _BREAKS = range(7)  # the rows of `_seen`
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
    have the number -1, and are not counted.
    """

    def __init__(self, broker: str, wanted: Sequence[QueueRange] | None = None) -> None:
        self._broker = broker
        self._closed = wanted is not None
        self._queues: dict[tuple[bytes, int], int] = {}
        self._topic_numbers: dict[str, int] = {}
        self._topic_of = np.empty(_ROOM, np.int32)
        self._names = np.zeros(_ROOM * _NAME_BYTES, np.uint8)
        self._names_bytes = 0
        self._known = np.zeros((5, _ROOM), np.int64)  # as number_queues has them
        self._seen = np.zeros((len(_NEW), _ROOM), np.int64)
        self._slots = np.full(4 * _ROOM, -1, np.int32)
        for each in wanted or ():
            number = self._add(os.fsencode(each.key.topic), each.key.queue_id)
            self._seen[:, number][[_LOW, _HIGH, _NEXT]] = each.start, each.end, each.start

    @property
    def topics(self) -> list[str]:
        """The topics met, by their numbers."""
        return list(self._topic_numbers)

    @property
    def complete(self) -> bool:
        """Whether each wanted message has been met once, those of a queue in their order."""
        seen = self._seen[:, : len(self._queues)]
        there = seen[_ROWS] == seen[_HIGH] - seen[_LOW]
        return self._closed and bool(there.all()) and not seen[_BREAKS].any()

    def found(self) -> dict[QueueKey, Found]:
        """What was met of each queue, if anything."""
        found: dict[QueueKey, Found] = {}
        for (name, queue_id), number in self._queues.items():
            rows, first, last, breaks = self._seen[[_ROWS, _FIRST, _LAST, _BREAKS], number].tolist()
            if not rows:
                continue
            # names that are no UTF-8 may look alike
            key = QueueKey(self._broker, _decoded(name), queue_id)
            # the first one met may follow none
            met = Found(rows, first, last, breaks <= 1 and rows == last - first + 1)
            found.setdefault(key, Found(0, first, last)).add(met)
        return found

    def topic_numbers(self, records: Records) -> Numbers:
        """The numbers of the records' topics, -1 where a record is not wanted."""
        queues = self._number(records)
        numbers: Numbers = self._topic_of[queues]
        if self._closed and len(queues) and queues.min() < 0:
            numbers[queues < 0] = -1
        return numbers

    def _number(self, records: Records) -> Numbers:
        """The numbers of the records' queues."""
        numbers = np.empty(len(records), np.int32)
        if acceleration.loops is None:
            self._number_slowly(records, numbers)
            return numbers
        row = 0
        while row < len(records):
            row = acceleration.loops.number_queues(
                records.data,
                records.starts,
                records.topic_at,
                records.topic_bytes,
                row,
                self._names,
                self._known,
                len(self._queues),
                self._slots,
                self._seen,
                numbers,
                self._closed,
            )
            if row < 0:
                raise IndexError("a record is not in the block")
            if row < len(records):
                start, size = records.topic_at[row], records.topic_bytes[row]
                name = records.data[start : start + size].tobytes()
                queue_at = records.starts[row] + 12
                queue_id = records.data[queue_at : queue_at + 4].tobytes()
                self._add(name, int.from_bytes(queue_id, "big", signed=True))
        return numbers

    def _number_slowly(self, records: Records, numbers: Numbers) -> None:
        """The same in numpy, which defines it."""
        names = ragged(records.data, records.topic_at, records.topic_bytes).dictionary_encode()
        topics = names.dictionary.to_pylist()
        queue_ids = records.field("queue_id", np.int64)
        offsets = records.field("queue_offset", np.int64)
        both = names.indices.to_numpy().astype(np.int64) << 32 | queue_ids & 0xFFFFFFFF
        _, firsts, which = np.unique(both, return_index=True, return_inverse=True)
        numbers[:] = -1
        for at in np.argsort(firsts).tolist():
            row = int(firsts[at])
            name, queue_id = topics[names.indices[row].as_py()], int(queue_ids[row])
            number = self._queues.get((name, queue_id), -1)
            if number < 0 and not self._closed:
                number = self._add(name, queue_id)
            if number < 0:
                continue
            rows = np.flatnonzero(which == at)
            low, high = self._seen[[_LOW, _HIGH], number]
            rows = rows[(offsets[rows] >= low) & (offsets[rows] < high)]
            numbers[rows] = number
            self._count(number, offsets[rows])

    def _count(self, number: int, offsets: Ints) -> None:
        if not len(offsets):
            return
        seen = self._seen[:, number]
        seen[_ROWS] += len(offsets)
        seen[_FIRST] = min(seen[_FIRST], offsets.min())
        seen[_LAST] = max(seen[_LAST], offsets.max())
        seen[_BREAKS] += np.count_nonzero(offsets != np.append(seen[_NEXT], offsets[:-1] + 1))
        seen[_NEXT] = offsets[-1] + 1

    def _add(self, name: bytes, queue_id: int) -> int:
        number = len(self._queues)
        if number == len(self._topic_of):
            self._grow()
        topic = self._topic_numbers.setdefault(_decoded(name), len(self._topic_numbers))
        at = self._names_bytes
        self._names_bytes += len(name)
        if self._names_bytes > len(self._names):
            self._names = np.resize(self._names, 2 * self._names_bytes)
        self._names[at : self._names_bytes] = np.frombuffer(name, np.uint8)
        self._known[:3, number] = at, len(name), queue_id
        self._topic_of[number] = topic
        self._seen[:, number] = _NEW
        self._queues[name, queue_id] = number
        if acceleration.loops is not None:
            acceleration.loops.place_queue(name, queue_id, number, self._known, self._slots)
        return number

    def _grow(self) -> None:
        room = 2 * len(self._topic_of)
        self._topic_of = np.resize(self._topic_of, room)
        self._known = np.concatenate([self._known, self._known], axis=1)
        self._seen = np.concatenate([self._seen, self._seen], axis=1)
        self._slots = np.full(4 * room, -1, np.int32)
        if acceleration.loops is not None:
            for (name, queue_id), number in self._queues.items():
                acceleration.loops.place_queue(name, queue_id, number, self._known, self._slots)


def _decoded(name: bytes) -> str:
    return name.decode(errors="replace")
