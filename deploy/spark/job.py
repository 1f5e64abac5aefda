"""A Spark job over a broker's store: count its topics, stream what is new to Parquet, export it.

spark-submit ... job.py --store /data/store --to /data/lake count stream export

`--store` and `--to` must lead every machine that runs tasks to the same folders. Each step prints
one line of JSON. `stream` goes on where the last one ended, by its checkpoint below `--to`, and so
does `export`: run the job as often as you like.
"""

from __future__ import annotations

import argparse
import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from aerobee.spark import export, register


def count(spark: SparkSession, store: str) -> dict[str, int]:
    """Messages by topic, from the ConsumeQueues alone."""
    messages = spark.read.format("rocketmq").option("columns", "topic").load(store)
    return {row["topic"]: row["count"] for row in messages.groupBy("topic").count().collect()}


def stream(spark: SparkSession, store: str, to: str) -> dict[str, int]:
    """What came since the last run, as Parquet files of Spark's own."""
    query = (
        spark.readStream.format("rocketmq")
        .option("columns", "topic, queue_id, queue_offset, store_timestamp, keys, body")
        .option("startingOffsets", "earliest")  # of the first run; later ones go on
        .load(store)
        .observe("written", f.count("*").alias("messages"))
        .writeStream.format("parquet")
        .option("path", f"{to}/stream")
        .option("checkpointLocation", f"{to}/stream-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [progress.observedMetrics.get("written") for progress in query.recentProgress]
    return {"messages": sum(batch.messages for batch in batches if batch)}


def export_new(spark: SparkSession, store: str, to: str) -> dict[str, int]:
    """What came since the last run, each message exactly once, partitioned by topic and date."""
    summary = export(store, f"{to}/export", incremental=True, spark=spark)
    return {"messages": summary.messages}


def main() -> None:
    """Run the steps that are named."""
    parser = argparse.ArgumentParser(description="Count, stream and export a broker's messages.")
    parser.add_argument("--store", required=True, help="the broker's storePathRootDir")
    parser.add_argument("--to", required=True, help="the lake's folder")
    parser.add_argument("steps", nargs="+", choices=("count", "stream", "export"))
    asked = parser.parse_args()
    spark = SparkSession.builder.appName("aerobee").getOrCreate()
    register(spark)
    for step in asked.steps:
        if step == "count":
            result = count(spark, asked.store)
        else:
            run = stream if step == "stream" else export_new
            result = run(spark, asked.store, asked.to)
        print(json.dumps({step: result}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
