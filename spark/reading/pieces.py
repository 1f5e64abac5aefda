"""A piece of a read to Arrow batches: what a task does, with or without Spark around it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from aerobee.spark.at_rest.log_files import check_reachable
from aerobee.spark.planning.key_pieces import KeyPiece
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.planning.store_pieces import AnyPiece
from aerobee.spark.reading.keyed_reads import keyed_records
from aerobee.spark.reading.log_reads import log_chunks, log_records
from aerobee.spark.reading.queue_reads import entry_chunks, entry_records
from aerobee.spark.records.damage import STRICT, DamagePolicy
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.selection import Selection


def piece_records(
    piece: AnyPiece, selection: Selection, damage: DamagePolicy = STRICT
) -> Iterator[Records]:
    """The wanted records of one piece in chunks, each valid until the next is asked for.

    Raises DataLost where files are gone, or warns of it, and CorruptRecord, as `damage` says.
    """
    check_reachable(piece.log_dir)
    if isinstance(piece, EntryPiece):
        yield from entry_records(piece, selection, damage)
    elif isinstance(piece, KeyPiece):
        yield from keyed_records(piece, selection, damage)
    else:
        yield from log_records(piece, selection, damage)


def piece_batches(
    piece: AnyPiece,
    selection: Selection,
    decoder: Decoder,
    damage: DamagePolicy = STRICT,
) -> Iterator[pa.RecordBatch]:
    """The wanted records of one piece as RecordBatches; those of `damage` among them."""
    check_reachable(piece.log_dir)
    chunks: Iterator[Records | pa.RecordBatch]
    if isinstance(piece, EntryPiece):
        chunks = entry_chunks(piece, selection, decoder, damage)
    elif isinstance(piece, KeyPiece):
        chunks = keyed_records(piece, selection, damage)
    else:
        chunks = log_chunks(piece, selection, decoder, damage)
    yield from decoder.rows(chunks, damage)
