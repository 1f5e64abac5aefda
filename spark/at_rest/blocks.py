"""A range of one CommitLog file as blocks of whole records, a few MiB at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from aerobee.remoting.message.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_BYTES,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.remoting.message.record import BLANK
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.at_rest.queue_hints import StartHints
from aerobee.spark.records import loops
from aerobee.spark.records.damage import STRICT, DamagePolicy
from aerobee.spark.records.headers import Records, whole_records
from aerobee.spark.records.layout import SLACK_BYTES, Bytes, Ints, unaligned
from aerobee.spark.records.numpy_loops import BlockPart, Contradiction, Hints, no_hints

BLOCK_BYTES = 8 << 20  # some thousand records: less pays for calls, more leaves the cache
BLOCK_RECORDS = 16_000  # about, for the same reason
CHUNK_RECORDS = 20_000  # a block of usual records as a whole
READ_BYTES = 512 << 10  # of a block at a time
AFTER_DAMAGE_BYTES = 16 << 10  # read first behind damage, then four times as much: more may follow
_PREFIX = RECORD_FIELDS.pick("total_size", "magic", "position")


class Stop(Enum):
    """Why the chain of whole records ends where it ends."""

    PART = "the rest of a record lies behind the block"
    BLANK = "the rest of the file is marked as unused"
    ZERO = "nothing was written here"
    BAD = "these bytes are no record"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records of the log in memory; valid until the next block is asked for.

    `data` holds them from log position `base` on, with slack behind; `stop` says why the chain
    of records ends where it does, `end` at which log position.
    """

    data: Bytes
    base: int
    starts: Ints
    sizes: Ints
    end: int
    stop: Stop

    def whole(self, low: int, high: int | None) -> tuple[Records, Contradiction | None]:
        """Some of its records, as far as `whole_records` has them."""
        return whole_records(self.data, self.base, self.starts[low:high], self.sizes[low:high])


def read_records(
    file: OpenSegment, start: int, end: int, damage: DamagePolicy = STRICT
) -> Iterator[Records]:
    """The records in the log positions [start, end), both record boundaries, in chunks.

    A chunk is valid until the next one is asked for. Unused bytes at the end of a file end the
    range early. Bytes that are no record are told to `damage`; unless it raises CorruptRecord,
    reading goes on at the next record. Raises DataLost where the file has become shorter.
    """
    at, first_bytes = start, BLOCK_BYTES
    hints = StartHints(file.segment, end).between
    while at < end:
        for block in scan_blocks(file, at, end, first_bytes=first_bytes, hints=hints):
            bad = yield from _whole_chunks(block)
            if bad is not None:  # its size may be the wrong one, and lead past records
                broken_at, reason = bad.position, str(bad)
                break
        else:
            broken_at = block.end
            blank = (
                end == file.segment.end
                and block.stop is Stop.BLANK
                and file.is_closed_at(block.end)
            )
            if block.end == end or (blank and block.end > file.segment.base):
                return
            if blank:  # which no broker writes there: a record has room in an empty file
                reason = (
                    f"{file.segment.path} has no record from its first byte on, although the log"
                    " goes on behind it: it was lost, and the broker has put an empty one in its"
                    " place"
                )
                damage.note(block.end, reason)
                return
            reason = (
                f"{file.segment.path}: at log position {block.end} (byte"
                f" {block.end - file.segment.base} of the file) no record goes on, although records"
                f" up to {end} were planned: {block.stop.value}; python -m aerobee.storage.verify"
                " says more"
            )
        damage.note(broken_at, reason)
        at, first_bytes = file.find_record(broken_at + 1, end), AFTER_DAMAGE_BYTES


def _whole_chunks(block: Block) -> Generator[Records, None, Contradiction | None]:
    """The block's records up to the first one that contradicts itself; returns what that says."""
    for low in range(0, len(block.starts), CHUNK_RECORDS):
        records, bad = block.whole(low, low + CHUNK_RECORDS)
        if len(records):
            yield records
        if bad is not None:
            return bad
    return None


def scan_blocks(
    file: OpenSegment,
    start: int,
    end: int,
    *,
    block_bytes: int | None = None,
    first_bytes: int | None = None,
    hints: Hints = no_hints,
) -> Iterator[Block]:
    """The records from `start` on up to `end` or to whatever is no record; at least one block.

    Blocks are of BLOCK_BYTES if nothing else is said, and grow to that from `first_bytes`. The
    last one's `stop` is PART where `end` was reached, or cuts a record. `hints` spare time.
    """
    most = block_bytes or BLOCK_BYTES
    usual = min(first_bytes or most, most)
    buffer = np.zeros(usual + SLACK_BYTES, np.uint8)
    position, length = start, 0
    while True:
        length = min(max(usual, length), end - position)
        if length + SLACK_BYTES > len(buffer):
            buffer = np.zeros(length + SLACK_BYTES, np.uint8)
        starts, sizes, reached = _read_walking(file, buffer, position, length, hints)
        after = position + reached
        stop = _stop(buffer, reached, length, position)
        size = 0
        if stop is Stop.PART and after < end and reached == 0:
            # a record longer than the block: take it whole, unless its length is a wild one
            size = int(unaligned(buffer[:length], ">i4")[0]) if length >= 4 else 0
            if size <= length or size > end - position:
                stop = Stop.BAD
        yield Block(buffer, position, starts, sizes, after, stop)
        if stop is not Stop.PART or after >= end:
            return
        position, length, usual = after, size, min(usual * 4, most)
        if count := len(starts):
            usual = min(usual, max(reached * BLOCK_RECORDS // count, READ_BYTES))


def _read_walking(
    file: OpenSegment, buffer: Bytes, position: int, length: int, hints: Hints
) -> tuple[Ints, Ints, int]:
    """Read a block, and walk each part of it while that is in the processor's cache.

    Returns the starts and sizes of its whole records, and where the next would start. A record
    begins where the one before it ends, and only the chain from a known start is proof.
    """
    view = memoryview(buffer)  # type: ignore[arg-type]
    room = length // RECORD_BYTES_MIN + 1
    starts, sizes = np.empty(room, np.int64), np.empty(room, np.int64)
    count = end = 0
    part = READ_BYTES if loops.chosen.walks_parts else max(length, 1)
    for low in range(0, length, part):
        high = min(low + part, length)
        file.read_into(view[low:high], position + low)
        into = starts[count:], sizes[count:]
        more, end = loops.chosen.walk(BlockPart(buffer, end, high, position), *into, hints)
        count += more
    return starts[:count], sizes[:count], end


def _stop(data: Bytes, at: int, length: int, base: int) -> Stop:
    """Why no whole record of `data[:length]` starts at `at`."""
    view = memoryview(data)  # type: ignore[arg-type]
    if at + PREFIX_BYTES <= length:
        size, magic, position = _PREFIX.unpack_from(view, at)
        if magic in (MAGIC_V1, MAGIC_V2) and size >= RECORD_BYTES_MIN and position == base + at:
            return Stop.PART
        return _why(size, magic)
    if at + BLANK.size <= length:  # too short for a record, not for a blank
        size, magic = BLANK.unpack_from(view, at)
        if magic not in (MAGIC_V1, MAGIC_V2):
            return _why(size, magic)
    return Stop.PART


def _why(size: int, magic: int) -> Stop:
    if magic == BLANK_MAGIC:
        return Stop.BLANK
    return Stop.ZERO if size == 0 and magic == 0 else Stop.BAD
