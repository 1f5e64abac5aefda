"""How a log is cut into the pieces that Spark's tasks read: pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aerobee.spark.at_rest.log_files import Segment

PIECE_BYTES_MIN = 32 << 20  # a task costs about 50 ms of CPU, the reading of some 50 MB
PIECE_BYTES_MAX = 1 << 30  # a broker's file: of a large log no file is cut
TASKS_PER_CORE = 2  # so that one slow task does not keep all others waiting


@dataclass(frozen=True, slots=True)
class Piece:
    """The records of one file in the log positions [start, end), both record boundaries.

    `end` may be the file's end, with unused bytes before it. Records before the log position
    `dispatched` count only if their topic has queues.
    """

    segment: Segment
    start: int
    end: int
    dispatched: int = 0

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
    segments: Sequence[Segment],
    end: int,
    target_bytes: int,
    next_start: Callable[[int], int | None],
) -> list[Piece]:
    """Pieces of about `target_bytes` that cover the log up to `end`, none across two files.

    `next_start(position)` gives the first record start known at or behind a position, or None;
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
            split = next_start(start + share)
            if split is None or split >= stop:
                break
            pieces.append(Piece(segment, start, split))
            start = split
        pieces.append(Piece(segment, start, stop))
    return pieces


def _even(size: int, target_bytes: int) -> int:
    """The length of equal parts of `size`, each at most `target_bytes`."""
    return -(-size // -(-size // target_bytes))
