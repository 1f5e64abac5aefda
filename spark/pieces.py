"""A piece of the log to Arrow batches: what a task does, with or without Spark around it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from aerobee.spark.blocks import read_blocks
from aerobee.spark.decode import Decoder
from aerobee.spark.layout import Records
from aerobee.spark.log_files import SegmentFile
from aerobee.spark.plan import Piece
from aerobee.spark.selection import Selection

BATCH_RECORDS = 8192  # 4,000 to 10,000 per batch are fastest: larger ones leave the cache


def piece_records(piece: Piece, queues_dir: str | None, selection: Selection) -> Iterator[Records]:
    """The wanted records of one piece in chunks, each valid until the next is asked for."""
    with SegmentFile(piece.segment) as file:
        for block in read_blocks(file, piece.start, piece.end, queues_dir):
            for low in range(0, len(block.starts), BATCH_RECORDS):
                part = slice(low, low + BATCH_RECORDS)
                chunk = Records(block.data, block.base, block.starts[part], block.sizes[part])
                wanted = selection.pick(chunk)
                if len(wanted):
                    yield wanted


def piece_batches(
    piece: Piece, queues_dir: str | None, selection: Selection, decoder: Decoder
) -> Iterator[pa.RecordBatch]:
    """The wanted records of one piece as RecordBatches."""
    for records in piece_records(piece, queues_dir, selection):
        yield decoder.decode(records)
