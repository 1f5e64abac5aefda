"""How a log is cut into the pieces that Spark's tasks read, without the files of other times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from aerobee.spark.at_rest.blocks import scan_blocks
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.at_rest.queue_hints import next_start
from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.at_rest.times import store_time
from aerobee.spark.errors import DataLost
from aerobee.spark.records.selection import Selection

PIECE_BYTES_MIN = 32 << 20  # a task costs about 50 ms of CPU, the reading of some 50 MB
PIECE_BYTES_MAX = 1 << 30  # a broker's file: of a large log no file is cut
TASKS_PER_CORE = 2  # so that one slow task does not keep all others waiting
CLOCK_STEP_MS = 600_000  # store timestamps may jump back and forth so far within a file
LAST_BYTES = 16 << 10  # before the log's end, in which a record is looked for at first


@dataclass(frozen=True, slots=True)
class Piece:
    """The records of one file in the log positions [start, end), both record boundaries.

    `end` may be the file's end, with unused bytes before it. Records before the log position
    `dispatched` count only if their topic has queues, in the folder `queues_dir`.
    """

    segment: LogSegment
    start: int
    end: int
    dispatched: int = 0
    queues_dir: str | None = None

    @property
    def log_dir(self) -> str:
        """The folder of the log's files."""
        return str(Path(self.segment.path).parent)


def piece_bytes(total_bytes: int, cores: int, partitions_min: int | None = None) -> int:
    """How large pieces should be: some for each core, and none too small to pay for a task.

    `partitions_min` pieces there should be at least, however small.
    """
    target = -(-total_bytes // (max(cores, 1) * TASKS_PER_CORE))
    target = min(max(target, PIECE_BYTES_MIN), PIECE_BYTES_MAX)
    return max(1, min(target, total_bytes // partitions_min)) if partitions_min else target


def cut(
    segments: Sequence[LogSegment],
    end: int,
    target_bytes: int,
    start_behind: Callable[[int], int | None],
) -> list[Piece]:
    """Pieces of about `target_bytes` that cover the log up to `end`, none across two files.

    `start_behind(position)` gives the first record start known at or behind a position, or None;
    where it knows none a file stays whole.
    """
    pieces = []
    for segment in segments:
        stop = min(segment.end, end)
        if stop <= segment.base:
            break
        share = _even(stop - segment.base, target_bytes)
        start = segment.base
        while stop - start > share:
            split = start_behind(start + share)
            if split is None or split >= stop:
                break
            pieces.append(Piece(segment, start, split))
            start = split
        pieces.append(Piece(segment, start, stop))
    return pieces


def log_pieces(
    state: StoreState, segments: Sequence[LogSegment], selection: Selection, target_bytes: int
) -> list[Piece]:
    """Pieces of some of a store's files that may hold wanted records, of about a size."""
    low, high = selection.positions.low or 0, selection.positions.high or state.end
    segments = [each for each in segments if each.base < high and each.end > low]
    pieces = cut(segments, state.end, target_bytes, partial(next_start, state.store.queues_dir))
    return [piece for piece in pieces if piece.start < high and piece.end > low]


def within_time(
    segments: Sequence[LogSegment],
    end: int,
    selection: Selection,
    *,
    fail_on_data_loss: bool = True,
) -> list[LogSegment]:
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


def _first_store_time(segment: LogSegment) -> int | None:
    """The store timestamp (ms) of a file's first record, None where there is no record."""
    with OpenSegment(segment) as file:
        return store_time(file, segment.base)


def _last_store_time(segment: LogSegment, end: int) -> int | None:
    """The store timestamp (ms) of the last record before the log's end at `end`."""
    end = min(segment.end, end)
    size = LAST_BYTES
    with OpenSegment(segment) as file:
        while True:
            low = max(segment.base, end - size)
            start = file.find_record(low, end)
            if start < end:
                starts = next(scan_blocks(file, start, end, block_bytes=size)).starts
                return store_time(file, start + int(starts[-1])) if len(starts) else None
            if low == segment.base:
                return None
            size *= 8


def _even(size: int, target_bytes: int) -> int:
    """The length of equal parts of `size`, each at most `target_bytes`."""
    return -(-size // -(-size // target_bytes))
