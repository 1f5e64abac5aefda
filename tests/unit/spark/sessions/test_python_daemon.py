"""The process that Spark's Python workers are forked from."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Spark forks its workers here")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for a socket, whose whole path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="daemon-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("module", ["aerobee.spark.sessions.python_daemon", "pyspark.daemon"])
def test_a_worker_whose_java_is_gone_says_nothing(short_path: Path, module: str) -> None:
    """PySpark's own prints a traceback on the terminal of whoever called."""
    settings = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(short_path),
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",  # as Spark sets it
        "SPARK_REUSE_WORKER": "1",
    }
    with subprocess.Popen(
        [sys.executable, "-m", module, "pyspark.worker"],
        env=os.environ | settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stderr is not None
        (size,) = struct.unpack("!i", process.stdout.read(4))
        path = process.stdout.read(size).decode()
        with socket.socket(socket.AF_UNIX) as java:
            java.connect(path)
            (worker,) = struct.unpack("!i", java.recv(4, socket.MSG_WAITALL))
        while _runs(worker):  # its end is what this test is about, no signal's
            time.sleep(0.005)
        process.stdin.close()
        said = process.stderr.read().decode()
    assert ("BrokenPipeError" in said) == (module == "pyspark.daemon"), said
    assert said == "" or module == "pyspark.daemon"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
