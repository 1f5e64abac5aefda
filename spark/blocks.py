"""A range of one CommitLog file as blocks of whole records, a few MiB at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.boundaries import Stop, find_chain
from aerobee.spark.layout import SLACK_BYTES, Bytes, Ints, unaligned
from aerobee.spark.log_files import SegmentFile
from aerobee.spark.queue_hints import hinted_starts

BLOCK_BYTES = 8 << 20  # some thousand records: less pays for calls, more leaves the cache
WINDOW_BYTES = 256 << 20  # hints are fetched for this much of the log at a time
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


def read_blocks(file: SegmentFile, start: int, end: int, queues_dir: str | None) -> Iterator[Block]:
    """The records in the log positions [start, end), both of which are record boundaries.

    Unused bytes at the end of a file end the range early. Raises CorruptRecord at bytes that are
    no record, StoreUnreadable where the file has become shorter.
    """
    for block in scan_blocks(file, start, end, queues_dir):
        if len(block.starts):
            yield block
    if block.end == end or (block.stop is Stop.BLANK and end == file.segment.end):
        return
    raise CorruptRecord(
        f"{file.segment.path}: at log position {block.end} (byte {block.end - file.segment.base}"
        f" of the file) no record goes on, although records up to {end} were planned:"
        f" {block.stop.value}; python -m aerobee.storage.verify says more"
    )


def scan_blocks(
    file: SegmentFile, start: int, end: int, queues_dir: str | None = None
) -> Iterator[Block]:
    """The records from `start` on up to `end` or to whatever is no record; at least one block.

    The last block's `stop` is PART where `end` was reached, or cuts a record.
    """
    buffer = np.zeros(BLOCK_BYTES + SLACK_BYTES, np.uint8)
    hints, hinted_to = _NO_HINTS, start
    position, length = start, 0
    while True:
        length = min(max(BLOCK_BYTES, length), end - position)
        if length + SLACK_BYTES > len(buffer):
            buffer = np.zeros(length + SLACK_BYTES, np.uint8)
        file.read_into(memoryview(buffer)[:length], position)  # type: ignore[arg-type]
        if queues_dir and position + length > hinted_to:
            hinted_to = max(min(end, position + WINDOW_BYTES), position + length)
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
        position, length = after, size
