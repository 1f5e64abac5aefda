"""Reads along the log: the wanted records of a stretch of one file, or their bodies alone."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from aerobee.spark.at_rest.blocks import read_records
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.reading.bodies import bodies_suffice, body_batches
from aerobee.spark.reading.known_topics import KnownTopics
from aerobee.spark.records.damage import DamagePolicy
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.selection import Selection
from aerobee.spark.records.unwrapping import unwrapped


def log_records(piece: Piece, selection: Selection, damage: DamagePolicy) -> Iterator[Records]:
    """The wanted records of a piece, each chunk valid until the next is asked for."""
    with damage.bearing_loss(), OpenSegment(piece.segment) as file:
        known = KnownTopics.of_piece(piece)
        found = read_records(file, piece.start, piece.end, damage)
        yield from selection.among(unwrapped(map(known.pick, found)))


def log_chunks(
    piece: Piece, selection: Selection, decoder: Decoder, damage: DamagePolicy
) -> Iterator[Records | pa.RecordBatch]:
    """The same for a decoder: as batches what is quickly made into them."""
    with damage.bearing_loss(), OpenSegment(piece.segment) as file:
        known = KnownTopics.of_piece(piece)
        start = piece.start
        if bodies_suffice(decoder, selection):
            start = yield from body_batches(file, piece, decoder.schema, selection.choice, known)
        found = read_records(file, start, piece.end, damage)
        yield from selection.among(unwrapped(map(known.pick, found)))
