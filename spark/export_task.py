"""One task of an export: a piece of a store to files in a folder of its own."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from aerobee.remoting.errors import AerobeeError
from aerobee.spark.columns import USUAL, arrow_schema
from aerobee.spark.decode import Decoder
from aerobee.spark.entry_plan import QUEUES_PER_WINDOW, EntryPiece
from aerobee.spark.errors import ExportFailed
from aerobee.spark.export_disk import sync
from aerobee.spark.export_files import PartitionedFiles
from aerobee.spark.export_formats import Format
from aerobee.spark.export_partitions import Partition, group, sorting_order
from aerobee.spark.layout import Records
from aerobee.spark.manifest import ExportedFile
from aerobee.spark.offsets import QueueKey
from aerobee.spark.pieces import piece_records
from aerobee.spark.plan import Piece
from aerobee.spark.selection import Selection

# the topic is in the folder's name
EXPORTED = ("broker", *(name for name in USUAL if name != "topic"))
_COPY_BELOW = 16  # a slice smaller than this part of its batch is copied, not to keep it whole


@dataclass(frozen=True, slots=True)
class ExportTask:
    """What one task does; `folder` is where the tasks of this run write."""

    number: int
    piece: EntryPiece | Piece
    broker: str
    queues_dir: str | None
    selection: Selection
    folder: str
    run: str
    format: Format
    file_bytes: int
    decompress: bool = False
    fail_on_data_loss: bool = True
    attempts_max: int = 1


@dataclass(slots=True)
class Found:
    """How many messages of a queue there were, and from which to which offset."""

    rows: int
    first: int
    last: int

    def add(self, other: Found) -> None:
        """Count others of the same queue too."""
        self.rows += other.rows
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one attempt at a task wrote, and of which queues; or the error that stopped it."""

    files: list[ExportedFile]
    found: dict[QueueKey, Found]
    error: AerobeeError | None = None


def run_task(task: ExportTask) -> TaskResult:
    """Write one piece's records; errors that no further attempt would mend are values.

    Raised in a task they would reach the user inside Spark's tracebacks. Raises OSError where
    Spark is to try again, perhaps on another machine.
    """
    # another attempt, or one going on elsewhere, must not meet the files of this one
    folder = Path(task.folder, f"{task.number:05d}-{uuid.uuid4().hex[:8]}")
    decoder = Decoder(arrow_schema(EXPORTED), decompress=task.decompress, broker=task.broker)
    piece = task.piece
    ordered = isinstance(piece, Piece) or len(piece.ranges) <= QUEUES_PER_WINDOW
    found: dict[QueueKey, Found] = {}
    try:
        folder.mkdir()  # not its parents: a run that was given up must not come back
        files = PartitionedFiles(
            folder,
            decoder.schema,
            task.format.opener(decoder.schema, ordered=ordered),
            name=f"part-{task.run}-{task.number:05d}",
            ending=task.format.ending,
            file_bytes=task.file_bytes,
        )
        for records in piece_records(
            piece, task.queues_dir, task.selection, fail_on_data_loss=task.fail_on_data_loss
        ):
            for partition, batch, times in _partitioned(records, decoder, task.broker, found):
                files.add(partition, batch, times)
        written = files.close()
        sync(folder)
        return TaskResult(written, found)
    except AerobeeError as error:
        return TaskResult([], {}, error)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)  # a full disk needs the room for the next try
        if _attempt() < task.attempts_max:
            raise
        return TaskResult([], {}, ExportFailed(f"cannot write below {folder}: {error}"))


def _attempt() -> int:
    """Which attempt at the task this is, from 1 on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.attemptNumber() + 1 if context else 1


def _partitioned(
    records: Records, decoder: Decoder, broker: str, found: dict[QueueKey, Found]
) -> Iterator[tuple[Partition, pa.RecordBatch, tuple[int, int]]]:
    """The records by topic and day: brought into that order first, decoded once, then sliced."""
    groups = list(group(records))
    if len(groups) > 1:
        order = np.concatenate([rows for _, rows in groups])
        records = records.take(order)
    batch = decoder.decode(records)
    times = records.field("store_timestamp", np.int64)
    queues = records.field("queue_id", np.int64)
    offsets = records.field("queue_offset", np.int64)
    low = 0
    for partition, rows in groups:
        high = low + len(rows)
        part = batch.slice(low, high - low)
        if (high - low) * _COPY_BELOW < len(batch):
            part = part.take(pa.array(np.arange(high - low)))
        for queue_id, seen in _queues(queues[low:high], offsets[low:high]):
            key = QueueKey(broker, partition.topic, queue_id)
            if key in found:
                found[key].add(seen)
            else:
                found[key] = seen
        yield partition, part, (int(times[low:high].min()), int(times[low:high].max()))
        low = high


def _queues(queues: np.ndarray, offsets: np.ndarray) -> Iterator[tuple[int, Found]]:
    """Of each queue among the rows what there is of it."""
    order = sorting_order(queues)
    queues, offsets = queues[order], offsets[order]
    starts = np.flatnonzero(np.diff(queues, prepend=queues[0] - 1))
    rows = np.diff(starts, append=len(queues))
    first = np.minimum.reduceat(offsets, starts)
    last = np.maximum.reduceat(offsets, starts)
    for at, start in enumerate(starts.tolist()):
        yield int(queues[start]), Found(int(rows[at]), int(first[at]), int(last[at]))
