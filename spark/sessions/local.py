"""A Spark session on this machine that works at once: Java found, Python right, logs quiet."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aerobee.spark.errors import OptionError
from aerobee.spark.sessions.java_home import find_java_home, wrap_java
from aerobee.spark.sessions.scripts import cache_dir, cache_path, write_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark puts its own pyspark.zip before everything else; it holds no compiled files, so that each
# Python worker would compile PySpark anew (more than a second of CPU). Without it they import
# the installed PySpark, which is the same. Arrow's allocator gives free memory back to the system
# at once if nothing else is said, and a task that goes through batches gets it anew for each,
# filled with zeros: a sixth of an export's CPU time. It keeps it for some seconds here.
_PYTHON = """#!/bin/sh
IFS=:
kept=
for entry in $PYTHONPATH; do
  case $entry in
    */pyspark.zip|*/py4j-*-src.zip|*/spark-core_*.jar) ;;
    *) kept=${{kept:+$kept:}}$entry ;;
  esac
done
if [ -n "$kept" ]; then export PYTHONPATH="$kept"; else unset PYTHONPATH; fi
export MIMALLOC_PURGE_DELAY="${{MIMALLOC_PURGE_DELAY:-10000}}"
if [ "$1 $2" = "-m pyspark.daemon" ]; then
  shift 2
  set -- -m {daemon} "$@"
fi
exec {python} "$@"
"""

_LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark %p %c{{1}}: %m%n%ex
# PySpark's gateway else raises the level to WARN and says so
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.task.name = org.apache.spark.scheduler.TaskSetManager
logger.task.level = {tasks}
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = {tasks}
"""


def session(
    master: str = "local[*]",
    *,
    app_name: str = "aerobee",
    conf: Mapping[str, str] | None = None,
    brief: bool = False,
) -> SparkSession:
    """A Spark session that reads stores: `session().read.format("rocketmq")`.

    Returns the running session if there is one. `conf` are Spark settings that win over ours.
    `brief` is for seconds of work, or for such that Python does: Java does not stop to optimise
    itself then, and is there with two thirds of the CPU time.
    Raises JavaMissing where no Java 17 or later is found, OptionError for the master of a cluster,
    whose machines have neither this one's Python nor its files.
    """
    from aerobee.spark.source import RocketMQSource

    if not master.startswith("local"):
        raise OptionError(
            f"session() makes sessions on this machine, not on {master!r}: submit the job by"
            " spark-submit, or make one by SparkSession.builder and aerobee.spark.register(it)"
        )
    prepare_environment()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    from pyspark.sql import SparkSession

    java_options = f"-Dlog4j2.configurationFile={_logging_file().as_uri()}"
    if brief:
        java_options += " -XX:TieredStopAtLevel=1"
    settings = {
        "spark.driver.extraJavaOptions": java_options,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # rows come from Python workers by a socket; TCP costs them a sixth of their time
        "spark.python.unix.domain.socket.enabled": str(os.name == "posix").lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        **(conf or {}),
    }
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(RocketMQSource)
    return spark


def prepare_environment() -> None:
    """Set JAVA_HOME and the Python of Spark's workers for sessions that this process starts.

    A PYSPARK_PYTHON that is set already stays. Raises JavaMissing.
    """
    java = find_java_home() / "bin" / "java"
    os.environ["JAVA_HOME"] = str(wrap_java(java))
    script = str(python_script(Path(sys.executable), daemon="aerobee.spark.sessions.python_daemon"))
    os.environ.setdefault("PYSPARK_PYTHON", script)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", script)  # by which Java looks for sources


def python_script(python: Path, *, daemon: str = "pyspark.daemon") -> Path:
    """A script that starts `python` without Spark's zipped PySpark on its path.

    `daemon` names the module that workers are forked from (`python_daemon.py` is one).
    """
    text = _PYTHON.format(python=shlex.quote(str(python)), daemon=daemon)
    return write_script(cache_path(f"{daemon}-python", python), text)


def _logging_file() -> Path:
    # a failed task is told by the exception; its lines in the log would come four times more
    return write_script(cache_dir() / "spark-log4j2.properties", _LOGGING.format(tasks="off"))
