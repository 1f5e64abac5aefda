"""A Spark driver that streams a store into Parquet files until it is told to finish, or killed.

    python -m support.lake.stream_driver STORE FOLDER

It writes one line when the first query runs. A query that fails is started again from its
checkpoint. When standard input ends, it takes what is left, and tells what the files hold: a line
of JSON with, for each queue, the rows, the distinct offsets, the last one, and a sum of the bodies.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from aerobee.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PER_TRIGGER = 150


def start(spark: SparkSession, store: str, folder: Path) -> StreamingQuery:
    """Start the query, or go on where its checkpoint says."""
    messages = (
        spark.readStream.format("rocketmq")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(PER_TRIGGER))
        .option("columns", "queue_id, queue_offset, body")
        .load(store)
    )
    writer = messages.writeStream.format("parquet").option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(processingTime="0 seconds").start()


def told(spark: SparkSession, folder: Path) -> list[list[int]]:
    """What the files hold of each queue."""
    rows = spark.read.parquet(str(folder / "rows")).selectExpr(
        "queue_id", "queue_offset", "cast(cast(body as string) as bigint) as number"
    )
    rows.createOrReplaceTempView("streamed")
    found = spark.sql(
        "select queue_id, count(*), count(distinct queue_offset), max(queue_offset), sum(number)"
        " from streamed group by queue_id order by queue_id"
    )
    return [list(row) for row in found.collect()]


def main() -> None:
    """Stream until standard input ends."""
    from pyspark.errors import StreamingQueryException

    store, folder = sys.argv[1], Path(sys.argv[2])
    finishing = Event()
    spark = session(
        "local[2]", conf={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "512m"}
    )
    query = start(spark, store, folder)
    print("streaming", flush=True)

    def finish() -> None:
        sys.stdin.read()
        finishing.set()

    Thread(target=finish, daemon=True).start()
    while not finishing.is_set():
        try:
            query.awaitTermination(0.1)  # type: ignore[arg-type]
        except StreamingQueryException as error:
            print(str(error)[:500], file=sys.stderr)
            query = start(spark, store, folder)
    query.processAllAvailable()
    query.stop()
    print(json.dumps(told(spark, folder)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
