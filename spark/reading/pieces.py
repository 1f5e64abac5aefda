"""A piece of a read to Arrow batches: what a task does, with or without Spark around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from aerobee.spark.at_rest.blocks import read_records
from aerobee.spark.at_rest.log_files import SegmentFile, check_reachable
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.reading.bodies import bodies_suffice, body_batches
from aerobee.spark.reading.known_topics import KnownTopics
from aerobee.spark.reading.queue_reads import queue_batch, queue_slices
from aerobee.spark.reading.queue_records import entry_records, slice_records
from aerobee.spark.records.damage import STRICT, Damage
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.selection import Selection, queues_suffice


def piece_records(
    piece: Piece | EntryPiece, selection: Selection, damage: Damage = STRICT
) -> Iterator[Records]:
    """The wanted records of one piece in chunks, each valid until the next is asked for.

    Raises DataLost where files are gone, or warns of it, and CorruptRecord, as `damage` says.
    """
    check_reachable(piece.log_dir)
    if isinstance(piece, EntryPiece):
        yield from entry_records(piece, selection, damage)
        return
    with damage.bearing_loss(), SegmentFile(piece.segment) as file:
        yield from _log_records(file, piece, selection, damage)


def piece_batches(
    piece: Piece | EntryPiece, selection: Selection, decoder: Decoder, damage: Damage = STRICT
) -> Iterator[pa.RecordBatch]:
    """The wanted records of one piece as RecordBatches; those of `damage` among them."""
    check_reachable(piece.log_dir)
    if isinstance(piece, EntryPiece):
        if queues_suffice(decoder.schema.names, selection, verify_crc=decoder.verifies):
            yield from _queue_batches(piece, selection, decoder, damage)
        else:
            yield from decoder.rows(entry_records(piece, selection, damage), damage)
        return
    with damage.bearing_loss(), SegmentFile(piece.segment) as file:
        if bodies_suffice(decoder, selection):
            done = yield from body_batches(file, piece, decoder.schema, selection.choice)
            piece = replace(piece, start=done)
        yield from decoder.rows(_log_records(file, piece, selection, damage), damage)


def _log_records(
    file: SegmentFile, piece: Piece, selection: Selection, damage: Damage
) -> Iterator[Records]:
    known = KnownTopics.of_piece(piece)
    for chunk in read_records(file, piece.start, piece.end, damage):
        wanted = selection.pick(known.pick(chunk) if known is not None else chunk)
        if len(wanted):
            yield wanted


def _queue_batches(
    piece: EntryPiece, selection: Selection, decoder: Decoder, damage: Damage
) -> Iterator[pa.RecordBatch]:
    """The piece's messages as the ConsumeQueues tell them; hashes they lack, the records tell."""
    hashes = "tags_code" in decoder.schema.names
    for each in piece.ranges:
        for part in queue_slices(piece, each, selection, damage):
            if part.hashed or not hashes:
                yield queue_batch(part, decoder.schema)
            else:
                yield from decoder.rows(slice_records(piece, part, damage), damage)
