"""One task of an export: a piece of the log to Parquet files in a folder of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from aerobee.remoting.errors import AerobeeError
from aerobee.spark.columns import USUAL, arrow_schema
from aerobee.spark.decode import Decoder
from aerobee.spark.errors import ExportFailed
from aerobee.spark.layout import Records
from aerobee.spark.parquet_files import ParquetFiles, Partition, WrittenFile, group
from aerobee.spark.pieces import piece_records
from aerobee.spark.plan import Piece
from aerobee.spark.selection import Selection

EXPORTED = tuple(name for name in USUAL if name != "topic")  # the topic is in the folder's name
_COPY_BELOW = 16  # a slice smaller than this part of its batch is copied, not to keep it whole


@dataclass(frozen=True, slots=True)
class ExportTask:
    """What one task does; `folder` is where the tasks of this run write."""

    number: int
    piece: Piece
    queues_dir: str | None
    selection: Selection
    folder: str
    name: str
    compression: str
    decompress: bool


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task wrote, below `folder`; or the error that stopped it."""

    folder: str
    files: list[WrittenFile]
    error: AerobeeError | None = None


def run_task(task: ExportTask) -> TaskResult:
    """Write one piece's wanted records; expected errors are returned, as values.

    Raised in a task they would reach the user inside Spark's tracebacks.
    """
    # a second attempt at the same task must not meet the files of the first
    folder = Path(task.folder, f"{task.number:05d}-{uuid.uuid4().hex[:8]}")
    decoder = Decoder(arrow_schema(EXPORTED), decompress=task.decompress)
    files = ParquetFiles(
        folder,
        decoder.schema,
        name=f"{task.number:05d}-{task.name}",
        compression=task.compression,
    )
    try:
        for records in piece_records(task.piece, task.queues_dir, task.selection):
            for partition, batch, times in _partitioned(records, decoder):
                files.add(partition, batch, times)
        return TaskResult(str(folder), files.close())
    except AerobeeError as error:
        return TaskResult(str(folder), [], error)
    except OSError as error:
        return TaskResult(str(folder), [], ExportFailed(f"cannot write below {folder}: {error}"))


def _partitioned(
    records: Records, decoder: Decoder
) -> Iterator[tuple[Partition, pa.RecordBatch, tuple[int, int]]]:
    """The records by topic and day: brought into that order first, decoded once, then sliced."""
    groups = list(group(records))
    if len(groups) > 1:
        order = np.concatenate([rows for _, rows in groups])
        records = Records(records.data, records.base, records.starts[order], records.sizes[order])
    batch = decoder.decode(records)
    times = records.field("store_timestamp", np.int64)
    low = 0
    for partition, rows in groups:
        high = low + len(rows)
        part = batch.slice(low, high - low)
        if (high - low) * _COPY_BELOW < len(batch):
            part = part.take(pa.array(np.arange(high - low)))
        yield partition, part, (int(times[low:high].min()), int(times[low:high].max()))
        low = high
