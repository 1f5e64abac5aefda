"""What there is to export of each queue of one store: from where the lake has come, to its end."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from aerobee.spark.at_rest.queue_entries import NOWHERE, ConsumeQueueFiles
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_dirs
from aerobee.spark.at_rest.times import position_of
from aerobee.spark.exports.lost import deleted_gaps
from aerobee.spark.lake.manifest import Gap, Manifest
from aerobee.spark.lost.reasons import OLDER, RETENTION, REWRITTEN
from aerobee.spark.lost.stamps import ELSEWHERE, UNKNOWN, LogStamps
from aerobee.spark.offsets import BrokerQueue, Offsets, QueueRange
from aerobee.spark.records.selection import Selection

log = logging.getLogger(__name__)


@dataclass(slots=True)
class QueuesFound:
    """What there is of a store's queues, and how far the lake will have come with it.

    The first and the last message of the ranges stand at the log positions `low` and `high`.
    `deleted` are queues that the lake knows and the store has no more. `complete` says that every
    queue that the lake knows of the store is read to its end.
    """

    low: int
    high: int
    ranges: list[QueueRange] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    offsets: Offsets = field(default_factory=dict)
    positions: Offsets = field(default_factory=dict)
    stamps: Offsets = field(default_factory=dict)
    deleted: frozenset[BrokerQueue] = frozenset()
    complete: bool = False


class QueuesLook:
    """The queues of one store, looked at one after the other, after what `base` has of them."""

    def __init__(self, state: StoreState, selection: Selection, base: Manifest | None) -> None:
        self._state = state
        self._choice = selection.choice
        self._base = base
        since_ms, until_ms = selection.since_ms, selection.until_ms
        self._low = state.start if since_ms is None else position_of(state, since_ms)
        self._high = state.end if until_ms is None else position_of(state, until_ms)
        self._log = LogStamps(state)
        self._same_to: int | None = None
        self._found = QueuesFound(state.end, state.start)

    def look(self) -> QueuesFound:
        """What there is of each."""
        found = self._found
        try:
            for key, folder in queue_dirs(self._state.store, self._choice):
                with ConsumeQueueFiles(folder) as entries:
                    if entries.end == entries.first and self._known(key):
                        continue  # an empty folder is no queue any more
                    wanted = self._range(key, entries)
                    found.offsets[key] = wanted.end
                    if wanted.start < wanted.end:
                        found.ranges.append(wanted)
                        first = entries.position(wanted.start)
                        last = self._note(key, entries, wanted.end)
                        found.low, found.high = min(found.low, first), max(found.high, last)
                    elif wanted.end > entries.first and not self._known(key):
                        self._note(key, entries, wanted.end)  # by which it is known again
            self._look_for_deleted(found)
            self._forget_unseen(found)
        finally:
            self._log.close()
        return found

    def _look_for_deleted(self, found: QueuesFound) -> None:
        """Note queues that the lake knows and that are not there; what it lacks becomes gaps."""
        base, label = self._base, self._state.store.label
        known = [key for key in base.offsets if key.broker == label] if base else []
        wanted = [key for key in known if self._choice.wants_queue(key)]
        found.complete = self._high >= self._state.end and len(wanted) == len(known)
        gone = [key for key in wanted if key not in found.offsets]
        if base is not None and gone:
            found.deleted = frozenset(gone)
            untold = [key for key in gone if key not in base.deleted]
            if untold:
                same_to = self._same_up_to(base)
                found.gaps += deleted_gaps(self._state, base, untold, same_to)

    def _forget_unseen(self, found: QueuesFound) -> None:
        """Note of queues that were not looked at that their last message is not in this log.

        What is exported of it now would else vouch for them, once it is farther than they are.
        """
        base = self._base
        for key, position in base.positions.items() if base is not None else ():
            unseen = key.broker == self._state.store.label and key not in found.offsets
            if base is None or not unseen or base.stamps.get(key, UNKNOWN) == UNKNOWN:
                continue
            if position > self._same_up_to(base):
                found.positions[key] = ELSEWHERE

    def _known(self, key: BrokerQueue) -> bool:
        return self._base is not None and key in self._base.offsets

    def _note(self, key: BrokerQueue, entries: ConsumeQueueFiles, end: int) -> int:
        """Note where the message before an offset stands, and of when it is; return the former."""
        position = entries.position(end - 1)
        self._found.positions[key] = position if 0 <= position < NOWHERE else UNKNOWN
        self._found.stamps[key] = self._log.at(position)
        return entries.last_position(end - 1)

    def _range(self, key: BrokerQueue, entries: ConsumeQueueFiles) -> QueueRange:
        """What there is to export of a queue; what is gone goes into the gaps."""
        earliest = entries.first_from(self._state.start)
        latest = max(earliest, entries.first_from(self._state.end))
        end = latest
        if self._high < self._state.end:
            end = max(earliest, entries.first_from(self._high))
        known = self._base.offsets.get(key) if self._base else None
        if self._base is None or known is None:
            start = earliest
            if self._low > self._state.start:
                start = max(earliest, entries.first_from(self._low))
            return QueueRange(key, start, max(start, end))
        if known < earliest:
            self._found.gaps.append(Gap(QueueRange(key, known, earliest), RETENTION))
            return QueueRange(key, earliest, max(earliest, end))
        rewritten = known > earliest and self._rewritten(key, self._base, entries, known)
        if known > latest or rewritten:
            skipped = self._left_out(key, self._base, entries, earliest, latest)
            lost = skipped.start < skipped.end
            if lost or key not in self._base.deleted:  # which has been told
                self._found.gaps.append(Gap(skipped, OLDER if lost else REWRITTEN))
            self._note(key, entries, skipped.end)
            return QueueRange(key, skipped.end, max(skipped.end, end))
        return QueueRange(key, known, max(known, end))

    def _rewritten(
        self, key: BrokerQueue, base: Manifest, entries: ConsumeQueueFiles, known: int
    ) -> bool:
        """Whether the last message exported is not the one that the queue has there."""
        position, there = base.positions.get(key, UNKNOWN), entries.position(known - 1)
        stamp = base.stamps.get(key, UNKNOWN)
        if position < 0:
            return False
        if position == ELSEWHERE:
            return self._log.at(there) != stamp
        if there < 0:  # lost since, if what follows it follows it still
            return entries.first_from(position) < known
        if there != position:
            return True
        found = UNKNOWN
        if stamp != UNKNOWN and position > self._same_up_to(base):
            found = self._log.at(position)
        return found not in (UNKNOWN, stamp)

    def _same_up_to(self, base: Manifest) -> int:
        """How far the log certainly is the one that was exported; mostly a look at one record."""
        if self._same_to is None:
            label = self._state.store.label
            there = [(key, at) for key, at in base.positions.items() if key.broker == label]
            self._same_to = self._log.verified(there, base.stamps)
        return self._same_to

    def _left_out(
        self,
        key: BrokerQueue,
        base: Manifest,
        entries: ConsumeQueueFiles,
        earliest: int,
        latest: int,
    ) -> QueueRange:
        """Of a queue with other messages than before, those to pass over: new ones follow.

        New is what stands behind the last exported message, or was stored later. What is older
        is in the lake if the log is the same at all, else perhaps not.
        """
        position, stamp = (each.get(key, UNKNOWN) for each in (base.positions, base.stamps))
        same, behind = self._same_up_to(base), position + 1
        if stamp != UNKNOWN and same < position:
            behind = min(behind, position_of(self._state, stamp + 1))
        start = min(max(earliest, entries.first_from(behind)), latest)
        return QueueRange(key, earliest if same < 0 else start, start)
