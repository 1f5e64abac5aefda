"""A range of one CommitLog file as blocks of whole records, a few MiB at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX_BYTES,
)
from aerobee.remoting.message.record import BLANK
from aerobee.spark.at_rest.boundaries import Chain, Stop, Walk, find_chain
from aerobee.spark.at_rest.log_files import SegmentFile
from aerobee.spark.at_rest.queue_hints import hinted_starts
from aerobee.spark.records import acceleration
from aerobee.spark.records.damage import FAILFAST, STRICT, Damage
from aerobee.spark.records.headers import SLACK_BYTES, Bytes, Ints, Records, unaligned

BLOCK_BYTES = 8 << 20  # some thousand records: less pays for calls, more leaves the cache
BLOCK_RECORDS = 16_000  # about, for the same reason
READ_BYTES = 512 << 10  # of a block at a time
WINDOW_BLOCKS = 32  # hints are fetched for so many blocks at a time
AFTER_DAMAGE_BYTES = 16 << 10  # read first behind damage, then four times as much: more may follow
_NO_HINTS = np.empty(0, np.int64)


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
    file: SegmentFile, start: int, end: int, queues_dir: str | None, damage: Damage = STRICT
) -> Iterator[Block]:
    """The records in the log positions [start, end), both of which are record boundaries.

    Unused bytes at the end of a file end the range early. Bytes that are no record are told to
    `damage`; unless it raises CorruptRecord, reading goes on at the next record. Raises DataLost
    where the file has become shorter.
    """
    at, first_bytes = start, BLOCK_BYTES
    while at < end:
        for block in scan_blocks(file, at, end, queues_dir, first_bytes=first_bytes):
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
    queues_dir: str | None = None,
    *,
    block_bytes: int | None = None,
    first_bytes: int | None = None,
) -> Iterator[Block]:
    """The records from `start` on up to `end` or to whatever is no record; at least one block.

    Blocks are of BLOCK_BYTES if nothing else is said, and grow to that from `first_bytes`. The
    last one's `stop` is PART where `end` was reached, or cuts a record.
    """
    most = block_bytes or BLOCK_BYTES
    usual = min(first_bytes or most, most)
    buffer = np.zeros(usual + SLACK_BYTES, np.uint8)
    hints, hinted_to = _NO_HINTS, start
    position, length = start, 0
    while True:
        length = min(max(usual, length), end - position)
        if length + SLACK_BYTES > len(buffer):
            buffer = np.zeros(length + SLACK_BYTES, np.uint8)
        if acceleration.loops is not None:
            chain = _read_walking(file, buffer, position, length)
        else:
            file.read_into(memoryview(buffer)[:length], position)  # type: ignore[arg-type]
            if queues_dir and position + length > hinted_to:
                hinted_to = max(min(end, position + WINDOW_BLOCKS * usual), position + length)
                hints = hinted_starts(queues_dir, position, hinted_to)
            near = hints[slice(*np.searchsorted(hints, (position, position + length)))]
            chain = find_chain(buffer, length, position, near)
        after = position + chain.end
        stop = chain.stop
        size = 0
        if stop is Stop.PART and after < end and chain.end == 0:
            # a record longer than the block: take it whole, unless its length is a wild one
            size = int(unaligned(buffer[:length], ">i4")[0]) if length >= 4 else 0
            if size <= length or size > end - position:
                stop = Stop.BAD
        yield Block(buffer, position, chain.starts, chain.sizes, after, stop)
        if stop is not Stop.PART or after >= end:
            return
        position, length, usual = after, size, min(usual * 4, most)
        if count := len(chain.starts):
            usual = min(usual, max(chain.end * BLOCK_RECORDS // count, READ_BYTES))


def _read_walking(file: SegmentFile, buffer: Bytes, position: int, length: int) -> Chain:
    """Read a block, and walk each part of it while that is in the processor's cache."""
    view = memoryview(buffer)  # type: ignore[arg-type]
    walk = Walk(buffer, length, position)
    for low in range(0, length, READ_BYTES):
        high = min(low + READ_BYTES, length)
        file.read_into(view[low:high], position + low)
        walk.up_to(high)
    return walk.chain()
