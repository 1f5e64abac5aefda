"""From a store's path to the pieces to read; the driver decides, tasks only obey."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from aerobee.spark.at_rest.blocks import find_record, scan_blocks
from aerobee.spark.at_rest.log_files import Segment, SegmentFile, StorePath
from aerobee.spark.at_rest.queue_hints import next_start
from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.at_rest.times import store_time
from aerobee.spark.errors import DataLost
from aerobee.spark.planning.log_pieces import Piece, cut, piece_bytes
from aerobee.spark.records.selection import Selection

CLOCK_STEP_MS = 600_000  # store timestamps may jump back and forth so far within a file
LAST_BYTES = 16 << 10  # before the log's end, in which a record is looked for at first


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be read: the pieces, and the folder of the queues that help reading them."""

    pieces: list[Piece]
    queues_dir: str | None

    @property
    def bytes(self) -> int:
        """How many bytes of the log the pieces cover."""
        return sum(piece.end - piece.start for piece in self.pieces)


def plan_store(path: str, selection: Selection, partition_bytes: int | None = None) -> Plan:
    """The pieces of the store at `path` that may hold wanted records.

    `partition_bytes` is the aimed-at size of a piece; None fills this machine's cores. Raises
    StoreUnreadable where there is no store, or a file of it is missing.
    """
    folders = StorePath.find(path)
    state = StoreState.look(Store("", folders.log_dir, folders.queues_dir))
    wanted = within_time(state.segments, state.end, selection)
    total = sum(min(segment.end, state.end) - segment.base for segment in wanted)
    target = partition_bytes or piece_bytes(total, os.cpu_count() or 1)
    return Plan(log_pieces(state, wanted, selection, target), folders.queues_dir)


def log_pieces(
    state: StoreState, segments: Sequence[Segment], selection: Selection, target_bytes: int
) -> list[Piece]:
    """Pieces of some of a store's files that may hold wanted records, of about a size."""
    low, high = selection.positions.low or 0, selection.positions.high or state.end
    segments = [each for each in segments if each.base < high and each.end > low]
    pieces = cut(segments, state.end, target_bytes, partial(next_start, state.store.queues_dir))
    return [piece for piece in pieces if piece.start < high and piece.end > low]


def within_time(
    segments: Sequence[Segment],
    end: int,
    selection: Selection,
    *,
    fail_on_data_loss: bool = True,
) -> list[Segment]:
    """The files before log position `end` that may hold records of the selection's time range.

    Judged by the records that they begin with, and the next file, or the log's end: a file is left
    out where both are too old, or both too young, and only before the first or behind the last
    that is wanted. A file that goes away meanwhile raises DataLost, or counts as wanted.
    """
    segments = [segment for segment in segments if segment.base < end]
    since_ms, until_ms = selection.since_ms, selection.until_ms
    if not selection.timed:
        return segments
    times: list[int | None] = []
    for segment in segments:
        times.append(_told(partial(_first_store_time, segment), fail=fail_on_data_loss))
    if segments:
        times.append(_told(partial(_last_store_time, segments[-1], end), fail=fail_on_data_loss))
    kept = []
    for number, (low, high) in enumerate(pairwise(times)):
        if low is not None and high is not None:
            if since_ms is not None and max(low, high) < since_ms - CLOCK_STEP_MS:
                continue
            if until_ms is not None and min(low, high) >= until_ms + CLOCK_STEP_MS:
                continue
        kept.append(number)
    return segments[kept[0] : kept[-1] + 1] if kept else []


def _told(look: Callable[[], int | None], *, fail: bool) -> int | None:
    """What a look at a file tells; None where the file is gone, if that does not fail the read."""
    try:
        return look()
    except DataLost:
        if fail:
            raise
        return None


def _first_store_time(segment: Segment) -> int | None:
    """The store timestamp (ms) of a file's first record, None where there is no record."""
    with SegmentFile(segment) as file:
        return store_time(file, segment.base)


def _last_store_time(segment: Segment, end: int) -> int | None:
    """The store timestamp (ms) of the last record before the log's end at `end`."""
    end = min(segment.end, end)
    size = LAST_BYTES
    with SegmentFile(segment) as file:
        while True:
            low = max(segment.base, end - size)
            start = find_record(file, low, end)
            if start < end:
                starts = next(scan_blocks(file, start, end, block_bytes=size)).starts
                return store_time(file, start + int(starts[-1])) if len(starts) else None
            if low == segment.base:
                return None
            size *= 8
