"""A task's messages met on a walk along the log: quicker than by the queues, if it is most of it.

The queues say what there is to export; who goes by their entries reads these, sorts what they
point at, and looks at each record to see that it is the right one. Where the queues want most of a
stretch of the log anyway, its records say as much themselves. What a walk meets counts only if it
is, of each queue, each offset once and in order; else nobody relies on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aerobee.spark.entry_plan import EntryPiece, estimated_bytes
from aerobee.spark.layout import Records
from aerobee.spark.offsets import QueueRange
from aerobee.spark.pieces import piece_records
from aerobee.spark.plan import Piece
from aerobee.spark.queue_entries import NOWHERE, QueueEntries
from aerobee.spark.queue_ranges import queue_dir
from aerobee.spark.selection import EVERYTHING

WANTED_LEAST = 0.5  # of the bytes between the first and the last message


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


def find_walk(piece: EntryPiece) -> Walk | None:
    """The walk that meets a piece's messages, None where too many others are on the way."""
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
    if not ranges or estimated_bytes(piece.store, ranges) < WANTED_LEAST * (high - low):
        return None
    stretches = (
        Piece(segment, max(low, segment.base), min(high, segment.end)) for segment in piece.segments
    )
    store = piece.store
    wanted = tuple(each for each in stretches if each.start < each.end)
    return Walk(wanted, tuple(ranges), store.queues_dir) if low >= 0 else None
