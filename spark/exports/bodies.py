"""Compressed bodies of exported messages unpacked: of batches that are decoded already."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from aerobee.spark.records.headers import COMPRESSED
from aerobee.spark.records.unpacking import UNPACKED_BYTES_MAX, unpacked


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
        body = unpacked(packed[row].as_py(), int(flags[row]))
        if bodies and size + len(body) > UNPACKED_BYTES_MAX:
            part = _with_bodies(batch.slice(first, len(bodies)), at, bodies)
            bodies, first, size = [], row, 0
            yield part
        bodies.append(body)
        size += len(body)
    yield _with_bodies(batch.slice(first, len(bodies)), at, bodies)


def _with_bodies(batch: pa.RecordBatch, at: int, bodies: list[bytes]) -> pa.RecordBatch:
    """The rows with other bodies, which are column `at`."""
    arrays = batch.columns
    arrays[at] = pa.array(bodies, pa.binary())
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
