"""Reads of what the index of keys has found: records at known positions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aerobee.spark.at_rest.gathering import gathered
from aerobee.spark.planning.key_pieces import KeyPiece
from aerobee.spark.records.damage import STRICT, DamagePolicy
from aerobee.spark.records.headers import Records
from aerobee.spark.records.selection import Selection
from aerobee.spark.records.unwrapping import unwrapped


def keyed_records(
    piece: KeyPiece, selection: Selection, damage: DamagePolicy = STRICT
) -> Iterator[Records]:
    """The wanted records of a piece, each chunk valid until the next is asked for.

    Raises as `gathered` does.
    """
    entries = [(np.array(piece.positions, np.int64), np.array(piece.sizes, np.int64))]
    yield from selection.among(unwrapped(gathered(piece.segments, entries, damage)))
