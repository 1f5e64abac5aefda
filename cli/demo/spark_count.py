"""Spark reads the stopped broker's log, writes Parquet, and counts what it wrote."""

from collections.abc import Callable
from pathlib import Path


def export_and_count(
    store: Path, target: Path, progress: Callable[[int, int], None]
) -> dict[str, int]:
    """Export a store with Spark and return the messages of each topic, as Spark counts them.

    Raises AerobeeError if there is no Java, if the log cannot be read or `target` not written.
    """
    from aerobee.spark.exports.exporter import export
    from aerobee.spark.sessions.local import session

    spark = session(app_name="aerobee demo", brief=True)
    try:
        export(store, target, spark=spark, progress=progress)
        counted = spark.read.parquet(str(target)).groupBy("topic").count().collect()
    finally:
        spark.stop()
    return {row["topic"]: row["count"] for row in counted}
