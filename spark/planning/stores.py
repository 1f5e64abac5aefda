"""From a query's options to what its tasks read: along the log, or led by the ConsumeQueues.

A read of most of a log goes along the log itself, in pieces of its files. The ConsumeQueues
lead where they answer alone, where offsets or queues are named, and where a small share of the
log is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from aerobee.spark.at_rest.dispatched import dispatched_end
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_bounds, resolve_ranges
from aerobee.spark.at_rest.stores import Store, find_stores, has_queues
from aerobee.spark.errors import OptionError
from aerobee.spark.lost.planned import Planned
from aerobee.spark.offsets import EARLIEST, LATEST, Marks, Offsets, QueueRange
from aerobee.spark.options.query import Options
from aerobee.spark.planning.asked_names import check_assigned, check_chosen, check_topics
from aerobee.spark.planning.log_pieces import Piece, piece_bytes
from aerobee.spark.planning.planner import log_pieces, within_time
from aerobee.spark.planning.queue_pieces import (
    EntryPiece,
    estimated_bytes,
    log_span,
    messages,
    plan_ranges,
)
from aerobee.spark.records.selection import EVERYTHING, Selection, queues_suffice

SMALL_SHARE = 0.25  # of the log; below it, jumping to records beats reading past the others
QUEUES_TAIL_BYTES = 1 << 20  # of the log that is checked where only the queues are read
ENTRIES_PER_TASK = 10_000_000  # where the ConsumeQueues alone are read: 200 MB of them


@dataclass(frozen=True, slots=True)
class Share:
    """What one task reads of one store."""

    piece: Piece | EntryPiece
    broker: str
    queues_dir: str | None

    @property
    def planned(self) -> Planned | None:
        """Of a stream: what tells that what was planned was made anew since."""
        return self.piece.planned if isinstance(self.piece, EntryPiece) else None


def plan_read(options: Options, names: Sequence[str], selection: Selection) -> list[Share]:
    """What the tasks of a query for the columns `names` read.

    `selection` is that of the options, narrowed by filters of the query. Raises OptionError,
    StoreUnreadable, DataLost.
    """
    stores = find_stores(options.path)
    brokers = [store.label for store in stores]
    selection = replace(selection, choice=options.choice(brokers))
    starting, ending = options.starting_offsets(brokers), options.ending_offsets(brokers)
    alone = queues_suffice(names, selection, verify_crc=options.verify_crc)
    states = [_looked_at(store, alone=alone) for store in stores]
    check_topics(selection.choice, states, fail=options.fail_on_data_loss)
    planned: list[Share] = []
    total = sum(state.end - state.start for state in states)
    for state in states:
        planner = _StorePlan(state, options, selection, total)
        led = planner.led(names, _of(starting, state.store), _of(ending, state.store))
        pieces = planner.along_the_log() if led is None else led
        planned += [Share(piece, state.store.label, state.store.queues_dir) for piece in pieces]
    return planned


def plan_queues(
    states: Sequence[StoreState],
    options: Options,
    names: Sequence[str],
    ranges: Sequence[QueueRange],
    marks: Marks,
) -> list[Share]:
    """What the tasks read that take these ranges of queues and nothing else.

    The ranges lie within the stores' confirmed ends; `marks` tell of the last message of each
    (`lost.planned`). Raises StoreUnreadable.
    """
    planned: list[Share] = []
    alone = queues_suffice(names, EVERYTHING, verify_crc=options.verify_crc)
    total = sum(state.end - state.start for state in states)
    for state in states:
        store = state.store
        own = [each for each in ranges if each.key.broker == store.label]
        if own:
            low, high = log_span(store, own)
            touched = [each for each in state.segments if each.end > low and each.base < high]
            planner = _StorePlan(replace(state, segments=touched), options, EVERYTHING, total)
            known = Planned.of_marks(own, marks, touched)
            for piece in planner.of_ranges(own, alone=alone):
                told = replace(piece, planned=known.of(piece.ranges))
                planned.append(Share(told, store.label, store.queues_dir))
    return planned


def _looked_at(store: Store, *, alone: bool) -> StoreState:
    """The state of a store: of its log little is read where the queues will answer alone."""
    return StoreState.look(store, QUEUES_TAIL_BYTES if alone and has_queues(store) else None)


class _StorePlan:
    """How one store is read."""

    def __init__(
        self, state: StoreState, options: Options, selection: Selection, total_bytes: int
    ) -> None:
        self._state = state
        self._options = options
        self._selection = selection
        self._total_bytes = total_bytes
        self._segments = within_time(
            state.segments, state.end, selection, fail_on_data_loss=options.fail_on_data_loss
        )

    @cached_property
    def _dispatched(self) -> int:
        """Before which log position all records are in the queues; looked at once."""
        return dispatched_end(self._state)

    def along_the_log(self) -> list[Piece | EntryPiece]:
        """Pieces of the log's files."""
        cores = os.cpu_count() or 1
        target = self._options.partition_bytes or piece_bytes(
            self._total_bytes, cores, self._options.partitions_min
        )
        pieces = log_pieces(self._state, self._segments, self._selection, target)
        dispatched = self._dispatched if has_queues(self._state.store) else 0
        return [replace(piece, dispatched=dispatched) for piece in pieces]

    def led(
        self, names: Sequence[str], starting: Offsets | int, ending: Offsets | int
    ) -> list[Piece | EntryPiece] | None:
        """Pieces that the ConsumeQueues lead; None where the log itself is better read."""
        store, choice = self._state.store, self._selection.choice
        bounded = (starting, ending) != (EARLIEST, LATEST)
        needed = bounded or choice.queues is not None
        if not has_queues(store):
            if needed:
                raise OptionError(
                    "options startingOffsets, endingOffsets and assign need the broker's"
                    f" ConsumeQueues (consumequeue beside {store.log_dir}), and there are none:"
                    " use startingTimestamp, endingTimestamp and subscribe"
                )
            return None
        verify_crc = self._options.verify_crc
        alone = queues_suffice(names, self._selection, verify_crc=verify_crc)
        narrow = choice.limited or self._selection.topics is not None
        hashed = self._selection.tag_hashes is not None
        if not (needed or alone or narrow or hashed):
            return None
        # looked at before the queues, which a broker fills meanwhile: what stands in the log from
        # there on is read there, whatever they say by then
        tail_start = None if needed else self._dispatched
        ranges = self._ranges(starting, ending, tail_start)
        log_bytes = self._log_bytes()
        size = estimated_bytes(store, ranges)
        large = size > log_bytes * SMALL_SHARE
        if large and not (needed or alone or hashed):
            return None
        return [*self.of_ranges(ranges, size, alone=alone), *self._tail(tail_start)]

    def of_ranges(
        self, ranges: Sequence[QueueRange], size: int | None = None, *, alone: bool
    ) -> list[EntryPiece]:
        """Pieces of some ranges of queues, whose records are about `size` bytes long.

        `alone` says that the ConsumeQueues tell all that is asked for.
        """
        store, count = self._state.store, messages(ranges)
        size = estimated_bytes(store, ranges) if size is None else size
        size = min(size, self._log_bytes())  # damaged entries may say anything
        parts = self._parts(count, ENTRIES_PER_TASK) if alone else self._parts(size)
        planned = plan_ranges(store, self._segments, ranges, max(1, min(parts, count)))
        if alone:  # the tasks open none of the log's files; do not send them thousands of names
            return [replace(piece, segments=()) for piece in planned]
        return planned

    def _log_bytes(self) -> int:
        return sum(min(each.end, self._state.end) - each.base for each in self._segments)

    def _ranges(
        self, starting: Offsets | int, ending: Offsets | int, log_end: int | None
    ) -> list[QueueRange]:
        """The ranges to read, of messages before a log position if one is given."""
        state = self._state
        if log_end is not None:  # which a damaged entry may put anywhere
            state = replace(state, end=min(state.end, log_end))
        bounds = queue_bounds(state, self._selection.choice)
        choice, fail = self._selection.choice, self._options.fail_on_data_loss
        check_assigned(choice, state.store, bounds)
        for option, asked in (("startingOffsets", starting), ("endingOffsets", ending)):
            check_chosen(option, asked, choice, bounds, [state.store], fail=fail)
        ranges = resolve_ranges(bounds, starting, ending, fail_on_data_loss=fail)
        return [
            each
            for each in ranges
            if self._selection.wants_topic(each.key.topic)
            and self._selection.queue_ids.has(each.key.queue_id)
        ]

    def _parts(self, size: int, share: int | None = None) -> int:
        """How many tasks read what has a size, of which each gets a share."""
        options = self._options
        share = share or options.partition_bytes or piece_bytes(size, os.cpu_count() or 1)
        return max(1, -(-size // share), options.partitions_min or 1)

    def _tail(self, low: int | None) -> list[Piece]:
        """What a broker had written to the log from `low` on, but not yet to the queues."""
        if low is None:
            return []
        return [
            Piece(segment, max(segment.base, low), min(segment.end, self._state.end))
            for segment in self._segments
            if segment.end > low and max(segment.base, low) < min(segment.end, self._state.end)
        ]


def _of(asked: Offsets | int, store: Store) -> Offsets | int:
    """What is asked of one store's queues."""
    if isinstance(asked, int):
        return asked
    return {key: offset for key, offset in asked.items() if key.broker == store.label}
