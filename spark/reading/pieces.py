"""A piece of a read to Arrow batches: what a task does, with or without Spark around it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from aerobee.spark.at_rest.blocks import read_blocks
from aerobee.spark.at_rest.log_files import SegmentFile, check_reachable
from aerobee.spark.errors import DataLost
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.reading.bodies import bodies_suffice, body_batches
from aerobee.spark.reading.known_topics import NO_TOPICS, KnownTopics
from aerobee.spark.reading.queue_reads import queue_batch, queue_slices
from aerobee.spark.reading.queue_records import entry_records, slice_records
from aerobee.spark.records.damage import STRICT, Damage
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.selection import Selection, queues_suffice

log = logging.getLogger(__name__)

BATCH_RECORDS = 20_000  # a block of usual records as a whole


def piece_records(
    piece: Piece | EntryPiece,
    queues_dir: str | None,
    selection: Selection,
    damage: Damage = STRICT,
    *,
    fail_on_data_loss: bool = True,
) -> Iterator[Records]:
    """The wanted records of one piece in chunks, each valid until the next is asked for.

    Raises DataLost where files are gone, or warns of it; CorruptRecord if `damage` does.
    """
    check_reachable(piece.log_dir)
    if isinstance(piece, EntryPiece):
        yield from entry_records(piece, selection, damage, fail_on_data_loss=fail_on_data_loss)
        return
    with _loss_told(fail_on_data_loss), SegmentFile(piece.segment) as file:
        yield from _log_records(file, piece, queues_dir, selection, damage)


@contextmanager
def _loss_told(fail_on_data_loss: bool) -> Iterator[None]:
    """Pass DataLost on, or end what is read there with a warning."""
    try:
        yield
    except DataLost as error:
        if fail_on_data_loss:
            raise
        log.warning("%s; its messages are left out", error)


def _log_records(
    file: SegmentFile,
    piece: Piece,
    queues_dir: str | None,
    selection: Selection,
    damage: Damage,
) -> Iterator[Records]:
    known = KnownTopics.of_piece(piece, queues_dir)
    for block in read_blocks(file, piece.start, piece.end, damage):
        for low in range(0, len(block.starts), BATCH_RECORDS):
            part = slice(low, low + BATCH_RECORDS)
            for chunk in damage.located(
                block.data, block.base, block.starts[part], block.sizes[part]
            ):
                wanted = selection.pick(known.pick(chunk) if known is not None else chunk)
                if len(wanted):
                    yield wanted


def piece_batches(
    piece: Piece | EntryPiece,
    queues_dir: str | None,
    selection: Selection,
    decoder: Decoder,
    damage: Damage = STRICT,
    *,
    fail_on_data_loss: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The wanted records of one piece as RecordBatches; those of `damage` among them."""
    check_reachable(piece.log_dir)
    if isinstance(piece, EntryPiece) and queues_suffice(
        decoder.schema.names, selection, verify_crc=decoder.verifies
    ):
        yield from _queue_batches(
            piece, selection, decoder, damage, fail_on_data_loss=fail_on_data_loss
        )
        return
    if isinstance(piece, Piece) and bodies_suffice(decoder, selection):
        with _loss_told(fail_on_data_loss), SegmentFile(piece.segment) as file:
            done = yield from body_batches(
                file,
                piece.start,
                piece.end,
                decoder.schema,
                selection.choice,
                KnownTopics.of_piece(piece, queues_dir) or NO_TOPICS,
            )
            rest = replace(piece, start=done)
            chunks = _log_records(file, rest, queues_dir, selection, damage)
            yield from _decoded(chunks, decoder, damage)
        return
    chunks = piece_records(
        piece, queues_dir, selection, damage, fail_on_data_loss=fail_on_data_loss
    )
    yield from _decoded(chunks, decoder, damage)


def _queue_batches(
    piece: EntryPiece,
    selection: Selection,
    decoder: Decoder,
    damage: Damage,
    *,
    fail_on_data_loss: bool,
) -> Iterator[pa.RecordBatch]:
    """The piece's messages as the ConsumeQueues tell them; hashes they lack, the records tell."""
    hashes = "tags_code" in decoder.schema.names
    for each in piece.ranges:
        for part in queue_slices(piece, each, selection, fail_on_data_loss=fail_on_data_loss):
            if part.hashed or not hashes:
                yield queue_batch(part, decoder.schema)
                continue
            chunks = slice_records(piece, part, damage, fail_on_data_loss=fail_on_data_loss)
            yield from _decoded(chunks, decoder, damage)


def _decoded(
    chunks: Iterator[Records], decoder: Decoder, damage: Damage
) -> Iterator[pa.RecordBatch]:
    for records in chunks:
        for good in damage.each(decoder.checked, records):
            yield from decoder.batches(good)
        yield from damage.rows(decoder.schema)
    yield from damage.rows(decoder.schema)
