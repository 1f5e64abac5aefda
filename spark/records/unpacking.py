"""Compressed bodies unpacked, whatever producers have called compressed, in bounded memory.

A producer sets the flag, and the broker believes it: what cannot be unpacked stays as it is
stored. One message must not stop all others for good, nor take the memory of a task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.message import compression
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import COMPRESSED

log = logging.getLogger(__name__)

# what one body may grow to: RocketMQ lets producers send 4 MiB (maxMessageSize), before packing
BODY_BYTES_MAX: Final = 64 << 20
UNPACKED_BYTES_MAX: Final = 32 << 20  # of a batch, or a single larger body


def unpacked(body: bytes, flags: int) -> bytes:
    """A body as it was sent; as it is stored where that cannot be had in BODY_BYTES_MAX."""
    try:
        return compression.decompress(body, flags, bytes_max=BODY_BYTES_MAX)
    except (AerobeeError, MemoryError) as error:
        log.debug("%s: left as it is stored", error)
        return body


def unpacked_parts(records: Records) -> Iterator[tuple[Records, pa.Array | None]]:
    """The records with their bodies unpacked; in parts of UNPACKED_BYTES_MAX, or a single body.

    None in place of bodies says that none of them is compressed.
    """
    flags = records.field("sys_flag", np.int32)
    if not (flags & COMPRESSED).any():
        yield records, None
        return
    data = memoryview(records.data)  # type: ignore[arg-type]
    places = zip(records.body_at.tolist(), records.body_bytes.tolist(), flags.tolist(), strict=True)
    bodies: list[bytes | memoryview] = []
    first = size = 0
    for row, (at, length, flag) in enumerate(places):
        body: bytes | memoryview = data[at : at + length]
        if flag & COMPRESSED:
            body = unpacked(bytes(body), flag)
        if bodies and size + len(body) > UNPACKED_BYTES_MAX:
            array = pa.array(bodies, pa.binary())
            bodies, size = [], 0
            yield records.only(slice(first, row)), array
            first = row
        bodies.append(body)
        size += len(body)
    yield records.only(slice(first, len(records))), pa.array(bodies, pa.binary())
