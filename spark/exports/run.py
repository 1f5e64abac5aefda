"""The tasks of an export on Spark: scheduled, watched, and called off together."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aerobee.spark.errors import ExportFailed
from aerobee.spark.exports.task import ExportTask, TaskResult, run_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_INTERVAL_S = 0.2
ATTEMPTS = 4  # at each task, where the session is ours: Spark's usual number on a cluster
Progress = Callable[[int, int], None]  # tasks done, tasks in all
_LOCAL = re.compile(r"local(?:\[[^,\]]*(?:,\s*(\d+)\s*)?\])?")


class Runner:
    """Runs tasks in one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        return int(self._context.defaultParallelism)

    def run(
        self, tasks: Sequence[ExportTask], progress: Progress | None, beat: Callable[[], None]
    ) -> list[TaskResult]:
        """The results of all tasks, of one attempt at each.

        `beat` is called several times a second. Raises the first error among the results,
        ExportFailed where Spark gave a task up.
        """
        from pyspark import InheritableThread

        attempts = self._attempts_max()
        given = [replace(task, attempts_max=attempts) for task in tasks]
        job_group = f"aerobee-export-{uuid.uuid4().hex}"
        outcome: Future[list[TaskResult]] = Future()

        def work() -> None:
            try:
                outcome.set_result(self._collect(given, job_group))
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
                outcome.set_exception(error)

        thread = InheritableThread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(POLL_INTERVAL_S)
                beat()
                if progress is not None:
                    progress(self._done(job_group), len(tasks))
        except BaseException:  # Ctrl-C: the tasks must not go on writing behind our back
            self._context.cancelJobGroup(job_group)
            thread.join()
            raise
        results = _outcome(outcome)
        if progress is not None:
            progress(len(tasks), len(tasks))
        return results

    def _collect(self, tasks: Sequence[ExportTask], job_group: str) -> list[TaskResult]:
        context = self._context
        context.setJobGroup(job_group, "export", interruptOnCancel=True)
        results: list[TaskResult] = context.parallelize(tasks, len(tasks)).map(run_task).collect()
        return results

    def _attempts_max(self) -> int:
        if found := _LOCAL.fullmatch(self._context.master or ""):
            return int(found[1] or 1)
        return int(self._context.getConf().get("spark.task.maxFailures", str(ATTEMPTS)))

    def _done(self, job_group: str) -> int:
        tracker: Any = self._context.statusTracker()
        done = 0
        for job_id in tracker.getJobIdsForGroup(job_group):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job else ():
                stage = tracker.getStageInfo(stage_id)
                done += stage.numCompletedTasks if stage else 0
        return done


@contextmanager
def runner(spark: SparkSession | None) -> Iterator[Runner]:
    """A runner in the given session, in the one that is active, or in one of its own."""
    from pyspark.sql import SparkSession

    from aerobee.spark.sessions.local import session

    given = spark or SparkSession.getActiveSession()
    own = given or session(f"local[*,{ATTEMPTS}]", app_name="aerobee export", brief=True)
    try:
        yield Runner(own)
    finally:
        if given is None:
            own.stop()


def _outcome(outcome: Future[list[TaskResult]]) -> list[TaskResult]:
    try:
        results = outcome.result()
    except Exception as error:
        raise ExportFailed(f"Spark gave up the export: {_reason(error)}") from error
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def _reason(error: Exception) -> str:
    """What Java or a worker had to say, without the traces that follow."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error) or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b.*:", line)]
    return (python or lines or [type(error).__name__])[-1 if python else 0]
