"""Compressed bodies of exported messages unpacked: of batches that are decoded already."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from aerobee.spark.layout import COMPRESSED
from aerobee.spark.unpacking import UNPACKED_BYTES_MAX, unpacked


def unpacked_batches(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows with their bodies unpacked where they can be; in parts, where they grow large."""
    flags = batch.column("sys_flag").to_numpy()
    if not (flags & COMPRESSED).any():
        yield batch
        return
    at = batch.schema.get_field_index("body")
    packed = batch.column(at)
    bodies: list[bytes] = []
    first = size = 0
    for row in range(len(batch)):
        bodies.append(unpacked(packed[row].as_py(), int(flags[row])))
        size += len(bodies[-1])
        if size >= UNPACKED_BYTES_MAX or row == len(batch) - 1:
            arrays = batch.slice(first, len(bodies)).columns
            arrays[at] = pa.array(bodies, pa.binary())
            yield pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
            bodies, first, size = [], row + 1, 0
