"""The job of `deploy/spark` on a standalone cluster, whose Python gets `aerobee` with the job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.disks.stores import read_log
from support.runs.source_tree import ROOT

if TYPE_CHECKING:
    from support.lake.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.interop]  # servers, or a Java, of its own

PLACE = ["topic", "queue_id", "queue_offset"]
JOBS = ROOT / "deploy" / "spark"
PURE = os.environ | {"AEROBEE_COMPILE": "0"}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels as --py-files takes them."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    for project in (ROOT, ROOT / "deploy" / "server"):
        subprocess.run([*command, str(project)], check=True, capture_output=True, env=PURE)
    target = folder / "aerobee.zip"
    wheels = sorted(folder.glob("*.whl"))
    subprocess.run([sys.executable, JOBS / "zip_wheel.py", *wheels, target], check=True)
    return target


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers."""
    pytest.importorskip("pyspark")
    from support.lake.spark_cluster import SparkCluster

    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def test_batch_stream_and_export_run_on_executors(
    cluster: SparkCluster, modules: Path, store: Path, tmp_path: Path
) -> None:
    """All messages are counted, streamed and exported; what the executors wrote is read back."""
    import pyarrow.dataset as ds

    words = ["--store", str(store), "--to", str(tmp_path), "count", "stream", "export"]
    done = cluster.submit(JOBS / "job.py", *words, py_files=modules)
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    logged = {"export": list(read_log(store))}
    logged["stream"] = [row for row in logged["export"] if not row["topic"].startswith("%RETRY%")]
    told: list[dict[str, Any]] = [{"count": Counter(row["topic"] for row in logged["stream"])}]
    told += [{step: {"messages": len(logged[step])}} for step in ("stream", "export")]
    assert lines == told
    for step, rows in logged.items():
        table = ds.dataset(tmp_path / step, partitioning="hive").to_table(columns=PLACE)
        found = zip(*(table[name].to_pylist() for name in PLACE), strict=True)
        assert sorted(found) == sorted(tuple(row[name] for name in PLACE) for row in rows)
    assert cluster.executors() == 2
