"""Topics that are made anew between a micro-batch's plan and its tasks, read over the network.

As with stores (`planned.py`): a task pulls offsets, and a topic that was deleted and made again has
such, too. But no record of the planned queue stands behind its last planned one in the log, nor was
it stored later; so only where a record is one of these is that last one looked at once more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aerobee.remoting.message.message_id import KEPT_BESIDE
from aerobee.spark.lost.marks import Mark
from aerobee.spark.lost.planned import tell_another
from aerobee.spark.offsets import BrokerQueue, Marks, QueueRange
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import Ints

Look = Callable[[BrokerQueue, int], tuple[int, int] | None]
"""Log position and store timestamp of the message at an offset, None where none is."""

_NO_END = -1, Mark((1 << 63) - 1, (1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class PlannedEnds:
    """The last planned message of each queue: its offset, and the mark that it had."""

    last: Mapping[BrokerQueue, tuple[int, Mark]] = field(default_factory=dict)

    @classmethod
    def of_marks(cls, ranges: Sequence[QueueRange], marks: Marks) -> PlannedEnds:
        """From marks at the ends of the ranges; a queue without one is not looked after."""
        found = ((each, Mark.of_text(marks.get(each.key, ""))) for each in ranges)
        return cls({each.key: (each.end - 1, mark) for each, mark in found if mark is not None})

    def of(self, ranges: Collection[QueueRange]) -> PlannedEnds:
        """What a task has to know that reads these ranges alone."""
        keys = {each.key for each in ranges}
        return PlannedEnds({key: at for key, at in self.last.items() if key in keys})


class EndsWatch:
    """Holds what one task reads against the planned ends; each queue is told once.

    `look` asks the broker, behind what was read: a life that has ended never comes again.
    """

    def __init__(self, planned: PlannedEnds, look: Look, *, fail: bool) -> None:
        self._last = planned.last
        self._look = look
        self._fail = fail
        self._others: set[BrokerQueue] = set()

    def own(self, keys: Sequence[BrokerQueue], bounds: Ints, records: Records) -> Records:
        """The records without those that are not of the queues which were planned.

        Those of `keys[n]` are `records[bounds[n]:bounds[n + 1]]`. Raises DataLost, or warns.
        """
        if not self._last or not len(records):
            return records
        counts = np.diff(bounds)
        ends = [(at, *mark) for at, mark in (self._last.get(key, _NO_END) for key in keys)]
        last, position, stamp = np.repeat(np.array(ends, np.int64), counts, axis=0).T
        positions = records.field("position", np.int64)
        stamps = records.field("store_timestamp", np.int64)
        placed = np.maximum(positions, position) < KEPT_BESIDE  # in the log, both
        strange = (placed & (positions > position)) | (stamps > stamp)
        at_end = records.field("queue_offset", np.int64) == last
        strange |= at_end & ((placed & (positions != position)) | (stamps != stamp))
        if not strange.any():
            return records
        owners = np.repeat(np.arange(len(keys)), counts)
        for key in sorted({keys[at] for at in np.unique(owners[strange]).tolist()} - self._others):
            at, mark = self._last[key]
            there = self._look(key, at)
            if there is None or not Mark(*there).is_of(mark):  # else the clock was set back
                tell_another(f"queue {key}", f"offset {at + 1}", fail=self._fail)
                self._others.add(key)
        strange &= np.array([key in self._others for key in keys])[owners]
        return records.only(np.flatnonzero(~strange)) if strange.any() else records
