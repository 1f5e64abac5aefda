"""Bodies alone, in one pass: a part of a file is read, and they are copied behind each other.

That is done while the part is in the processor's cache. Whatever is not a whole record, one behind
the other, is left to the readers of blocks (at_rest), which define what is read.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from aerobee.remoting.message.layout import RECORD_FIELDS
from aerobee.remoting.words import RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.errors import DataLost
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.reading.known_topics import KnownTopics
from aerobee.spark.records import loops
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.layout import SLACK_BYTES
from aerobee.spark.records.numpy_loops import FULL, OTHER, BlockPart, LeftOut
from aerobee.spark.records.selection import Selection
from aerobee.spark.topics import ALL_TOPICS, TopicChoice

READ_BYTES = 512 << 10  # at a time: a part of the cache nearest to the processor
RECORD_BYTES_MAX = 8 << 20  # longer ones are left to the readers of blocks
BATCH_RECORDS = 16384  # Spark's Java has a cost for each batch
BATCH_BYTES = 2 << 20
_SIZE = RECORD_FIELDS.pick("total_size")


def bodies_suffice(decoder: Decoder, selection: Selection) -> bool:
    """Whether nothing but bodies is asked for, of all records or of all users' messages."""
    return (
        decoder.stored_bodies_alone
        and not selection.choice.limited
        and replace(selection, choice=ALL_TOPICS).everything
    )


def body_batches(
    file: OpenSegment, piece: Piece, schema: pa.Schema, choice: TopicChoice, known: KnownTopics
) -> Generator[pa.RecordBatch, None, int]:
    """The bodies of the records of a piece, whose file is open, in batches.

    Returns the log position up to which it was done: the piece's end, or where no whole record
    stands. Raises DataLost where the file has become shorter.
    """
    end = piece.end
    left_out = _left_out(choice)
    data = np.empty(RECORD_BYTES_MAX + SLACK_BYTES, np.uint8)  # memory is taken where it is used
    view = memoryview(data)  # type: ignore[arg-type]
    batch = _Batch(BATCH_BYTES)
    position, kept, wanted = piece.start, 0, READ_BYTES
    while position + kept < end:
        length = min(max(wanted, kept), end - position)
        try:
            file.read_into(view[kept:length], position + kept)
        except DataLost:
            if batch.rows:
                yield batch.made(schema)
            raise
        at, why = 0, FULL
        while True:
            into = batch.offsets, batch.data, batch.rows
            at, batch.rows, why = loops.chosen.bodies(
                BlockPart(data, at, length, position), left_out, (known.before, known.table), into
            )
            if why != FULL:
                break
            if batch.rows:
                yield batch.made(schema)
                batch = _Batch(BATCH_BYTES)
            else:
                batch = _Batch(length)
        position, kept = position + at, length - at
        if why == OTHER:
            break
        data[:kept] = data[at:length]
        wanted = READ_BYTES
        if at == 0 and kept >= _SIZE.size:
            wanted = _SIZE.unpack_from(view)[0]
            if not kept < wanted <= RECORD_BYTES_MAX:
                break
    if batch.rows:
        yield batch.made(schema)
    return position


class _Batch:
    """Bodies one behind the other, and where each starts."""

    def __init__(self, room: int) -> None:
        self.data = np.empty(room, np.uint8)
        self.offsets = np.empty(BATCH_RECORDS + 1, np.int32)
        self.offsets[0] = 0
        self.rows = 0

    def made(self, schema: pa.Schema) -> pa.RecordBatch:
        """The batch for Arrow."""
        offsets = self.offsets[: self.rows + 1]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data[: offsets[-1]])]
        column = pa.Array.from_buffers(pa.binary(), self.rows, buffers)
        return pa.RecordBatch.from_arrays([column], schema=schema)


def _left_out(choice: TopicChoice) -> LeftOut:
    """The topics that the choice leaves out, if it leaves out none but those of RocketMQ."""
    found = [] if choice.retry else [(RETRY_PREFIX, False)]
    if not choice.system:
        found += [(SYSTEM_PREFIX, False), *((name, True) for name in sorted(SYSTEM_TOPICS))]
    return tuple((name.encode(), exact) for name, exact in found)
