"""Compressed bodies of exported messages unpacked, whatever producers have called compressed.

A producer sets the flag, and the broker believes it: what cannot be unpacked is exported as it is
stored. One message must not stop all others for good.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from aerobee.remoting import compression
from aerobee.remoting.errors import AerobeeError
from aerobee.spark.decode import BODY_BYTES_MAX
from aerobee.spark.layout import COMPRESSED

log = logging.getLogger(__name__)

UNPACKED_BYTES_MAX = 64 << 20  # of a batch: a thousand times what is stored, if somebody tries


def unpacked(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
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
        bodies.append(_unpacked(packed[row].as_py(), int(flags[row])))
        size += len(bodies[-1])
        if size >= UNPACKED_BYTES_MAX or row == len(batch) - 1:
            arrays = batch.slice(first, len(bodies)).columns
            arrays[at] = pa.array(bodies, pa.binary())
            yield pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
            bodies, first, size = [], row + 1, 0


def _unpacked(body: bytes, flags: int) -> bytes:
    try:
        return compression.decompress(body, flags, bytes_max=BODY_BYTES_MAX)
    except AerobeeError as error:
        log.debug("%s: exported as it is stored", error)
        return body
