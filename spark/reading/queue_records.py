"""The records that queue entries point at, gathered from the log in its own order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from aerobee.remoting.message.layout import (
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX_BYTES,
    RECORD_BYTES_MIN,
)
from aerobee.spark.at_rest.blocks import BLOCK_BYTES
from aerobee.spark.at_rest.log_files import SegmentFile, list_segments
from aerobee.spark.errors import DataLost
from aerobee.spark.planning.queue_pieces import QUEUES_PER_WINDOW, EntryPiece
from aerobee.spark.reading.queue_reads import QueueSlice, queue_slices
from aerobee.spark.records.damage import STRICT, Damage
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import SLACK_BYTES, Bytes, Ints, unaligned
from aerobee.spark.records.selection import Selection

ENTRIES_READ = 8192  # of one queue at a time
RECORDS_MAX = 8192  # of one chunk
GAP_BYTES = 32 << 10  # what lies between two records and is shorter is read with them


def entry_records(
    piece: EntryPiece, selection: Selection, damage: Damage = STRICT
) -> Iterator[Records]:
    """The wanted records of a piece, each chunk valid until the next is asked for.

    Raises DataLost where files are gone, and CorruptRecord, if `damage` does, where an entry
    points at something else.
    """
    with _Gathering(piece, damage) as gathering:
        for positions, sizes in _in_order(piece, selection, damage):
            for records in gathering.read(positions, sizes):
                wanted = selection.pick(records)
                if len(wanted):
                    yield wanted


def slice_records(piece: EntryPiece, part: QueueSlice, damage: Damage) -> Iterator[Records]:
    """The records that some entries of one queue point at; likewise."""
    if not piece.segments:  # the plan was to open no file of the log
        piece = replace(piece, segments=tuple(list_segments(piece.log_dir)))
    with _Gathering(piece, damage) as gathering:
        yield from gathering.read(part.positions, part.sizes)


def _in_order(
    piece: EntryPiece, selection: Selection, damage: Damage
) -> Iterator[tuple[Ints, Ints]]:
    """The entries' positions and sizes, some at a time, so that the log is read forwards.

    Queues are merged as far as all of them have been read; of very many, one comes after the
    other. What is left of a queue then, if little, is read on at once: queues that end about
    together would else make as many small chunks, each of which costs like one of thousands.
    """
    readers = [queue_slices(piece, each, selection, damage, ENTRIES_READ) for each in piece.ranges]
    if len(readers) > QUEUES_PER_WINDOW:
        yield from ((part.positions, part.sizes) for reader in readers for part in reader)
        return
    waiting: list[QueueSlice | None] = [next(reader, None) for reader in readers]
    ended: set[int] = set()
    while any(waiting):
        # a damaged queue's entries may go back; as far as they have come, they never do
        reached = {
            number: np.maximum.accumulate(part.positions)
            for number, part in enumerate(waiting)
            if part is not None
        }
        lasts = {number: int(farthest[-1]) for number, farthest in reached.items()}
        # what has ended holds nobody up: it is complete already
        limit = min(
            (lasts[each] for each in lasts if each not in ended), default=max(lasts.values())
        )
        taken = []
        for number, farthest in reached.items():
            part = waiting[number]
            assert part is not None
            cut = int(np.searchsorted(farthest, limit, "right"))
            taken.append(part.only(slice(cut)))
            rest = part.only(slice(cut, None))
            if len(rest.offsets) <= ENTRIES_READ // 2 and number not in ended:
                more = next(readers[number], None)
                if more is None:
                    ended.add(number)
                else:
                    rest = rest.followed_by(more)
            waiting[number] = rest if len(rest.offsets) else None
        positions = np.concatenate([part.positions for part in taken])
        order = np.argsort(positions, kind="stable")
        yield positions[order], np.concatenate([part.sizes for part in taken])[order]


class _Gathering:
    """One open file of the log and the buffer into which records are read."""

    def __init__(self, piece: EntryPiece, damage: Damage) -> None:
        self._segments = piece.segments
        self._bases = [segment.base for segment in piece.segments]
        self._damage = damage
        self._file: SegmentFile | None = None
        self._buffer = np.zeros(0, np.uint8)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self, positions: Ints, sizes: Ints) -> Iterator[Records]:
        """The records at ascending log positions."""
        positions, sizes = self._sensible(positions, sizes)
        low = 0
        while low < len(positions):
            part = slice(low, low + RECORDS_MAX)
            far = positions[part] + sizes[part] > positions[low] + BLOCK_BYTES
            far |= np.cumsum(sizes[part]) > BLOCK_BYTES  # damaged entries may overlap
            count = max(1, int(np.argmax(far))) if far.any() else len(far)
            part = slice(low, low + count)
            yield from self._chunk(positions[part], sizes[part])
            low += count

    def _chunk(self, positions: Ints, sizes: Ints) -> Iterator[Records]:
        if sizes[0] > BLOCK_BYTES and not self._starts_so(positions, sizes):
            return
        ends = positions + sizes
        files = np.searchsorted(self._bases, positions, "right")
        apart = (positions[1:] - ends[:-1] > GAP_BYTES) | (positions[1:] < ends[:-1])
        firsts = np.flatnonzero(np.append(True, apart | (files[1:] != files[:-1])))
        lasts = np.append(firsts[1:], len(positions)) - 1
        lengths = ends[lasts] - positions[firsts]
        placed = np.cumsum(lengths) - lengths
        if lengths.sum() + SLACK_BYTES > len(self._buffer):
            self._buffer = np.zeros(max(int(lengths.sum()), BLOCK_BYTES) + SLACK_BYTES, np.uint8)
        there = np.ones(len(firsts), np.bool_)
        spans = zip(placed.tolist(), positions[firsts].tolist(), lengths.tolist(), strict=True)
        for number, (at, position, length) in enumerate(spans):
            there[number] = self._read_span(at, position, length)
        span_of = np.repeat(np.arange(len(firsts)), lasts - firsts + 1)
        starts = positions - positions[firsts][span_of] + placed[span_of]
        kept = there[span_of]
        yield from self._located(self._buffer, starts[kept], sizes[kept], positions[kept])

    def _starts_so(self, positions: Ints, sizes: Ints) -> bool:
        """Whether a very long record is there, before memory and time are spent on it."""
        if len(self._buffer) < PREFIX_BYTES:
            self._buffer = np.zeros(BLOCK_BYTES + SLACK_BYTES, np.uint8)
        if not self._read_span(0, int(positions[0]), PREFIX_BYTES):
            return False
        size = int.from_bytes(self._buffer[:4].tobytes(), "big")
        if size != sizes[0]:
            self._tell(positions, "points at bytes that are no such record")
        return size == int(sizes[0])

    def _sensible(self, positions: Ints, sizes: Ints) -> tuple[Ints, Ints]:
        """Without entries whose records could not lie in one file."""
        files = np.searchsorted(self._bases, positions, "right") - 1
        file_ends = np.array([segment.end for segment in self._segments] + [-1], np.int64)
        good = (sizes >= RECORD_BYTES_MIN) & (files >= 0)
        good &= positions <= file_ends[files] - sizes
        self._tell(positions[~good], "points at bytes that the log does not have")
        return positions[good], sizes[good]

    def _located(
        self, data: Bytes, starts: Ints, sizes: Ints, positions: Ints
    ) -> Iterator[Records]:
        """The records, without those whose heads say something else than their entries."""
        magics = unaligned(data, ">u4")[starts + 4]
        good = (magics == MAGIC_V1) | (magics == MAGIC_V2)
        good &= unaligned(data, ">i4")[starts] == sizes
        good &= unaligned(data, ">i8")[starts + POSITION_AT] == positions
        self._tell(positions[~good], "points at bytes that are no such record")
        if good.any():
            base = int(positions[0] - starts[0])
            yield from self._damage.located(data, base, starts[good], sizes[good])

    def _tell(self, positions: Ints, what: str) -> None:
        for position in positions.tolist():
            self._damage.note(position, f"a queue's entry for log position {position} {what}")

    def _read_span(self, at: int, position: int, length: int) -> bool:
        """Read some of the log to place `at` of the buffer; whether it was there."""
        target: Any = memoryview(self._buffer)[at : at + length]  # type: ignore[arg-type]
        try:
            self._file_at(position).read_into(target, position)
        except DataLost as error:
            self._damage.lost(error, f"log positions {position} to {position + length}")
            return False
        return True

    def _file_at(self, position: int) -> SegmentFile:
        segment = self._segments[bisect_right(self._bases, position) - 1]
        if self._file is None or self._file.segment != segment:
            self._close()
            self._file = SegmentFile(segment)
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.__exit__(None, None, None)
            self._file = None
