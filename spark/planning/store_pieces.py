"""How one store is read: along its log, or led by its ConsumeQueues, whichever is less to read.

A read of most of a log goes along the log itself, in pieces of its files. The ConsumeQueues
lead where they answer alone, where offsets or queues are named, and where a small share of the
log is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from aerobee.spark.at_rest.dispatched import dispatched_end
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_bounds
from aerobee.spark.at_rest.stores import Store, has_queues
from aerobee.spark.lost.planned import NOTHING_PLANNED, Planned
from aerobee.spark.offsets import BrokerQueue, Marks, QueueRange
from aerobee.spark.planning.asked import Asked
from aerobee.spark.planning.key_pieces import KeyPiece, key_pieces, keyed, uncovered
from aerobee.spark.planning.log_pieces import Piece, log_pieces, piece_bytes, within_time
from aerobee.spark.planning.queue_pieces import (
    EntryPiece,
    estimated_bytes,
    log_span,
    plan_ranges,
)
from aerobee.spark.planning.ranges import messages, task_count
from aerobee.spark.topics import TopicChoice

SMALL_SHARE = 0.25  # of the log; below it, jumping to records beats reading past the others
QUEUES_TAIL_BYTES = 1 << 20  # of the log that is checked where only the queues are read
ENTRIES_PER_TASK = 10_000_000  # where the ConsumeQueues alone are read: 200 MB of them

AnyPiece: TypeAlias = Piece | EntryPiece | KeyPiece
Pieces: TypeAlias = Sequence[AnyPiece]


@dataclass(frozen=True, slots=True)
class StorePiece:
    """What one task reads of one store."""

    piece: AnyPiece
    broker: str

    @property
    def planned(self) -> Planned:
        """Of a stream: what tells that what was planned was made anew since."""
        return self.piece.planned if isinstance(self.piece, EntryPiece) else NOTHING_PLANNED


@dataclass(frozen=True, slots=True)
class StoreFound:
    """A store as a batch has found it; `queues_lead` says whether its queues are looked at.

    What stands in the log from `dispatched` on is read there, whatever the queues say by then;
    None where there are no queues, or where nothing is read but of them.
    """

    state: StoreState
    queues_lead: bool
    dispatched: int | None

    @classmethod
    def look(cls, store: Store, asked: Asked) -> StoreFound:
        """The store at this moment: of its log little is read where the queues answer alone."""
        queues = has_queues(store)
        tail_bytes = QUEUES_TAIL_BYTES if queues and asked.queues_suffice else None
        state = StoreState.look(store, tail_bytes)
        # looked at before the queues, which a broker fills meanwhile
        dispatched = dispatched_end(state) if queues and not asked.by_offset else None
        return cls(state, queues and asked.queues_lead, dispatched)

    def bounds(self, choice: TopicChoice) -> dict[BrokerQueue, QueueRange]:
        """Each wanted queue's messages, as far as they are read by the queues."""
        state = self.state
        if self.dispatched is not None:  # which a damaged entry may put anywhere
            state = replace(state, end=min(state.end, self.dispatched))
        return queue_bounds(state, choice)


def batch_pieces(
    found: StoreFound, ranges: Sequence[QueueRange], asked: Asked, total_bytes: int
) -> list[StorePiece]:
    """What the tasks of a batch read of one store.

    `ranges` are those of its queues, if these lead; `total_bytes` is the length of all logs that
    the batch reads. Raises StoreUnreadable, DataLost.
    """
    state, options = found.state, asked.options
    fail = options.fail_on_data_loss
    segments = within_time(state.segments, state.end, asked.selection, fail_on_data_loss=fail)
    if found.queues_lead:
        size = estimated_bytes(state.store, ranges)
        if asked.led_surely or size <= _log_bytes(state, segments) * SMALL_SHARE:
            led = _led(state, segments, ranges, size, asked)
            parts: Pieces = [*led, *_tail(state, segments, found.dispatched)]
            return _store_pieces(state, _by_keys(found, segments, parts, asked, queues_lead=True))
    cores = os.cpu_count() or 1
    usual = piece_bytes(total_bytes, cores, options.partitions_min)
    pieces = log_pieces(state, segments, asked.selection, options.partition_bytes or usual)
    if found.dispatched is not None:
        known = found.dispatched, state.store.queues_dir
        pieces = [Piece(piece.segment, piece.start, piece.end, *known) for piece in pieces]
    return _store_pieces(state, _by_keys(found, segments, pieces, asked, queues_lead=False))


def micro_batch_pieces(
    state: StoreState, ranges: Sequence[QueueRange], asked: Asked, marks: Marks
) -> list[StorePiece]:
    """What the tasks read that take these ranges of a store's queues and nothing else.

    The ranges lie within the store's confirmed end, and are not none; `marks` tell of the last
    message of each (`lost.planned`). Raises StoreUnreadable.
    """
    low, high = log_span(state.store, ranges)
    segments = [each for each in state.segments if each.base < min(high, state.end)]
    segments = [each for each in segments if each.end > low]
    planned = Planned.of_marks(ranges, marks, segments)
    size = estimated_bytes(state.store, ranges)
    pieces = _led(state, segments, ranges, size, asked)
    return _store_pieces(
        state, [replace(piece, planned=planned.of(piece.ranges)) for piece in pieces]
    )


def _by_keys(
    found: StoreFound,
    segments: Sequence[LogSegment],
    pieces: Pieces,
    asked: Asked,
    *,
    queues_lead: bool,
) -> Pieces:
    """The pieces, or where the index knows of the keys its records and what is left of them."""
    state = found.state
    if asked.selection.keys is None or asked.by_offset or asked.queues_suffice:
        return pieces
    known = keyed(state, asked.selection, found.dispatched)
    if known is None:
        return pieces
    picked = key_pieces(state.store, segments, known, queues_lead=queues_lead)
    return [*picked, *uncovered(pieces, known.covered)]


def _led(
    state: StoreState,
    segments: Sequence[LogSegment],
    ranges: Sequence[QueueRange],
    size: int,
    asked: Asked,
) -> list[EntryPiece]:
    """Pieces of some ranges of queues, whose records are about `size` bytes long."""
    count = messages(ranges)
    if asked.queues_suffice:
        parts = task_count(count, asked.options, ENTRIES_PER_TASK)
    else:  # damaged entries may say anything
        parts = task_count(min(size, _log_bytes(state, segments)), asked.options)
    pieces = plan_ranges(state.store, segments, ranges, max(1, min(parts, count)))
    if asked.queues_suffice:  # the tasks open no file of the log; do not send thousands of names
        return [replace(piece, segments=()) for piece in pieces]
    return pieces


def _tail(state: StoreState, segments: Sequence[LogSegment], low: int | None) -> Iterator[Piece]:
    """What a broker had written to the log from `low` on, but not yet to the queues."""
    for segment in segments if low is not None else ():
        start, end = max(segment.base, low or 0), min(segment.end, state.end)
        if start < end:
            yield Piece(segment, start, end)


def _log_bytes(state: StoreState, segments: Sequence[LogSegment]) -> int:
    return sum(min(each.end, state.end) - each.base for each in segments)


def _store_pieces(state: StoreState, pieces: Pieces) -> list[StorePiece]:
    return [StorePiece(piece, state.store.label) for piece in pieces]
