"""A range of one CommitLog file as blocks of whole records, a few MiB at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX_BYTES,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.remoting.message.record import BLANK
from aerobee.spark.at_rest.log_files import SegmentFile
from aerobee.spark.at_rest.queue_hints import StartHints
from aerobee.spark.records import loops
from aerobee.spark.records.damage import FAILFAST, STRICT, Damage
from aerobee.spark.records.headers import Records, located
from aerobee.spark.records.layout import SLACK_BYTES, Bytes, Ints, unaligned
from aerobee.spark.records.numpy_loops import Hints, no_hints

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


def read_blocks(
    file: SegmentFile, start: int, end: int, damage: Damage = STRICT
) -> Iterator[Block]:
    """The records in the log positions [start, end), both of which are record boundaries.

    Unused bytes at the end of a file end the range early. Bytes that are no record are told to
    `damage`; unless it raises CorruptRecord, reading goes on at the next record. Raises DataLost
    where the file has become shorter.
    """
    at, first_bytes = start, BLOCK_BYTES
    hints = StartHints(file.segment, end).between
    while at < end:
        for block in scan_blocks(file, at, end, first_bytes=first_bytes, hints=hints):
            bad = None if damage.mode == FAILFAST else _first_contradiction(block)
            if bad is not None:
                block, reason = bad
            if len(block.starts):
                yield block
            if bad is not None:
                break
        else:
            blank = end == file.segment.end and _is_closed_at(file, block)
            if block.end == end or (blank and block.end > file.segment.base):
                return
            if blank:  # which no broker writes there: a record has room in an empty file
                damage.note(
                    block.end,
                    f"{file.segment.path} has no record from its first byte on, although the log"
                    " goes on behind it: it was lost, and the broker has put an empty one in its"
                    " place",
                )
                return
            reason = (
                f"{file.segment.path}: at log position {block.end} (byte"
                f" {block.end - file.segment.base} of the file) no record goes on, although records"
                f" up to {end} were planned: {block.stop.value}; python -m aerobee.storage.verify"
                " says more"
            )
        damage.note(block.end, reason)
        at, first_bytes = find_record(file, block.end + 1, end), AFTER_DAMAGE_BYTES


def read_records(
    file: SegmentFile, start: int, end: int, damage: Damage = STRICT
) -> Iterator[Records]:
    """The records in the log positions [start, end), likewise, in chunks worth their cost.

    A chunk is valid until the next one is asked for.
    """
    for block in read_blocks(file, start, end, damage):
        for low in range(0, len(block.starts), CHUNK_RECORDS):
            part = slice(low, low + CHUNK_RECORDS)
            starts, sizes = block.starts[part], block.sizes[part]
            yield from located(block.data, block.base, starts, sizes, damage)


def _is_closed_at(file: SegmentFile, block: Block) -> bool:
    """Whether the blank that closes a file stands where a block ends: one of that size."""
    if block.stop is not Stop.BLANK:
        return False
    head = bytearray(BLANK.size)
    file.read_into(memoryview(head), block.end)
    return BLANK.unpack(head) == (file.segment.end - block.end, BLANK_MAGIC)


def well_formed(block: Block, asked: int) -> int:
    """How many of the first `asked` records have lengths that agree, up to the first that fails."""

    def broken(count: int) -> bool:
        try:
            Records(block.data, block.base, block.starts[:count], block.sizes[:count])
        except CorruptRecord:
            return True
        return False

    if not broken(asked):
        return asked
    return bisect_left(range(1, asked + 1), True, key=broken)


def _first_contradiction(block: Block) -> tuple[Block, str] | None:
    """The block up to its first record whose lengths contradict its size, and what is wrong there.

    That size may be the wrong one, and lead past records that are whole.
    """
    count = well_formed(block, len(block.starts))
    if count == len(block.starts):
        return None
    one = slice(count, count + 1)
    try:
        Records(block.data, block.base, block.starts[one], block.sizes[one])
    except CorruptRecord as error:
        starts, sizes = block.starts[:count], block.sizes[:count]
        end = block.base + int(block.starts[count])
        return Block(block.data, block.base, starts, sizes, end, Stop.BAD), str(error)
    return None


def find_record(file: SegmentFile, start: int, end: int) -> int:
    """The first log position from `start` on where a record's head stands; `end` if there is none.

    A head is told by its magic number and by the log position that it repeats.
    """
    size = AFTER_DAMAGE_BYTES
    while start + PREFIX_BYTES <= end:
        length = min(size + PREFIX_BYTES, end - start)
        buffer = np.empty(length, np.uint8)
        file.read_into(memoryview(buffer)[:length], start)  # type: ignore[arg-type]
        count = length - PREFIX_BYTES + 1
        own = unaligned(buffer, ">i8")[POSITION_AT : POSITION_AT + count] == np.arange(
            start, start + count
        )
        magics = unaligned(buffer, ">u4")[4:]
        for at in np.flatnonzero(own).tolist():
            if magics[at] in (MAGIC_V1, MAGIC_V2):
                return start + int(at)
        start += count
        size = min(size * 4, BLOCK_BYTES)
    return end


def scan_blocks(
    file: SegmentFile,
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
    file: SegmentFile, buffer: Bytes, position: int, length: int, hints: Hints
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
        more, end = loops.chosen.walk(buffer, end, high, position, *into, hints)
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
