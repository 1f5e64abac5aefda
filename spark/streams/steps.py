"""From the offsets that a stream has come to to those that its next micro-batch ends with.

One rule makes restarts exact: a micro-batch reads only queues that both of its offsets name.
Where a query starts, and where it starts a queue that turns up later, is therefore written down
by one micro-batch before another reads from there, and a repeated one reads what it read before.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from aerobee.spark.at_rest.queue_ranges import report_lost
from aerobee.spark.errors import DataLost
from aerobee.spark.feeds.feed import Missing
from aerobee.spark.offsets import LATEST, BrokerQueue, Offsets, QueueRange
from aerobee.spark.planning.ranges import Bounds, resolve_ranges
from aerobee.spark.records.layout import Ints
from aerobee.spark.streams.limits import Counts, Sizes, Turns, share_bytes, share_messages

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """How much one micro-batch may read; None is no limit."""

    messages: int | None = None
    bytes: int | None = None


NOTHING_MISSING = Missing()
NO_OFFSETS: Mapping[BrokerQueue, int] = MappingProxyType({})


class Steps:
    """Goes from offsets to the next ones, under limits that all queues share."""

    def __init__(self, *, fail_on_data_loss: bool) -> None:
        self._fail = fail_on_data_loss
        self._turns = Turns()
        self._told: frozenset[BrokerQueue] = frozenset()

    def first(self, bounds: Bounds, starting: Mapping[BrokerQueue, int] | int) -> Offsets:
        """Where a new query starts. Raises DataLost, or warns, where that is gone."""
        ranges = resolve_ranges(bounds, starting, LATEST, fail_on_data_loss=self._fail)
        starts = {each.key: each.start for each in ranges}
        return {key: starts.get(key, there.end) for key, there in bounds.items()}

    def next(
        self,
        start: Offsets,
        bounds: Bounds,
        missing: Missing,
        limits: TriggerLimits,
        sizes: Sizes,
        changed: Mapping[BrokerQueue, int] = NO_OFFSETS,
    ) -> Offsets:
        """The offsets that the micro-batch from `start` on ends with.

        `sizes` tells the sizes of a queue's records from an offset on, up to a number of them.
        `changed` are queues that are other ones by now, and where to go on in each. Raises DataLost
        where messages are gone.
        """
        self._tell_missing(start, missing)
        self._tell_changed(start, changed)
        end = {key: offset for key, offset in start.items() if key not in missing.deleted}
        lost: list[QueueRange] = []
        waiting: Counts = {}
        for key, there in bounds.items():
            if key not in start:
                end[key] = there.start
                continue
            offset = start[key]
            if key in changed:
                # back to where nothing has been read: written down first, and read from there later
                end[key] = min(changed[key], offset)
                continue
            if offset > there.end:  # made anew, or cut by a machine that lost power
                lost.append(QueueRange(key, there.end, offset))
                end[key] = there.end
                continue
            if offset < there.start:  # overtaken by the broker's retention
                lost.append(QueueRange(key, offset, there.start))
                end[key] = there.start
            if there.end > end[key]:
                waiting[key] = there.end - end[key]
        report_lost(lost, fail=self._fail)

        def waiting_sizes(key: BrokerQueue, skip: int, count: int) -> Ints:
            return sizes(key, end[key] + skip, count)

        for key, count in self._taken(waiting, limits, waiting_sizes).items():
            end[key] += count
        return end

    def ranges(
        self,
        start: Offsets,
        end: Offsets,
        bounds: Bounds,
        missing: Missing = NOTHING_MISSING,
        changed: Collection[BrokerQueue] = (),
    ) -> list[QueueRange]:
        """What the micro-batch from `start` to `end` reads. Raises DataLost, or warns.

        Queues that are away are left to the tasks, which wait for them. `changed` are queues that
        are other ones by now: what was planned of them is lost.
        """
        moved = [key for key in start.keys() & end.keys() if start[key] < end[key]]
        self._tell_changed(start, set(changed) & set(moved))
        moved = [key for key in moved if key not in changed]
        away = {key: QueueRange(key, start[key], end[key]) for key in missing.away & set(moved)}
        return resolve_ranges(
            {key: bounds[key] for key in moved if key in bounds} | away,
            {key: start[key] for key in moved},
            {key: end[key] for key in moved},
            fail_on_data_loss=self._fail,
        )

    def _taken(self, waiting: Counts, limits: TriggerLimits, sizes: Sizes) -> Counts:
        if not waiting or (limits.messages is None and limits.bytes is None):
            return waiting
        order = self._turns.order(waiting)
        taken = waiting
        if limits.messages is not None:
            taken = share_messages(waiting, order, limits.messages)
        if limits.bytes is not None:
            served = [key for key in order if key in taken]
            taken = share_bytes(taken, served, limits.bytes, sizes)
        self._turns.took(order, taken)
        return taken

    def _tell_changed(self, start: Offsets, changed: Collection[BrokerQueue]) -> None:
        if not changed:
            return
        first = min(changed)
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        text = (
            f"queue {first}{more}, read up to offset {start[first]}, is another one now: its topic"
            " was deleted and made again, or its store was, and what came to the first one"
            " meanwhile cannot be read"
        )
        if self._fail:
            raise DataLost(f"{text} (failOnDataLoss=false goes on with the new one)")
        log.warning("%s; going on with the new one", text)

    def _tell_missing(self, start: Offsets, missing: Missing) -> None:
        gone = (missing.deleted | missing.lost) & start.keys()
        if gone and self._fail:
            first = min(gone)
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            raise DataLost(
                f"queue {first}{more}, read up to offset {start[first]}, is not there any more: its"
                " topic was deleted, or its store is gone from option path; messages that came"
                " meanwhile cannot be read (failOnDataLoss=false goes on without)"
            )
        absent = (gone | missing.away) & start.keys()
        for key in sorted(absent - self._told):
            log.warning("queue %s is not there; read up to offset %d", key, start[key])
        self._told = absent
