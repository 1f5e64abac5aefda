"""Records at known positions of a log, as queues' entries tell them, gathered in its order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from aerobee.remoting.message.layout import (
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX_BYTES,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.spark.at_rest.blocks import BLOCK_BYTES
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.open_segment import OpenLog
from aerobee.spark.errors import DataLost
from aerobee.spark.records.damage import DamagePolicy
from aerobee.spark.records.headers import Records, whole_records
from aerobee.spark.records.layout import SLACK_BYTES, Bytes, Ints, unaligned

RECORDS_MAX = 8192  # of one chunk
GAP_BYTES = 32 << 10  # what lies between two records and is shorter is read with them
_SIZE = RECORD_FIELDS.pick("total_size")


def gathered(
    segments: Sequence[LogSegment], entries: Iterable[tuple[Ints, Ints]], damage: DamagePolicy
) -> Iterator[Records]:
    """The records at ascending log positions, with the sizes that entries tell, some at a time.

    Chunks are valid until the next one is asked for. Files that are gone raise DataLost, and places
    where no record of that size stands CorruptRecord, as `damage` says.
    """
    with OpenLog(segments) as log:
        gathering = _Gathering(log, damage)
        for positions, sizes in entries:
            yield from gathering.read(positions, sizes)


class _Gathering:
    """What is kept between chunks: the log with its open file, and a buffer."""

    def __init__(self, log: OpenLog, damage: DamagePolicy) -> None:
        self._log = log
        self._damage = damage
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
        files = np.searchsorted(self._log.bases, positions, "right")
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
        head = memoryview(self._buffer)  # type: ignore[arg-type]
        there: bool = _SIZE.unpack_from(head)[0] == sizes[0]
        if not there:
            self._tell(positions, "points at bytes that are no such record")
        return there

    def _sensible(self, positions: Ints, sizes: Ints) -> tuple[Ints, Ints]:
        """Without entries whose records could not lie in one file."""
        files = np.searchsorted(self._log.bases, positions, "right") - 1
        file_ends = np.array([segment.end for segment in self._log.segments] + [-1], np.int64)
        good = (sizes >= RECORD_BYTES_MIN) & (files >= 0)
        good &= positions <= file_ends[files] - sizes
        self._tell(positions[~good], "points at bytes that the log does not have")
        return positions[good], sizes[good]

    def _located(
        self, data: Bytes, starts: Ints, sizes: Ints, positions: Ints
    ) -> Iterator[Records]:
        """The records, without those whose heads say something else than their entries."""
        magics = unaligned(data, ">u4")[starts + MAGIC_AT]
        good = (magics == MAGIC_V1) | (magics == MAGIC_V2)
        good &= unaligned(data, ">i4")[starts] == sizes
        good &= unaligned(data, ">i8")[starts + POSITION_AT] == positions
        self._tell(positions[~good], "points at bytes that are no such record")
        if not len(starts):
            return
        base = int(positions[0] - starts[0])
        starts, sizes = starts[good], sizes[good]
        while len(starts):
            records, bad = whole_records(data, base, starts, sizes)
            if bad is not None:
                self._damage.note(bad.position, str(bad))
            if len(records):
                yield records
            starts, sizes = starts[len(records) + 1 :], sizes[len(records) + 1 :]

    def _tell(self, positions: Ints, what: str) -> None:
        for position in positions.tolist():
            self._damage.note(position, f"a queue's entry for log position {position} {what}")

    def _read_span(self, at: int, position: int, length: int) -> bool:
        """Read some of the log to place `at` of the buffer; whether it was there."""
        target: Any = memoryview(self._buffer)[at : at + length]  # type: ignore[arg-type]
        try:
            file = self._log.file_at(position)
            assert file is not None, "only sensible entries are read"
            file.read_into(target, position)
        except DataLost as error:
            self._damage.lost(error, f"log positions {position} to {position + length}")
            return False
        return True
