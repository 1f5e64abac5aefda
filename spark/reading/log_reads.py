"""Reads along the log: bodies alone, in one pass, or the records that are wanted.

Of a query of nothing but bodies a part of a file is read, and its bodies are copied behind each
other while it is in the processor's cache. Whatever is not a whole record, one behind the other, is
left to the readers of blocks (at_rest), which define what is read.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from aerobee.remoting.words import RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS
from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.blocks import read_records
from aerobee.spark.at_rest.log_files import SegmentFile
from aerobee.spark.errors import DataLost
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.records import loops
from aerobee.spark.records.damage import Damage
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import SLACK_BYTES
from aerobee.spark.records.numpy_loops import FULL, OTHER, LeftOut
from aerobee.spark.records.selection import Selection
from aerobee.spark.topics import ALL_TOPICS, TopicChoice

READ_BYTES = 512 << 10  # at a time: a part of the cache nearest to the processor
RECORD_BYTES_MAX = 8 << 20  # longer ones are left to the readers of blocks
BATCH_RECORDS = 16384  # Spark's Java has a cost for each batch
BATCH_BYTES = 2 << 20


def log_records(piece: Piece, selection: Selection, damage: Damage) -> Iterator[Records]:
    """The wanted records of a piece, each chunk valid until the next is asked for."""
    with damage.bearing_loss(), SegmentFile(piece.segment) as file:
        yield from _wanted_records(file, piece, selection, damage)


def log_batches(
    piece: Piece, selection: Selection, decoder: Decoder, damage: Damage
) -> Iterator[pa.RecordBatch]:
    """The same as RecordBatches; damage that has been met is among them."""
    with damage.bearing_loss(), SegmentFile(piece.segment) as file:
        if bodies_suffice(decoder, selection):
            done = yield from body_batches(file, piece, decoder.schema, selection.choice)
            piece = replace(piece, start=done)
        chunks = _wanted_records(file, piece, selection, damage)
        yield from decoder.rows(chunks, damage)


def _wanted_records(
    file: SegmentFile, piece: Piece, selection: Selection, damage: Damage
) -> Iterator[Records]:
    known = KnownTopics.of_piece(piece)
    for chunk in read_records(file, piece.start, piece.end, damage):
        wanted = selection.pick(known.pick(chunk) if known is not None else chunk)
        if len(wanted):
            yield wanted


def bodies_suffice(decoder: Decoder, selection: Selection) -> bool:
    """Whether nothing but bodies is asked for, of all records or of all users' messages."""
    return (
        decoder.stored_bodies_alone
        and not selection.choice.limited
        and replace(selection, choice=ALL_TOPICS).everything
    )


def body_batches(
    file: SegmentFile, piece: Piece, schema: pa.Schema, choice: TopicChoice
) -> Generator[pa.RecordBatch, None, int]:
    """The bodies of the records of a piece, whose file is open, in batches.

    Returns the log position up to which it was done: the piece's end, or where no whole record
    stands. Raises DataLost where the file has become shorter.
    """
    known = KnownTopics.of_piece(piece) or NO_TOPICS
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
                data, at, length, position, left_out, (known.before, known.table), into
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
        if at == 0 and kept >= 4:
            wanted = int.from_bytes(view[:4])
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


class KnownTopics:
    """Topics that have queues; records at the log position `before`, or behind it, are of no other.

    A deleted topic's messages stay in the log until its files go. What the ConsumeQueues lead to
    has none of them; so that a filter does not change what there is, a read along the log leaves
    them out too, up to where a broker has filled its queues: behind that a topic may just have
    none yet.

    `table` is what a pass over records looks them up in, `loops.topic_table`'s.
    """

    def __init__(self, topics: Iterable[bytes], before: int) -> None:
        self.before = before
        self.table = loops.chosen.topic_table(frozenset(topics))

    @classmethod
    def of_piece(cls, piece: Piece) -> KnownTopics | None:
        """Those of the store, as far as they matter to a piece of its log; None if they do not."""
        queues_dir = piece.queues_dir
        if queues_dir is None or piece.start >= piece.dispatched:
            return None
        try:
            return cls(map(os.fsencode, disk.folders(queues_dir)), piece.dispatched)
        except OSError as error:
            disk.check_absent(error, queues_dir)
            return None  # a store that is taken away: the log's file, still open, is read on

    def pick(self, records: Records) -> Records:
        """Those of the records that count, in the same order."""
        if not len(records):
            return records
        known = loops.chosen.known_topics(records, self.table)
        if known.all():
            return records
        positions = records.field("position", np.int64)
        return records.only(np.flatnonzero(known | (positions >= self.before)))


NO_TOPICS = KnownTopics((), 0)  # no record is left out for its topic
