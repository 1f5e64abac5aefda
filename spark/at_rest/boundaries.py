"""Where the records of a block start and end: the chain of sizes, walked or confirmed.

A record begins where the one before it ends, and only the chain from a known start is proof: a
body may contain what looks like a record. Hints (from the ConsumeQueues) make the common case
a handful of vector comparisons; wherever they leave a gap or contradict the chain, it is
walked record by record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from aerobee.remoting.message.layout import (
    BLANK_FIELDS,
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX_BYTES,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.spark.records import acceleration
from aerobee.spark.records.headers import Bytes, Ints, unaligned

_BLANK = BLANK_FIELDS.run()
_PREFIX = RECORD_FIELDS.pick("total_size", "magic", "position")


class Stop(Enum):
    """Why the chain of whole records ends where it ends."""

    PART = "the rest of a record lies behind the block"
    BLANK = "the rest of the file is marked as unused"
    ZERO = "nothing was written here"
    BAD = "these bytes are no record"


@dataclass(frozen=True, slots=True)
class Chain:
    """Whole records that follow each other from the block's first byte on."""

    starts: Ints
    sizes: Ints
    end: int  # in the block; the next record would start here
    stop: Stop


def find_chain(data: Bytes, length: int, base: int, hints: Ints) -> Chain:
    """The records in `data[:length]`, whose first byte has the log position `base`.

    `hints` are ascending log positions within the block where records may start; compiled code
    walks the chain faster than hints could be looked at.
    """
    if acceleration.loops is not None:
        walk = Walk(data, length, base)
        walk.up_to(length)
        return walk.chain()
    starts, sizes = _plausible(data, length, base, hints - base)
    runs: list[tuple[Ints, Ints]] = []
    end, stop = 0, Stop.PART
    breaks = np.flatnonzero(starts[1:] != starts[:-1] + sizes[:-1]) + 1
    run_ends = [*breaks.tolist(), len(starts)]
    at = run = 0
    while at < len(starts):
        while run_ends[run] <= at:
            run += 1
        if int(starts[at]) == end:
            high = run_ends[run]
            runs.append((starts[at:high], sizes[at:high]))
            end = int(starts[high - 1] + sizes[high - 1])
            at = high
            continue
        if int(starts[at]) > end:
            walked, end, stop = _walk(data, int(starts[at]), length, base, end)
            runs.append(walked)
            if end < int(starts[at]):
                return _joined(runs, end, stop)
        at = int(np.searchsorted(starts, end))  # hints inside a record were none
    walked, end, stop = _walk(data, length, length, base, end)
    runs.append(walked)
    return _joined(runs, end, stop)


class Walk:
    """The chain of a block that is being read, walked by compiled code as far as bytes are there.

    `data[:length]` will hold the block, whose first byte has the log position `base`.
    """

    def __init__(self, data: Bytes, length: int, base: int) -> None:
        room = length // RECORD_BYTES_MIN + 1
        self._data, self._length, self._base = data, length, base
        self._starts, self._sizes = np.empty(room, np.int64), np.empty(room, np.int64)
        self._count = self._end = 0

    def up_to(self, filled: int) -> None:
        """Go on over the records that are whole in `data[:filled]`."""
        assert acceleration.loops is not None
        starts, sizes = self._starts[self._count :], self._sizes[self._count :]
        count, self._end = acceleration.loops.walk(
            self._data, self._end, filled, filled, self._base, starts, sizes
        )
        self._count += count

    def chain(self) -> Chain:
        """What `find_chain` finds in the whole block."""
        starts, sizes = self._starts[: self._count], self._sizes[: self._count]
        stop = _stop(self._data, self._end, self._length, self._base)
        return Chain(starts, sizes, self._end, stop)


def _plausible(data: Bytes, length: int, base: int, starts: Ints) -> tuple[Ints, Ints]:
    """The hints at which a record's head with a fitting size and position stands."""
    starts = starts[(starts >= 0) & (starts <= length - PREFIX_BYTES)]
    sizes = unaligned(data, ">i4")[starts].astype(np.int64)
    magics = unaligned(data, ">u4")[starts + 4]
    good = (magics == MAGIC_V1) | (magics == MAGIC_V2)
    good &= (sizes >= RECORD_BYTES_MIN) & (starts + sizes <= length)
    good &= unaligned(data, ">i8")[starts + POSITION_AT] == starts + base
    return (starts, sizes) if good.all() else (starts[good], sizes[good])


def _walk(
    data: Bytes, until: int, length: int, base: int, at: int
) -> tuple[tuple[Ints, Ints], int, Stop]:
    """The records from `at` on, up to the first that starts at `until` or behind it."""
    walked, at = _walk_in_python(data, until, length, base, at)
    if at >= until and at <= length - PREFIX_BYTES:
        return walked, at, Stop.PART
    return walked, at, _stop(data, at, length, base)


def _walk_in_python(
    data: Bytes, until: int, length: int, base: int, at: int
) -> tuple[tuple[Ints, Ints], int]:
    starts: list[int] = []
    sizes: list[int] = []
    unpack = _PREFIX.unpack_from
    view = memoryview(data)  # type: ignore[arg-type]
    limit = min(until, length - PREFIX_BYTES + 1)
    while at < limit:
        size, magic, position = unpack(view, at)
        if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_BYTES_MIN or position != base + at:
            break
        if at + size > length:
            break
        starts.append(at)
        sizes.append(size)
        at += size
    return (np.array(starts, np.int64), np.array(sizes, np.int64)), at


def _stop(data: Bytes, at: int, length: int, base: int) -> Stop:
    """Why no whole record of `data[:length]` starts at `at`."""
    view = memoryview(data)  # type: ignore[arg-type]
    if at + PREFIX_BYTES <= length:
        size, magic, position = _PREFIX.unpack_from(view, at)
        if magic in (MAGIC_V1, MAGIC_V2) and size >= RECORD_BYTES_MIN and position == base + at:
            return Stop.PART
        return _why(size, magic)
    if at + _BLANK.size <= length:  # too short for a record, not for a blank
        size, magic = _BLANK.unpack_from(view, at)
        if magic not in (MAGIC_V1, MAGIC_V2):
            return _why(size, magic)
    return Stop.PART


def _why(size: int, magic: int) -> Stop:
    if magic == BLANK_MAGIC:
        return Stop.BLANK
    return Stop.ZERO if size == 0 and magic == 0 else Stop.BAD


def _joined(runs: list[tuple[Ints, Ints]], end: int, stop: Stop) -> Chain:
    if len(runs) == 2 and not len(runs[1][0]):
        return Chain(*runs[0], end, stop)
    starts = np.concatenate([run[0] for run in runs])
    return Chain(starts, np.concatenate([run[1] for run in runs]), end, stop)
