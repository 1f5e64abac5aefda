"""Properties taken apart by compiled code; `properties.py` defines what comes out.

All of it is None where there is no compiled code, or where what the records hold is rare enough to
be left to numpy: names that repeat, very many of them, or some that are no UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aerobee.spark.records import acceleration
from aerobee.spark.records.cells import ragged, text, with_nulls
from aerobee.spark.records.headers import Ints, Records

PROPERTY_BYTES_MIN = 4  # name, value and the bytes between and behind them
_MARKED = (b"TAGS", b"KEYS")
Offsets = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Marked:
    """Where in some records the values of TAGS and KEYS are, each with its length."""

    records: Records
    places: Ints

    def find(self, name: bytes) -> pa.StringArray:
        """The value of one of them per record, null without it."""
        at, lengths = self.places[2 * _MARKED.index(name) :][:2]
        data, missing = self.records.data, lengths < 0
        if not missing.any():
            return text(ragged(data, at, lengths))
        return with_nulls(text(ragged(data, at, np.maximum(lengths, 0))), missing)


def find_marked(records: Records) -> Marked | None:
    """Where the values of TAGS and KEYS are, found in one pass."""
    loops = acceleration.loops
    if loops is None:
        return None
    places = np.empty((2 * len(_MARKED), len(records)), np.int64)
    starts, lengths = records.properties_at, records.properties_bytes
    if not loops.mark(records.data, starts, lengths, b"".join(_MARKED), places):
        return None
    return Marked(records, places)


def take_apart(records: Records) -> TakenApart | None:
    """All properties of some records, copied out of them in one pass."""
    loops = acceleration.loops
    if loops is None:
        return None
    total = int(records.properties_bytes.sum())
    count_max = (total + len(records)) // PROPERTY_BYTES_MIN + 2
    first = np.empty(len(records) + 1, np.int32)
    name_offsets, value_offsets = np.empty(count_max, np.int32), np.empty(count_max, np.int32)
    names, values = pa.allocate_buffer(total), pa.allocate_buffer(total)
    marked = np.empty((2 * len(_MARKED), len(records)), np.int64)
    count = loops.take_apart(
        records.data,
        records.properties_at,
        records.properties_bytes,
        first,
        name_offsets,
        np.frombuffer(names, np.uint8),
        value_offsets,
        np.frombuffer(values, np.uint8),
        marked,
    )
    if count < 0:
        return None
    cells = _cells(name_offsets[: count + 1], names), _cells(value_offsets[: count + 1], values)
    return TakenApart(first, *cells, Marked(records, marked))


@dataclass(frozen=True, slots=True)
class TakenApart:
    """The names and values of records' properties; `first` is the number of each record's first."""

    first: Offsets
    names: pa.BinaryArray
    values: pa.BinaryArray
    marked: Marked

    def as_map(self, kind: pa.MapType) -> pa.MapArray | None:
        """All properties as one map<string, string> per record."""
        keys = text(self.names)
        if keys.buffers()[2].address != self.names.buffers()[2].address:
            return None  # some names were no UTF-8, and may look alike now that they are text
        return pa.MapArray.from_arrays(pa.array(self.first), keys, text(self.values), type=kind)


def _cells(offsets: Offsets, data: pa.Buffer) -> pa.BinaryArray:
    # without the room behind them, which nobody has filled
    buffers = [None, pa.py_buffer(offsets), data.slice(0, int(offsets[-1]))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
