"""One task of an export: a piece of a store to files in a folder of its own."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path

from aerobee.remoting.errors import AerobeeError, CorruptRecord
from aerobee.spark.errors import ExportFailed
from aerobee.spark.exports.damage import DAMAGE_HINT
from aerobee.spark.exports.reads import PieceReading, Source, readings
from aerobee.spark.lake.disk import DISK, Disk
from aerobee.spark.lake.files import PartitionedFiles
from aerobee.spark.lake.formats import Format
from aerobee.spark.lake.manifest import ExportedFile, Gap
from aerobee.spark.offsets import BrokerQueue
from aerobee.spark.reading.worker_heap import settle_heap
from aerobee.spark.records.tally import Found


@dataclass(frozen=True, slots=True)
class Target:
    """Where all tasks of a run write, below `folder`, and how."""

    folder: str
    run: str
    format: Format
    file_bytes: int
    disk: Disk = DISK

    def files(self, folder: Path, number: int, reading: PieceReading) -> PartitionedFiles:
        """The files of the task of that number, in a folder of its own."""
        return PartitionedFiles(
            folder,
            self.format.opener(self.disk, reading.schema, ordered=reading.ordered),
            name=f"part-{self.run}-{number:05d}",
            ending=self.format.ending,
            file_bytes=self.file_bytes,
        )


@dataclass(frozen=True, slots=True)
class ExportTask:
    """What one task does; Spark makes at most `attempts_max` attempts at it."""

    number: int
    source: Source
    target: Target
    attempts_max: int = 1


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one attempt at a task wrote, and of which queues; or the error that stopped it.

    `gaps` are damaged messages that it left out.
    """

    files: list[ExportedFile]
    found: dict[BrokerQueue, Found]
    error: AerobeeError | None = None
    gaps: list[Gap] = field(default_factory=list)


def run_task(task: ExportTask) -> TaskResult:
    """Write one piece's records; errors that no further attempt would mend are values.

    Raised in a task they would reach the user inside Spark's tracebacks. Raises OSError where
    Spark is to try again, perhaps on another machine.
    """
    disk = task.target.disk
    # another attempt, or one going on elsewhere, must not meet the files of this one
    folder = Path(task.target.folder, f"{task.number:05d}-{uuid.uuid4().hex[:8]}")
    try:
        return _attempted(task, folder)
    except CorruptRecord as error:
        return TaskResult([], {}, CorruptRecord(f"{error}. {DAMAGE_HINT}"))
    except AerobeeError as error:
        return TaskResult([], {}, error)
    except OSError as error:
        disk.remove_tree(folder)  # a full disk needs the room for the next try
        if _attempt() < task.attempts_max:
            raise
        return TaskResult([], {}, ExportFailed(f"cannot write below {folder}: {error}"))
    finally:
        settle_heap()


def _attempted(task: ExportTask, folder: Path) -> TaskResult:
    """Write what is read, until it is read in a way that can be relied on."""
    disk = task.target.disk
    for reading in readings(task.source):
        disk.make_folder(folder)  # not its parents: a run that was given up must not come back
        files = task.target.files(folder, task.number, reading)
        for batch in reading.batches():
            files.add(batch.partition, batch.rows, batch.bytes, batch.times)
        written = files.close()
        if (met := reading.met()) is not None:
            disk.sync(folder)
            return TaskResult(written, met.found, gaps=met.gaps)
        disk.remove_tree(folder)
    raise AssertionError("the last way to read is relied on")


def _attempt() -> int:
    """Which attempt at the task this is, from 1 on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.attemptNumber() + 1 if context else 1
