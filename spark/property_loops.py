"""Properties taken apart by compiled code; `properties.py` defines what comes out.

Both functions return None where there is no compiled code, or where what the records hold is rare
enough to be left to numpy: names that repeat, very many of them, or some that are no UTF-8.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aerobee.spark import acceleration
from aerobee.spark.cells import ragged, text, with_nulls
from aerobee.spark.layout import Records

PROPERTY_BYTES_MIN = 4  # name, value and the bytes between and behind them
Offsets = npt.NDArray[np.int32]


def find_compiled(records: Records, name: bytes) -> pa.StringArray | None:
    """The value of one property per record, null where a record does not have it."""
    loops, count = acceleration.loops, len(records)
    if loops is None:
        return None
    at, lengths = np.empty(count, np.int64), np.empty(count, np.int64)
    starts, sizes = records.properties_at, records.properties_bytes
    lacking = loops.find(records.data, starts, sizes, name, at, lengths)
    if lacking < 0:
        return None
    missing = lengths < 0
    if lacking:
        lengths[missing] = 0
    cells = text(ragged(records.data, at, lengths))
    return with_nulls(cells, missing) if lacking else cells


def map_compiled(records: Records, kind: pa.MapType) -> pa.MapArray | None:
    """All properties as one map<string, string> per record."""
    loops = acceleration.loops
    if loops is None:
        return None
    total = int(records.properties_bytes.sum())
    count_max = (total + len(records)) // PROPERTY_BYTES_MIN + 2
    first = np.empty(len(records) + 1, np.int32)
    name_offsets, value_offsets = np.empty(count_max, np.int32), np.empty(count_max, np.int32)
    names, values = pa.allocate_buffer(total), pa.allocate_buffer(total)
    count = loops.take_apart(
        records.data,
        records.properties_at,
        records.properties_bytes,
        first,
        name_offsets,
        np.frombuffer(names, np.uint8),
        value_offsets,
        np.frombuffer(values, np.uint8),
    )
    if count < 0:
        return None
    cells = _cells(name_offsets[: count + 1], names)
    keys = text(cells)
    if keys.buffers()[2].address != cells.buffers()[2].address:
        return None  # some names were no UTF-8, and may look alike now that they are made text
    items = text(_cells(value_offsets[: count + 1], values))
    return pa.MapArray.from_arrays(pa.array(first), keys, items, type=kind)


def _cells(offsets: Offsets, data: pa.Buffer) -> pa.BinaryArray:
    buffers = [None, pa.py_buffer(offsets), data]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
