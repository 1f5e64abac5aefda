"""The queues of one store by their numbers, and what there was of each, as passes note it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import numpy as np

from aerobee.spark.offsets import QueueRange
from aerobee.spark.records.layout import Ints, Mask, Words

LOW, HIGH, ROWS, FIRST, LAST, NEXT, BREAKS = range(7)  # the rows of `seen`
_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NEW: Final = np.array([_MIN, _MAX, 0, _MAX, _MIN, 0, 0], np.int64)  # all offsets are wanted
_ROOM = 64  # queues at first
_NAME_BYTES = 32  # room for their topics
Place = Callable[[bytes, int, int, Ints, Words], None]
"""Makes a slot lead to the number of a queue: its topic, id and number, `known` and `slots`."""


class QueueTable:
    """Queues in the order in which they are met; `closed` are those of `wanted` ranges alone.

    `known` and `slots` are as `record_loops.number_queues` has them, in whose pass a queue is found
    by them once `place` was called.
    """

    def __init__(self, wanted: Sequence[QueueRange] | None = None) -> None:
        self.closed = wanted is not None
        self.queues: dict[tuple[bytes, int], int] = {}
        self.topic_numbers: dict[str, int] = {}
        self.topic_of = np.empty(_ROOM, np.int32)
        self.names = np.zeros(_ROOM * _NAME_BYTES, np.uint8)
        self._names_bytes = 0
        self.known = np.zeros((5, _ROOM), np.int64)
        self.seen = np.zeros((len(_NEW), _ROOM), np.int64)
        self.slots = np.full(4 * _ROOM, -1, np.int32)
        self._placed = 0
        for each in wanted or ():
            number = self._add(os.fsencode(each.key.topic), each.key.queue_id)
            self.seen[:, number][[LOW, HIGH, NEXT]] = each.start, each.end, each.start

    def place(self, place: Place) -> None:
        """Have slots lead to the queues that none leads to yet."""
        for (name, queue_id), number in islice(self.queues.items(), self._placed, None):
            place(name, queue_id, number, self.known, self.slots)
        self._placed = len(self.queues)

    def number(self, name: bytes, queue_id: int) -> int:
        """The number of a queue, a new one if it is met for the first time; -1 if not wanted."""
        number = self.queues.get((name, queue_id), -1)
        return self._add(name, queue_id) if number < 0 and not self.closed else number

    def wanted(self, number: int, offsets: Ints) -> Mask:
        """Which of a queue's offsets are wanted."""
        low, high = self.seen[[LOW, HIGH], number]
        mask: Mask = (offsets >= low) & (offsets < high)
        return mask

    def count(self, number: int, offsets: Ints) -> None:
        """Count messages of a queue, met in this order."""
        if not len(offsets):
            return
        seen = self.seen[:, number]
        seen[ROWS] += len(offsets)
        seen[FIRST] = min(seen[FIRST], offsets.min())
        seen[LAST] = max(seen[LAST], offsets.max())
        seen[BREAKS] += np.count_nonzero(offsets != np.append(seen[NEXT], offsets[:-1] + 1))
        seen[NEXT] = offsets[-1] + 1

    def _add(self, name: bytes, queue_id: int) -> int:
        number = len(self.queues)
        if number == len(self.topic_of):
            self._grow()
        topic = self.topic_numbers.setdefault(decoded(name), len(self.topic_numbers))
        at = self._names_bytes
        self._names_bytes += len(name)
        if self._names_bytes > len(self.names):
            self.names = np.resize(self.names, 2 * self._names_bytes)
        self.names[at : self._names_bytes] = np.frombuffer(name, np.uint8)
        self.known[:3, number] = at, len(name), queue_id
        self.topic_of[number] = topic
        self.seen[:, number] = _NEW
        self.queues[name, queue_id] = number
        return number

    def _grow(self) -> None:
        room = 2 * len(self.topic_of)
        self.topic_of = np.resize(self.topic_of, room)
        self.known = np.concatenate([self.known, self.known], axis=1)
        self.seen = np.concatenate([self.seen, self.seen], axis=1)
        self.slots = np.full(4 * room, -1, np.int32)
        self._placed = 0


def decoded(name: bytes) -> str:
    """The text of a topic's name; what is no UTF-8 becomes U+FFFD."""
    return name.decode(errors="replace")
