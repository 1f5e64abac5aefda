"""One task of an export: a piece of a store to files in a folder of its own."""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from aerobee.remoting.errors import AerobeeError, CorruptRecord
from aerobee.spark.columns import arrow_schema
from aerobee.spark.errors import DataLost, ExportFailed
from aerobee.spark.exports.bodies import unpacked_batches
from aerobee.spark.exports.damage import DAMAGE_HINT, LeftOut
from aerobee.spark.exports.walk import find_walk
from aerobee.spark.lake.disk import sync
from aerobee.spark.lake.files import PartitionedFiles
from aerobee.spark.lake.formats import Format
from aerobee.spark.lake.manifest import ExportedFile, Gap
from aerobee.spark.lake.partitions import Partition, group
from aerobee.spark.lake.schema import EXPORTED
from aerobee.spark.offsets import QueueKey
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.planning.queue_pieces import QUEUES_PER_WINDOW, EntryPiece
from aerobee.spark.reading.pieces import piece_records
from aerobee.spark.reading.worker_heap import settle_heap
from aerobee.spark.records.cells import coded
from aerobee.spark.records.damage import STRICT
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.headers import Records
from aerobee.spark.records.selection import Selection
from aerobee.spark.records.tally import Found, QueueTally

log = logging.getLogger(__name__)

# the topic is in the folder's name
CODED = ("broker", "born_host", "store_host")  # which repeat, and need not be compared to know
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


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one attempt at a task wrote, and of which queues; or the error that stopped it.

    `gaps` are damaged messages that it left out.
    """

    files: list[ExportedFile]
    found: dict[QueueKey, Found]
    error: AerobeeError | None = None
    gaps: list[Gap] = field(default_factory=list)


def run_task(task: ExportTask) -> TaskResult:
    """Write one piece's records; errors that no further attempt would mend are values.

    Raised in a task they would reach the user inside Spark's tracebacks. Raises OSError where
    Spark is to try again, perhaps on another machine.
    """
    # another attempt, or one going on elsewhere, must not meet the files of this one
    folder = Path(task.folder, f"{task.number:05d}-{uuid.uuid4().hex[:8]}")
    try:
        folder.mkdir()  # not its parents: a run that was given up must not come back
        walked = _walked(task, folder)
        return _by_entries(task, folder) if walked is None else walked
    except CorruptRecord as error:
        return TaskResult([], {}, CorruptRecord(f"{error}. {DAMAGE_HINT}"))
    except AerobeeError as error:
        return TaskResult([], {}, error)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)  # a full disk needs the room for the next try
        if _attempt() < task.attempts_max:
            raise
        return TaskResult([], {}, ExportFailed(f"cannot write below {folder}: {error}"))
    finally:
        settle_heap()


def _walked(task: ExportTask, folder: Path) -> TaskResult | None:
    """What a walk along the log writes, None where it does not meet what the queues promise."""
    if not isinstance(task.piece, EntryPiece) or not task.selection.everything:
        return None
    walk = find_walk(task.piece)
    if walk is None:
        return None
    tally = QueueTally(task.broker, walk.ranges)
    try:
        files = _write(task, folder, walk.records(), tally, ordered=True)
        if tally.complete:
            return TaskResult(files, tally.found())
        log.info("%s: the log is not as its queues say; going by these", task.piece.log_dir)
    except (CorruptRecord, DataLost) as error:
        log.info("%s; going by the queues' entries", error)
    _empty(folder)
    return None


def _by_entries(task: ExportTask, folder: Path, *, doubted: bool = False) -> TaskResult:
    """What the entries of the queues point at, or all of the log where it has none.

    With `doubted`, each record's offset is compared with its entry's.
    """
    piece = task.piece
    ranges = piece.ranges if isinstance(piece, EntryPiece) else None
    ordered = ranges is None or len(ranges) <= QUEUES_PER_WINDOW
    left_out = None if task.fail_on_data_loss else LeftOut()
    # a damaged record may say that it is any queue's: where one may be left out, it is not believed
    tally = QueueTally(task.broker, ranges if left_out else None)
    chunks = piece_records(
        piece,
        task.queues_dir,
        task.selection,
        left_out or STRICT,
        fail_on_data_loss=task.fail_on_data_loss,
    )
    if left_out and doubted and isinstance(piece, EntryPiece):
        chunks = left_out.believable(chunks, piece)
    files = _write(task, folder, chunks, tally, left_out, ordered=ordered)
    found = tally.found()
    if left_out and not doubted and ranges and not all(each.ordered for each in found.values()):
        _empty(folder)
        return _by_entries(task, folder, doubted=True)
    planned = sum(each.end - each.start for each in ranges or ())
    complete = sum(each.rows for each in found.values()) >= planned
    gaps = left_out.gaps(piece, task.broker, complete=complete) if left_out else []
    return TaskResult(files, found, gaps=gaps)


def _empty(folder: Path) -> None:
    """Remove what an attempt has written, to begin it anew."""
    shutil.rmtree(folder)
    folder.mkdir()


def _write(
    task: ExportTask,
    folder: Path,
    chunks: Iterator[Records],
    tally: QueueTally,
    left_out: LeftOut | None = None,
    *,
    ordered: bool,
) -> list[ExportedFile]:
    decoder = Decoder(
        coded(arrow_schema(EXPORTED, task.format.properties), CODED), broker=task.broker
    )
    files = PartitionedFiles(
        folder,
        decoder.schema,
        task.format.opener(decoder.schema, ordered=ordered),
        name=f"part-{task.run}-{task.number:05d}",
        ending=task.format.ending,
        file_bytes=task.file_bytes,
    )
    for records in chunks:
        for partition, batch, size, times in _partitioned(records, decoder, tally, left_out):
            if not task.decompress:
                files.add(partition, batch, size, times)
                continue
            for part in unpacked_batches(batch):
                files.add(partition, part, part.nbytes, times)
    written = files.close()
    sync(folder)
    return written


def _attempt() -> int:
    """Which attempt at the task this is, from 1 on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.attemptNumber() + 1 if context else 1


def _partitioned(
    records: Records, decoder: Decoder, tally: QueueTally, left_out: LeftOut | None
) -> Iterator[tuple[Partition, pa.RecordBatch, int, tuple[int, int]]]:
    """The records by topic and day: brought into that order first, decoded once, then sliced.

    With each its bytes, about: its share of the batch's, which are slow to count.
    """
    groups = list(group(records, tally, left_out.note_strangers if left_out else None))
    if not groups:
        return
    order = np.concatenate([rows for _, rows in groups])
    if len(groups) > 1 or len(order) < len(records):
        records = records.take(order)
    batch = decoder.decode(records)
    times = records.field("store_timestamp", np.int64)
    bytes_per_byte = batch.nbytes / records.sizes.sum()
    low = 0
    for partition, rows in groups:
        high = low + len(rows)
        part = batch.slice(low, high - low)
        if (high - low) * _COPY_BELOW < len(batch):
            part = part.take(pa.array(np.arange(high - low)))
        size = int(records.sizes[low:high].sum() * bytes_per_byte)
        yield partition, part, size, (int(times[low:high].min()), int(times[low:high].max()))
        low = high
