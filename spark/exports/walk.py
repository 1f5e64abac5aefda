"""A task's messages met on a walk along the log: quicker than by the queues, if it is most of it.

The queues say what there is to export; who goes by their entries reads these, sorts what they
point at, and looks at each record to see that it is the right one. Where the queues want most of a
stretch of the log anyway, its records say as much themselves. What a walk meets counts only if it
is, of each queue, each offset once and in order; else nobody relies on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aerobee.spark.at_rest.queue_entries import NOWHERE, QueueEntries
from aerobee.spark.at_rest.queue_ranges import queue_dir
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.offsets import QueueRange
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.planning.queue_pieces import EntryPiece, estimated_bytes, log_span
from aerobee.spark.reading.pieces import piece_records
from aerobee.spark.records.headers import Records
from aerobee.spark.records.selection import EVERYTHING

WANTED_LEAST = 0.5  # of the bytes between the first and the last message
QUEUES_MAX = 2048  # of one walk: each task looks at all of them first, at 0.1 ms each


@dataclass(frozen=True, slots=True)
class Walk:
    """The stretches of the log that hold the ranges' messages, and others."""

    stretches: tuple[Piece, ...]
    ranges: tuple[QueueRange, ...]
    queues_dir: str | None

    def records(self) -> Iterator[Records]:
        """All records on the way, in chunks, each valid until the next is asked for.

        Raises CorruptRecord, DataLost, StoreUnreadable.
        """
        for stretch in self.stretches:
            yield from piece_records(stretch, self.queues_dir, EVERYTHING)


def is_worthwhile(store: Store, ranges: Sequence[QueueRange]) -> bool:
    """Whether the ranges, none of them empty, are most of what is between their ends in the log."""
    if not 0 < len(ranges) <= QUEUES_MAX:
        return False
    low, high = log_span(store, ranges)
    return estimated_bytes(store, ranges) >= WANTED_LEAST * (high - low)


def find_walk(piece: EntryPiece) -> Walk | None:
    """The walk that meets a piece's messages, None where too many others are on the way."""
    if len(piece.ranges) > QUEUES_MAX:
        return None
    ranges = []
    low, high = NOWHERE, 0
    for each in piece.ranges:
        with QueueEntries(queue_dir(piece.store, each.key)) as entries:
            first, end = entries.bounds(piece.log_start, piece.log_end)
            first, end = max(first, each.start), min(end, each.end)
            if first >= end:
                continue
            last = entries.read(end - 1, end)
            if not len(last):
                return None
            low = min(low, entries.position(first))
            high = max(high, int(last["position"][0]) + int(last["size"][0]))
            ranges.append(QueueRange(each.key, first, end))
    if not ranges or low < 0:
        return None
    if estimated_bytes(piece.store, ranges) < WANTED_LEAST * (high - low):
        return None
    stretches = (
        Piece(segment, max(low, segment.base), min(high, segment.end)) for segment in piece.segments
    )
    wanted = tuple(each for each in stretches if each.start < each.end)
    return Walk(wanted, tuple(ranges), piece.store.queues_dir)
