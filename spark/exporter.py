"""A store's messages to Parquet, by topic and day: Spark schedules, Python tasks write."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aerobee.spark import export_target
from aerobee.spark.errors import OptionError
from aerobee.spark.export_task import ExportTask, TaskResult, run_task
from aerobee.spark.parquet_files import COMPRESSIONS, WrittenFile, day_text
from aerobee.spark.planner import Plan, plan_store
from aerobee.spark.selection import Selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_INTERVAL_S = 0.2
Progress = Callable[[int, int], None]  # tasks done, tasks in all


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """What an export holds of one topic; times are store timestamps in ms."""

    topic: str
    messages: int
    days: int
    files: int
    bytes: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What an export did: per topic, and the log it read (`log_bytes`) in `seconds`."""

    store: str
    target: str
    topics: list[TopicSummary]
    log_bytes: int
    seconds: float

    @property
    def messages(self) -> int:
        """How many messages were written."""
        return sum(topic.messages for topic in self.topics)

    @property
    def files(self) -> int:
        """How many files were written."""
        return sum(topic.files for topic in self.topics)

    @property
    def bytes(self) -> int:
        """How many bytes the files have."""
        return sum(topic.bytes for topic in self.topics)


def export(
    store: str | Path,
    out_dir: str | Path,
    *,
    topics: Collection[str] | None = None,
    since: datetime | int | None = None,
    until: datetime | int | None = None,
    overwrite: bool = False,
    decompress: bool = False,
    compression: str = "snappy",
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> ExportSummary:
    """Write a store's messages to `out_dir/topic=.../date=.../*.parquet`, all or nothing.

    `since` (included) and `until` (excluded) compare with store timestamps; datetimes without a
    time zone are UTC, numbers are ms since 1970. Dates in folder names are UTC days of the store
    timestamp. A folder with an earlier export is refused unless `overwrite` replaces it. `spark`
    is the session to use; without one a local session is made and stopped again.

    Raises OptionError, ExportRefused, StoreUnreadable, CorruptRecord, ExportFailed, JavaMissing;
    `out_dir` then is as it was.
    """
    if compression not in COMPRESSIONS:
        raise OptionError(f"compression {compression!r} is not one of {', '.join(COMPRESSIONS)}")
    selection = Selection(
        frozenset(topics) if topics else None, milliseconds(since), milliseconds(until)
    )
    began = time.monotonic()
    plan = plan_store(str(store), selection)
    target = Path(out_dir)
    with export_target.locked(target):
        export_target.check_target(target, overwrite=overwrite)
        export_target.remove_leftovers(target)
        run = uuid.uuid4().hex[:8]
        try:
            results = _run(
                _tasks(plan, selection, target, run, compression, decompress), spark, progress
            )
            files = [file for result in results for file in result.files]
            manifest = _manifest(str(store), plan, selection, files)
            moves = [
                (Path(result.folder, file.path), file.path)
                for result in results
                for file in result.files
            ]
            export_target.commit(target, manifest, moves)
        finally:
            export_target.remove_leftovers(target)
    seconds = time.monotonic() - began
    return ExportSummary(str(store), str(target), _by_topic(files), plan.bytes, seconds)


def milliseconds(moment: datetime | int | None) -> int | None:
    """A point in time as ms since 1970; a datetime without a zone is UTC."""
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _tasks(
    plan: Plan,
    selection: Selection,
    target: Path,
    run: str,
    compression: str,
    decompress: bool,
) -> list[ExportTask]:
    folder = str(target.absolute() / f"{export_target.TEMPORARY}{run}")
    return [
        ExportTask(number, piece, plan.queues_dir, selection, folder, run, compression, decompress)
        for number, piece in enumerate(plan.pieces)
    ]


def _run(
    tasks: Sequence[ExportTask], spark: SparkSession | None, progress: Progress | None
) -> list[TaskResult]:
    """The results of all tasks. Raises the first error among them."""
    if not tasks:
        return []
    if spark is not None:
        results = _on_spark(spark, tasks, progress)
    else:
        from pyspark.sql import SparkSession

        from aerobee.spark.local_session import session

        running = SparkSession.getActiveSession()
        own = running or session(app_name="aerobee export")
        try:
            results = _on_spark(own, tasks, progress)
        finally:
            if running is None:
                own.stop()
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def _on_spark(
    spark: SparkSession, tasks: Sequence[ExportTask], progress: Progress | None
) -> list[TaskResult]:
    from pyspark import InheritableThread

    context = spark.sparkContext
    job_group = f"aerobee-export-{uuid.uuid4().hex}"
    outcome: Future[list[TaskResult]] = Future()

    def work() -> None:
        try:
            context.setJobGroup(job_group, "export to Parquet", interruptOnCancel=True)
            outcome.set_result(context.parallelize(tasks, len(tasks)).map(run_task).collect())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            outcome.set_exception(error)

    thread = InheritableThread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_INTERVAL_S)
            if progress is not None:
                progress(_tasks_done(context, job_group), len(tasks))
    except BaseException:  # Ctrl-C: the tasks must not go on writing behind our back
        context.cancelJobGroup(job_group)
        thread.join()
        raise
    if progress is not None and outcome.exception() is None:
        progress(len(tasks), len(tasks))
    return outcome.result()


def _tasks_done(context: Any, job_group: str) -> int:
    tracker = context.statusTracker()
    done = 0
    for job_id in tracker.getJobIdsForGroup(job_group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            done += stage.numCompletedTasks if stage else 0
    return done


def _manifest(
    store: str, plan: Plan, selection: Selection, files: Sequence[WrittenFile]
) -> dict[str, Any]:
    return {
        "store": store,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "log_start": plan.pieces[0].start if plan.pieces else None,
        "log_end": plan.pieces[-1].end if plan.pieces else None,
        "topics": sorted(selection.topics) if selection.topics is not None else None,
        "since_ms": selection.since_ms,
        "until_ms": selection.until_ms,
        "files": [
            {
                **asdict(file),
                "partition": {"topic": file.partition.topic, "date": day_text(file.partition.day)},
            }
            for file in files
        ],
    }


def _by_topic(files: Sequence[WrittenFile]) -> list[TopicSummary]:
    grouped: dict[str, list[WrittenFile]] = defaultdict(list)
    for file in files:
        grouped[file.partition.topic].append(file)
    return [
        TopicSummary(
            topic,
            messages=sum(file.rows for file in group),
            days=len({file.partition.day for file in group}),
            files=len(group),
            bytes=sum(file.bytes for file in group),
            first_ms=min(file.store_timestamp_min for file in group),
            last_ms=max(file.store_timestamp_max for file in group),
        )
        for topic, group in sorted(grouped.items())
    ]
