"""A Spark standalone cluster of processes of their own: a master and two workers on free ports.

Its Python knows the packages that are installed, but not this tree: `aerobee` comes with the job.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import pyspark

from aerobee.spark.sessions.java_home import find_java_home, wrap_java
from aerobee.spark.sessions.local import python_script
from support.interop.processes import Process
from support.lake.spark_java import LEAN, quick

START_SECONDS_MAX: Final = 60.0
SUBMIT_SECONDS_MAX: Final = 540.0

# without `site` no .pth file leads to this tree
_PYTHON: Final = """#!/bin/sh
export PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}{packages}
exec {python} -S "$@"
"""


def cluster_environment() -> dict[str, str]:
    """The variables of masters and workers that are quick to start."""
    return {
        "JAVA_HOME": str(wrap_java(find_java_home() / "bin" / "java")),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": quick(),
        "SPARK_LAUNCHER_OPTS": LEAN,
    }


class SparkCluster:
    """A running master with two workers of one core each; use it as a context manager."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.python = directory / "python"
        packages, python = sysconfig.get_path("purelib"), str(python_script(Path(sys.executable)))
        self.python.write_text(
            _PYTHON.format(packages=shlex.quote(packages), python=shlex.quote(python))
        )
        self.python.chmod(0o755)
        self._home = Path(pyspark.__file__).parent
        self._running: list[Process] = []
        self._environment = os.environ | {
            **cluster_environment(),
            "SPARK_HOME": str(self._home),
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
        }

    def __enter__(self) -> Self:
        try:
            master = self._start("master", "master.Master")
            self.url = self._wait_for(master, r"(spark://127\.0\.0\.1:\d+)\n")
            words = ["-c", "1", "-m", "600m", self.url]
            workers = [
                self._start(name, "worker.Worker", "-d", str(self.directory / name), *words)
                for name in ("worker-1", "worker-2")
            ]
            for worker in workers:
                self._wait_for(worker, "(registered with master)")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def submit(
        self, job: Path, *words: str, py_files: Path, conf: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a job by spark-submit to its end, an executor of 512 MB on each worker."""
        settings = {
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": quick(),
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": quick(),
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            **(conf or {}),
        }
        options = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        options += ["--master", self.url, "--py-files", str(py_files)]
        return subprocess.run(
            [str(self._home / "bin" / "spark-submit"), *options, str(job), *words],
            cwd=self.directory,
            # what plans a stream, beside the driver, is not told of --py-files
            env=self._environment | {"PYTHONPATH": str(py_files)},
            capture_output=True,
            text=True,
            timeout=SUBMIT_SECONDS_MAX,
            check=False,
        )

    def executors(self) -> int:
        """How many executors were ever started on the workers."""
        return len(list(self.directory.glob("worker-*/app-*/*/stderr")))

    def stop(self) -> None:
        """End all processes."""
        while self._running:
            self._running.pop().kill()

    def _start(self, name: str, role: str, *words: str) -> Process:
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *words]
        process = Process(command, self.directory / f"{name}.log", self._environment)
        self._running.append(process)
        return process

    def _wait_for(self, process: Process, pattern: str) -> str:
        """Return what the log says in the group of a pattern, once it does."""
        expression = re.compile(pattern)

        def said() -> bool:
            return expression.search(process.log_file.read_text()) is not None

        process.wait_until(said, START_SECONDS_MAX, f"Spark: {pattern}")
        found = expression.search(process.log_file.read_text())
        assert found is not None
        return found[1]
