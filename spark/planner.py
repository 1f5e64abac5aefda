"""From a store's path to the pieces to read; the driver decides, tasks only obey."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from aerobee.spark.layout import HEADERS, MAGIC_V1, MAGIC_V2
from aerobee.spark.log_end import find_end
from aerobee.spark.log_files import Segment, SegmentFile, StorePath, list_segments
from aerobee.spark.plan import Piece, cut, piece_bytes
from aerobee.spark.queue_hints import next_start
from aerobee.spark.selection import Selection

CLOCK_STEP_MS = 600_000  # store timestamps may jump back this far between two files


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
    store = StorePath.find(path)
    segments = list_segments(store.log_dir)
    end = find_end(segments, store.queues_dir)
    wanted = _within(
        [segment for segment in segments if segment.base < end],
        selection.since_ms,
        selection.until_ms,
    )
    total = sum(min(segment.end, end) - segment.base for segment in wanted)
    target = partition_bytes or piece_bytes(total, os.cpu_count() or 1)
    pieces = cut(wanted, end, target, partial(next_start, store.queues_dir))
    return Plan(pieces, store.queues_dir)


def _within(
    segments: Sequence[Segment], since_ms: int | None, until_ms: int | None
) -> list[Segment]:
    """The files that may hold records of the time range, judged by their first records."""
    if since_ms is None and until_ms is None:
        return list(segments)
    first = [_first_store_time(segment) for segment in segments]
    kept = []
    for segment, (low, high) in zip(segments, pairwise([*first, None]), strict=True):
        too_old = since_ms is not None and high is not None and high < since_ms - CLOCK_STEP_MS
        too_young = until_ms is not None and low is not None and low >= until_ms + CLOCK_STEP_MS
        if not too_old and not too_young:
            kept.append(segment)
    return kept


def _first_store_time(segment: Segment) -> int | None:
    """The store timestamp (ms) of a file's first record, None where there is no record."""
    head = bytearray(min(HEADERS[3].itemsize, segment.bytes))
    with SegmentFile(segment) as file:
        file.read_into(memoryview(head), segment.base)
    if len(head) < HEADERS[0].itemsize:
        return None
    magic, sys_flag = struct.unpack_from(">I28xi", head, 4)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return None
    _, at = HEADERS[(sys_flag >> 4) & 3].fields["store_timestamp"][:2]
    return int.from_bytes(head[at : at + 8], "big", signed=True)
