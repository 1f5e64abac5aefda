"""A process that exports when it is told to, and that may be killed: `python -m ... STORE LAKE`.

It reads one word per line, `export` or `dying`, runs one incremental export, and answers `done`
with the number of messages. With `dying`, the first attempt at each task ends its worker when all
its files are written. `--inline` runs tasks in the process itself, without Spark.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from aerobee.spark import export_run, export_task, plan
from aerobee.spark.export_task import ExportTask, TaskResult

TESTS = Path(__file__).parents[1]


def dying(task: ExportTask) -> TaskResult:
    """Run the task; the first attempt at it takes its worker along."""
    result = export_task.run_task(task)
    try:
        Path(task.folder, f"died-{task.number}").touch(exist_ok=False)
    except FileExistsError:
        return result
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the worker is gone")


class ExportingChild:
    """The parent's side: start, tell, kill."""

    def __init__(self, store: Path, lake: Path, *more: str) -> None:
        self._errors = (lake.parent / "child.log").open("a")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.exporting_child", str(store), str(lake), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )

    def ready(self) -> None:
        """Wait until it takes orders."""
        assert self._line() == "ready"

    def tell(self, word: str) -> None:
        """Let it begin an export."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def done(self) -> int:
        """Wait until the export is done; how many messages it added."""
        line = self._line()
        assert line.startswith("done "), line
        return int(line.split()[1])

    def workers(self) -> list[psutil.Process]:
        """Spark's Python workers: what the daemon, a child of Java, has forked."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if "pyspark.daemon" in process.cmdline() and process.parent() is not None:
                    parent = process.parent()
                    if parent is not None and "pyspark.daemon" in parent.cmdline():
                        found.append(process)
            except psutil.Error:
                continue  # ended meanwhile
        return found

    def kill(self) -> None:
        """End it without a chance to do anything; Java follows, as its input ends."""
        java = psutil.Process(self.process.pid).children()
        self.process.kill()
        self.process.wait()
        self.process.communicate()
        psutil.wait_procs(java, timeout=30)
        self._errors.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def main(store: str, lake: str, *more: str) -> None:
    """Obey until the input ends."""
    from aerobee.spark import export, session
    from support.exports import Inline

    spark = None
    patches = pytest.MonkeyPatch()
    if "--inline" in more:
        Inline().use(patches)
    else:
        spark = session("local[2,4]", conf={"spark.driver.memory": "512m"})
        plan.PIECE_BYTES_MIN = 1 << 18  # several tasks for small stores
    print("ready", flush=True)
    for line in sys.stdin:
        chosen = dying if line.strip() == "dying" else export_task.run_task
        patches.setattr(export_run, "run_task", chosen)
        summary = export(store, lake, incremental=True, spark=spark)
        print(f"done {summary.messages}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
