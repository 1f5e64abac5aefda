"""Records at known positions of a log, as queues' entries tell them, gathered in its order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from aerobee.remoting.message.layout import (
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX_BYTES,
    RECORD_BYTES_MIN,
)
from aerobee.spark.at_rest.blocks import BLOCK_BYTES
from aerobee.spark.at_rest.log_files import Segment, SegmentFile
from aerobee.spark.errors import DataLost
from aerobee.spark.records.damage import Damage
from aerobee.spark.records.headers import Records, located
from aerobee.spark.records.layout import SLACK_BYTES, Bytes, Ints, unaligned

RECORDS_MAX = 8192  # of one chunk
GAP_BYTES = 32 << 10  # what lies between two records and is shorter is read with them


def gathered(
    segments: Sequence[Segment], entries: Iterable[tuple[Ints, Ints]], damage: Damage
) -> Iterator[Records]:
    """The records at ascending log positions, with the sizes that entries tell, some at a time.

    Chunks are valid until the next one is asked for. Files that are gone raise DataLost, and places
    where no record of that size stands CorruptRecord, as `damage` says.
    """
    gathering = _Gathering(segments, damage)
    try:
        for positions, sizes in entries:
            yield from gathering.read(positions, sizes)
    finally:
        gathering.close()


class _Gathering:
    """What is kept between chunks: one open file of the log, and a buffer."""

    def __init__(self, segments: Sequence[Segment], damage: Damage) -> None:
        self._segments = segments
        self._bases = [segment.base for segment in segments]
        self._damage = damage
        self._file: SegmentFile | None = None
        self._buffer = np.zeros(0, np.uint8)

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
            yield from located(data, base, starts[good], sizes[good], self._damage)

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
            self.close()
            self._file = SegmentFile(segment)
        return self._file

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.__exit__(None, None, None)
            self._file = None
