"""A Spark driver of its own that streams numbers into a topic, to be killed and started again.

    python -m support.lake.sinking_child NAMESRV TOPIC CHECKPOINT ROWS BATCHES

Every micro-batch has ROWS rows, whose bodies are the numbers from 0 on; it ends after micro-batch
number BATCHES.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from aerobee.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stream(
    spark: SparkSession, namesrv: str, topic: str, checkpoint: str, rows: int, batches: int
) -> None:
    """Stream until the last micro-batch is done; the query's own error when it fails."""
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", str(rows)).load()
    query = (
        numbers.selectExpr("cast(value as string) body", "cast(value % 9 as string) sharding_key")
        .writeStream.format("rocketmq")
        .options(namesrv=namesrv, topic=topic, checkpointLocation=checkpoint)
        .start()
    )
    while not query.lastProgress or query.lastProgress["batchId"] < batches:
        if query.exception() is not None or not query.isActive:
            query.awaitTermination()
        time.sleep(0.05)
    query.stop()


def main() -> None:
    """Stream in a session of this process."""
    namesrv, topic, checkpoint, rows, batches = sys.argv[1:]
    spark = session("local[2,4]", conf={"spark.driver.memory": "512m"})
    stream(spark, namesrv, topic, checkpoint, int(rows), int(batches))
    spark.stop()


if __name__ == "__main__":
    main()
