"""Queues that are made anew between a micro-batch's plan and its tasks: whose are the entries?

A task reads entries by their numbers, and a topic that was deleted and made again has such, too. So
it is given where in the log the last planned message of each queue stood, and looks there behind
each read: a life that has ended never comes again, and what was read before is of the planned one.
A log in the place of another may have messages at the same places; it is told by the time of one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.spark.at_rest.queue_ranges import queue_dir
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.at_rest.times import store_time
from aerobee.spark.errors import DataLost, StoreUnreadable
from aerobee.spark.lost.marks import Mark
from aerobee.spark.lost.stamps import UNKNOWN
from aerobee.spark.offsets import BrokerQueue, Marks, QueueRange

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Witness:
    """Two messages of a log as they were when it was planned: a file's first, and a later one."""

    segment: LogSegment
    last: Mark
    first_stamp: int

    @classmethod
    def of(cls, segment: LogSegment, last: Mark) -> Witness:
        """The one of which the later message is known."""
        first = _stamp(segment, segment.base)
        return cls(segment, last, UNKNOWN if first is None else first)

    def denies(self) -> bool:
        """Whether a message of another time is in the place of one: the log is another one.

        Where none is, or can be read, the file was deleted by retention, or cut: that says nothing
        of the rest.
        """
        if _stamp(self.segment, self.last.position) not in (None, self.last.stamp):
            return True
        first = _stamp(self.segment, self.segment.base)
        return self.first_stamp != UNKNOWN and first not in (None, self.first_stamp)

    def confirms(self) -> bool:
        """Whether the log certainly is the planned one, though its end may be lost."""
        return self.first_stamp == _stamp(self.segment, self.segment.base) != UNKNOWN


def _stamp(segment: LogSegment, position: int) -> int | None:
    """The store timestamp of the record that is now at a log position, None where none is."""
    try:
        with OpenSegment(segment) as file:
            return store_time(file, position)
    except StoreUnreadable:
        return None


@dataclass(frozen=True, slots=True)
class Planned:
    """The last planned message of each queue of a store: its offset and log position."""

    last: Mapping[BrokerQueue, tuple[int, int]]
    witness: Witness | None

    @classmethod
    def of_marks(
        cls, ranges: Sequence[QueueRange], marks: Marks, segments: Sequence[LogSegment]
    ) -> Planned:
        """From marks at the ends of the ranges; a queue without one is not looked after."""
        last: dict[BrokerQueue, tuple[int, int]] = {}
        farthest = Mark(UNKNOWN, UNKNOWN)
        for each in ranges:
            mark = Mark.of_text(marks.get(each.key, ""))
            if mark is not None and mark.position >= 0:
                last[each.key] = each.end - 1, mark.position
                if mark.stamp != UNKNOWN:
                    farthest = max(farthest, mark)
        at = farthest.position
        held = next((each for each in segments if each.base <= at < each.end), None)
        return cls(last, None if held is None else Witness.of(held, farthest))

    def of(self, ranges: Collection[QueueRange]) -> Planned:
        """What a task has to know that reads these ranges alone."""
        keys = {each.key for each in ranges}
        return replace(self, last={key: at for key, at in self.last.items() if key in keys})

    def lost(self, store: Store, key: BrokerQueue, *, fail: bool) -> int | None:
        """Whether a queue is another one by now; raises DataLost then, or warns.

        Then what stands behind the returned position of the log is not what was planned: a log only
        grows, and a topic's new life is behind its last one. Of a log that may be another one that
        is everything. One that is gone with its folder, or was taken by retention, is no other.
        """
        if key not in self.last:
            return None
        offset, position = self.last[key]
        with ConsumeQueueFiles(queue_dir(store, key)) as entries:
            there = entries.position(offset) if entries.end > entries.first else -1
        if there < 0 or there == position:
            return None
        tell_another(f"queue {key}", f"offset {offset + 1}", fail=fail)
        same_log = self.witness is not None and self.witness.confirms()
        return position if same_log else -1

    def log_lost(self, log_dir: str, *, fail: bool) -> bool:
        """Whether the log is another one by now; likewise."""
        if self.witness is None or not self.witness.denies():
            return False
        tell_another(f"log {log_dir}", f"position {self.witness.last.position}", fail=fail)
        return True


NOTHING_PLANNED: Final = Planned({}, None)  # of a batch, whose plan does not get old


def tell_another(what: str, planned_to: str, *, fail: bool) -> None:
    """Say that what was planned up to there is another one by now: raises DataLost, or warns."""
    text = (
        f"{what}, to be read up to {planned_to}, is another one now: its topic was deleted and made"
        " again after the micro-batch was planned, or its store was, or has lost its end"
    )
    if fail:
        raise DataLost(f"{text} (failOnDataLoss=false goes on with the new one)")
    log.warning("%s; what the first one had left is left out", text)
