"""Processes that export and may be killed, forked by one that lives: `python -m ... STORE LAKE`.

For each line on its input, `export`, `dying` or what `export()` is to be asked as JSON, a driver is
forked that runs an export, an incremental one if nothing else is said. With `dying`, the first
attempt at each task ends its worker when all its files are written. Drivers share one Java and its
Spark context, which outlive them: what a killed one has begun there goes on. With `--inline` a
driver runs the tasks itself, without Spark.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Self

import psutil
import pytest

from aerobee.spark.exports import run as export_run
from aerobee.spark.exports import task as export_task
from aerobee.spark.exports.options import Wanted
from aerobee.spark.exports.task import ExportTask, TaskResult
from aerobee.spark.planning import log_pieces as plan

TESTS = Path(__file__).parents[2]
DONE_WITHIN_S = 90.0
LOG, LOG_SHOWN = "drivers.log", 2000


class Driver:
    """A process that runs one export."""

    def __init__(self, pid: int, told: Path) -> None:
        self._pid = pid
        self._told = told

    def done(self) -> int:
        """Wait until the export is done; how many messages it added."""
        self._ended()
        log = self._told.with_name(LOG)
        assert self._told.exists(), f"the driver has failed: {log.read_text()[-LOG_SHOWN:]}"
        return int(self._told.read_text())

    def said(self) -> str:
        """Wait until it has ended: its messages, its error, or nothing if it was killed."""
        self._ended()
        return self._told.read_text() if self._told.exists() else ""

    def kill(self) -> None:
        """End it, if it still runs, without a chance to do anything."""
        try:
            psutil.Process(self._pid).kill()
        except psutil.NoSuchProcess:
            return
        self._ended()

    def _ended(self) -> None:
        try:
            psutil.Process(self._pid).wait(DONE_WITHIN_S)
        except psutil.NoSuchProcess:
            return


class Drivers:
    """Starts drivers for one store and one lake; ends with its block."""

    def __init__(self, store: Path, lake: Path, *more: str) -> None:
        self._folder = lake.parent
        self._errors = (self._folder / LOG).open("a")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.lake.export_drivers", str(store), str(lake), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )

    def __enter__(self) -> Self:
        assert self._line() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        java = psutil.Process(self._process.pid).children()
        self._process.kill()
        self._process.communicate()
        psutil.wait_procs(java, timeout=30)  # it follows, as its input ends
        self._errors.close()

    def start(self, word: str = "export") -> Driver:
        """Let a driver begin an export."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        pid = int(self._line())
        return Driver(pid, self._folder / f"told-{pid}")

    def workers(self) -> list[psutil.Process]:
        """Spark's Python workers: what the daemon, a child of Java, has forked."""
        found = []
        for process in psutil.Process(self._process.pid).children(recursive=True):
            try:
                parent = process.parent()
                if parent is not None and "pyspark.daemon" in parent.cmdline():
                    found.append(process)
            except psutil.Error:
                continue  # ended meanwhile
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def main(store: str, lake: str, *more: str) -> None:
    """Fork until the input ends."""
    from aerobee.spark import export, session
    from support.lake.exports import Inline

    spark = None
    patches = pytest.MonkeyPatch()
    if "--inline" in more:
        Inline().use(patches)
    else:
        spark = session("local[2,4]", conf={"spark.driver.memory": "512m"})
        plan.PIECE_BYTES_MIN = 1 << 15  # several tasks for small stores
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # drivers are not waited for

    def drive(wanted: Wanted) -> None:
        told = Path(lake).parent / f"told-{os.getpid()}"
        try:
            told.write_text(str(export(store, lake, spark=spark, **wanted).messages))
        except BaseException as error:  # noqa: BLE001 - told to whoever reads the log
            traceback.print_exc()
            if asked:
                told.write_text(f"{type(error).__name__}: {error}")

    print("ready", flush=True)
    for line in sys.stdin:
        asked = line.startswith("{")
        wanted: Wanted = json.loads(line) if asked else {"incremental": True}
        chosen = _dying if line.strip() == "dying" else export_task.run_task
        patches.setattr(export_run, "run_task", chosen)
        if pid := os.fork():
            print(pid, flush=True)
            continue
        # a thread of its own has connections of its own to Java: nothing is shared with others
        thread = threading.Thread(target=drive, args=[wanted])
        thread.start()
        thread.join()
        sys.stderr.flush()
        os._exit(0)


def _dying(task: ExportTask) -> TaskResult:
    """Run the task; the first attempt at it takes its worker along."""
    result = export_task.run_task(task)
    try:
        Path(task.target.folder, f"died-{task.number}").touch(exist_ok=False)
    except FileExistsError:
        return result
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the worker is gone")


if __name__ == "__main__":
    main(*sys.argv[1:])
