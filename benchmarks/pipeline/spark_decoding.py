"""Decoding without Spark: one core, CPU time, beside what this machine's memory allows."""

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from support.lake.plans import LogPlan

from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records.columns import USUAL
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.selection import EVERYTHING

TWELVE: Final = [name for name in USUAL if name not in ("tags", "keys")]
COPY_BYTES: Final = 64 << 20
COPY_BLOCK_BYTES: Final = 1 << 20


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time that some work of this process takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def copy_rate() -> float:
    """Bytes per second that this machine copies in blocks of 1 MiB, once over 64 MiB."""
    source = _copied()

    def work() -> None:
        target = np.empty(COPY_BLOCK_BYTES, np.uint8)
        for _ in range(4):
            for at in range(0, len(source), len(target)):
                np.copyto(target, source[at : at + len(target)])

    return 4 * len(source) / cpu_seconds(work)


def decode(plan: LogPlan, schema: pa.Schema) -> int:
    """Decode the whole store piece by piece; return the number of rows."""
    decoder = Decoder(schema)
    return sum(
        len(batch) for piece in plan.pieces for batch in piece_batches(piece, EVERYTHING, decoder)
    )


_source: list[np.ndarray[Any, Any]] = []


def _copied() -> np.ndarray[Any, Any]:
    if not _source:
        _source.append(np.ones(COPY_BYTES, np.uint8))
    return _source[0]
