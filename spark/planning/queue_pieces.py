"""Reads that the ConsumeQueues lead: which entries each task takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.queue_entries import NOWHERE, ConsumeQueueFiles, firsts
from aerobee.spark.at_rest.queue_folders import is_batched
from aerobee.spark.at_rest.queue_ranges import queue_dir
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.lost.planned import NOTHING_PLANNED, Planned
from aerobee.spark.offsets import QueueRange
from aerobee.spark.planning.ranges import messages, shared_out

QUEUES_PER_WINDOW = 64  # with more queues than this, tasks share out the queues, not the log
SAMPLES = 64  # queues whose entries tell how long the records are


@dataclass(frozen=True, slots=True)
class EntryPiece:
    """The messages of some queues' ranges whose records lie in [log_start, log_end)."""

    store: Store
    segments: tuple[LogSegment, ...]
    ranges: tuple[QueueRange, ...]
    log_start: int
    log_end: int
    planned: Planned = NOTHING_PLANNED  # of a stream: what tells that a queue was made anew since

    @property
    def log_dir(self) -> str:
        """The folder of the log's files."""
        return self.store.log_dir

    def is_batched(self, wanted: QueueRange) -> bool:
        """Whether messages of one of the ranges may share a record."""
        return is_batched(queue_dir(self.store, wanted.key))


def plan_ranges(
    store: Store,
    segments: Sequence[LogSegment],
    ranges: Sequence[QueueRange],
    parts: int,
    *,
    along_log: bool = False,
) -> list[EntryPiece]:
    """Up to `parts` pieces, about equally large, that together are the ranges.

    Of these only the messages whose records are in `segments`, files that follow each other.
    Each piece is a stretch of the log; of more than QUEUES_PER_WINDOW ranges it is some of these
    in all of the log, unless `along_log` says that the ranges are most of what is there.
    """
    ranges = [each for each in ranges if each.start < each.end]
    if not ranges or not segments:
        return []
    low, high = segments[0].base, segments[-1].end
    if len(ranges) <= QUEUES_PER_WINDOW:
        cuts = _cuts(store, ranges, parts)
    elif along_log:
        cuts = _even_cuts(store, ranges, parts)
    else:
        groups = shared_out(ranges, parts)
        return [EntryPiece(store, tuple(segments), tuple(group), low, high) for group in groups]
    inner = [cut for cut in cuts if low < cut < high]
    return [
        EntryPiece(store, _between(segments, start, end), tuple(ranges), start, end)
        for start, end in pairwise([low, *inner, high])
    ]


def estimated_bytes(store: Store, ranges: Sequence[QueueRange]) -> int:
    """About how long the ranges' records are together, from a few entries of the largest queues."""
    largest = sorted(ranges, key=lambda each: each.start - each.end)[:SAMPLES]
    read = total = 0
    for each in largest:
        with ConsumeQueueFiles(queue_dir(store, each.key)) as entries:
            rows = entries.read(each.start, min(each.end, each.start + SAMPLES))
            rows = rows[rows["size"] != BLANK_SIZE]
            read += len(rows)
            total += int(rows["size"][firsts(rows["position"])].sum())
    return total * messages(ranges) // read if read else 0


def log_span(store: Store, ranges: Sequence[QueueRange]) -> tuple[int, int]:
    """Log positions that the ranges' records start at: the first, and one behind the last."""
    low, high = NOWHERE, 0
    for each in ranges:
        with ConsumeQueueFiles(queue_dir(store, each.key)) as entries:
            low = min(low, entries.position(each.start))
            last = entries.last_position(each.end - 1)
            high = max(high, last + 1 if last < NOWHERE else 0)
    return low, high


def _cuts(store: Store, ranges: Sequence[QueueRange], parts: int) -> list[int]:
    """Log positions that part the largest queue evenly, and the others about so."""
    largest = max(ranges, key=lambda each: each.end - each.start)
    count = largest.end - largest.start
    with ConsumeQueueFiles(queue_dir(store, largest.key)) as entries:
        found = {
            entries.position(largest.start + count * part // parts) for part in range(1, parts)
        }
    return sorted(position for position in found if 0 < position < NOWHERE)


def _even_cuts(store: Store, ranges: Sequence[QueueRange], parts: int) -> list[int]:
    """Log positions that part the log evenly, each where a message of a large queue stands."""
    largest = sorted(ranges, key=lambda each: each.start - each.end)[:SAMPLES]
    low, high = log_span(store, largest)
    wanted = [low + (high - low) * part // parts for part in range(1, parts)]
    found = dict.fromkeys(wanted, NOWHERE)
    for each in largest:
        with ConsumeQueueFiles(queue_dir(store, each.key)) as entries:
            for position in wanted:
                near = entries.position(entries.first_from(position))
                if near >= position:
                    found[position] = min(found[position], near)
    return sorted(position for position in set(found.values()) if position < NOWHERE)


def _between(segments: Sequence[LogSegment], low: int, high: int) -> tuple[LogSegment, ...]:
    return tuple(each for each in segments if each.end > low and each.base < high)
