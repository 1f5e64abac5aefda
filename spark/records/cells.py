"""Variable-length cells cut out of a byte block without a loop over them.

Arrow's `binary_view` cells may point anywhere into a buffer; casting them to plain binary makes
Arrow copy all of them together in C++, at nearly the speed of a memory copy.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from aerobee.spark.records.layout import Bytes, Ints, unaligned

INLINE_BYTES = 12  # cells up to this length hold their bytes themselves (Arrow's view layout)
_VIEW = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])
_INLINE = np.dtype([("length", "<i4"), ("bytes", f"V{INLINE_BYTES}")])


def gathered(data: Bytes, starts: Ints, lengths: Any) -> pa.BinaryArray:
    """The cells `data[start:start + length]` as one binary array.

    `data` needs `INLINE_BYTES` behind the start of its last cell. Starts may come in any order;
    all cells together must stay under 2 GiB.
    """
    views = np.zeros(len(starts), _VIEW)  # the prefix may stay 0: the cast never reads it
    views["length"] = lengths
    views["offset"] = starts
    short = views["length"] <= INLINE_BYTES
    if short.all():
        views.view(_INLINE)["bytes"] = unaligned(data, f"V{INLINE_BYTES}")[starts]
    elif short.any():
        rows = np.flatnonzero(short)
        views.view(_INLINE)["bytes"][rows] = unaligned(data, f"V{INLINE_BYTES}")[starts[rows]]
    buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), len(views), buffers).cast(pa.binary())


def text(cells: pa.BinaryArray) -> pa.StringArray:
    """The cells as strings; what is no UTF-8 becomes U+FFFD, as Java's decoder has it."""
    if _ascii(cells.buffers()[2]):
        return pa.Array.from_buffers(pa.string(), len(cells), cells.buffers(), offset=cells.offset)
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        values = [None if cell is None else cell.decode(errors="replace") for cell in _py(cells)]
        return pa.array(values, pa.string())


def _ascii(data: pa.Buffer | None) -> bool:
    """Whether all bytes are ASCII, which is far quicker to tell than whether they are UTF-8."""
    return not data or not len(data) or int(np.frombuffer(data, np.uint8).max()) < 128


def coded(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """The schema with these text columns as dictionaries."""
    kind = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([each.with_type(kind) if each.name in names else each for each in schema])


def one_code(word: str, count: int) -> pa.DictionaryArray:
    """One text in every row, as a dictionary."""
    # of few lengths, so that batches share it
    return _one_code(word, 1 << max(count - 1, 0).bit_length()).slice(0, count)


@lru_cache(maxsize=16)
def _one_code(word: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([word]))


def payload(cells: pa.BinaryArray) -> tuple[Bytes, Ints]:
    """The bytes of all cells in a row, with slack for `gathered`, and where each cell starts.

    The starts have one element more than there are cells.
    """
    _, offsets_buffer, data_buffer = cells.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(cells) + 1, cells.offset * 4)
    total = int(offsets[-1])
    data = np.zeros(total + 2 * INLINE_BYTES, np.uint8)
    if total:
        data[:total] = np.frombuffer(data_buffer, np.uint8, total)
    return data, offsets.astype(np.int64)


def with_nulls(cells: pa.StringArray, missing: Any) -> pa.StringArray:
    """The same cells, null where `missing` is true."""
    present = np.packbits(~missing, bitorder="little")
    _, offsets, data = cells.buffers()
    return pa.Array.from_buffers(
        cells.type, len(cells), [pa.py_buffer(present), offsets, data], int(missing.sum())
    )


def _py(cells: pa.BinaryArray) -> list[bytes | None]:
    values: list[bytes | None] = cells.to_pylist()
    return values
