"""How Java is started for Spark in tests, and what of Spark's classes it need not load anew.

    python -m support.lake.spark_java

puts the classes that a session needs into an archive below `build/`, once for each Java and
PySpark, which takes Java some seconds; a session then starts in half the time. Without the
archive, or with one of another Java, everything works as well.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

# Spark's sessions here live for seconds, in which an optimising compiler, a parallel garbage
# collector and looking through the bytecode of every class only take the cores: without them the
# tests of Spark need half the time.
LEAN: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions"
    " -XX:-BytecodeVerificationRemote"
)
SILENT: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
SECONDS_MAX: Final = 120
ROOT: Final = Path(__file__).parents[3]
PREFIX: Final = "spark-classes-"
_TYPICAL: Final = """
import sys
import time
from aerobee.spark import session
from pyspark import SparkContext

spark = session("local[2]", conf={"spark.sql.shuffle.partitions": "2"})
numbers = spark.range(100).selectExpr("id", "id % 7 as rest")
numbers.write.parquet(sys.argv[1] + "/parquet")
table = spark.read.parquet(sys.argv[1] + "/parquet").groupBy("rest").count()
assert table.orderBy("rest").count() == 7
assert numbers.rdd.map(lambda row: row.id).sum() == 4950
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
options = {"checkpointLocation": sys.argv[1] + "/checkpoint"}
query = stream.writeStream.format("noop").options(**options).start()
while not query.lastProgress:
    time.sleep(0.05)
query.stop()
java = SparkContext._gateway.proc
spark.stop()
java.stdin.close()
sys.exit(java.wait())
"""


def archive() -> Path:
    """Where the archive for the Java and the PySpark of this environment is, or would be."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    spark = find_spec("pyspark")
    jars = Path(spark.origin).with_name("jars") if spark and spark.origin else Path()
    made_of = [LEAN, os.path.realpath(java or ""), str(jars), str(jars.stat().st_mtime_ns)]
    name = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    return ROOT / "build" / f"{PREFIX}{name}.jsa"


def quick() -> str:
    """Options for a Java that starts quickly and does not live long."""
    made = archive()
    return f"{LEAN} -XX:SharedArchiveFile={made} {SILENT}" if made.exists() else LEAN


def main() -> None:
    """Make the archive where there is none."""
    made = archive()
    if made.exists() or find_spec("pyspark") is None:
        return
    print("putting the classes that Spark needs into an archive, once", flush=True)
    made.parent.mkdir(exist_ok=True)
    for other in made.parent.glob(f"{PREFIX}*"):
        other.unlink()  # of another Java: large, and of no more use
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        fresh = Path(folder, "classes.jsa")
        options = f"{LEAN} -XX:ArchiveClassesAtExit={fresh} {SILENT}"
        try:
            done = subprocess.run(
                [sys.executable, "-c", _TYPICAL, folder],
                env={**os.environ, "SPARK_SUBMIT_OPTS": options, "SPARK_LAUNCHER_OPTS": LEAN},
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"without it, as it was not made in {SECONDS_MAX} s", flush=True)
            return
        if done.returncode == 0 and fresh.exists():
            fresh.rename(made)
        else:
            print(f"without it, as Java said: {done.stderr[-2000:]}", flush=True)


if __name__ == "__main__":
    main()
