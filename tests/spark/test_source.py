"""`format("rocketmq")` through Spark: the same rows as a plain struct loop reads."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.stores import read_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

USUAL = [
    *("topic", "queue_id", "queue_offset", "store_timestamp", "born_timestamp", "tags", "keys"),
    *("properties", "body", "born_host", "store_host", "sys_flag", "reconsume_times"),
    "commit_log_offset",
]


def expected(store: Path, names: list[str]) -> list[dict[str, Any]]:
    """The named columns of every record."""
    return [{name: row[name] for name in names} for row in read_log(store)]


def test_all_usual_columns_arrive(spark: SparkSession, store: Path) -> None:
    """Every value of every row, over several partitions."""
    reader = spark.read.format("rocketmq").option("path", str(store))
    reader = reader.option("includeRetryTopics", "true")
    messages = reader.option("partitionBytes", "64k").load()
    assert messages.columns == USUAL
    assert messages.rdd.getNumPartitions() > 3
    rows = sorted((row.asDict() for row in messages.collect()), key=_position)
    for row in rows:
        row["body"] = bytes(row["body"])
        for name in ("store_timestamp", "born_timestamp"):
            row[name] = round(row[name].timestamp() * 1000)
    assert rows == expected(store, USUAL)


def test_narrow_schema_and_options_narrow_what_is_read(spark: SparkSession, store: Path) -> None:
    """Other types, chosen columns, topics and times, unpacked bodies."""
    times = [row["store_timestamp"] for row in read_log(store)]
    since, until = times[500], times[1500]
    wanted = (
        spark.read.format("rocketmq")
        .schema("commit_log_offset bigint, store_timestamp bigint, body binary, properties binary")
        .option("subscribe", "orders,nothing")
        .option("startingTimestamp", since)
        .option("endingTimestamp", until)
        .option("decompress", "true")
        .load(str(store))
    )
    rows = sorted(wanted.collect(), key=lambda row: row.commit_log_offset)
    found = [(row.store_timestamp, bytes(row.body), bytes(row.properties)) for row in rows]
    assert found == [
        (
            row["store_timestamp"],
            zlib.decompress(row["body"]) if row["sys_flag"] & 1 else row["body"],
            row["raw_properties"],
        )
        for row in read_log(store)
        if row["topic"] == "orders" and since <= row["store_timestamp"] < until
    ]


def test_aggregates_and_columns_option(spark: SparkSession, store: Path) -> None:
    """Grouping by topic over two narrow columns, one of them read only on request."""
    sums = (
        spark.read.format("rocketmq")
        .option("columns", "topic, body_bytes")
        .option("includeRetryTopics", "true")
        .load(str(store))
        .groupBy("topic")
        .agg({"*": "count", "body_bytes": "sum"})
        .collect()
    )
    truth: dict[str, tuple[int, int]] = {}
    for row in read_log(store):
        count, size = truth.get(row["topic"], (0, 0))
        truth[row["topic"]] = count + 1, size + row["body_bytes"]
    found = {row["topic"]: (row["count(1)"], row["sum(body_bytes)"]) for row in sums}
    assert found == truth


def test_empty_store_and_empty_plan_have_no_rows(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    """Spark makes one partition out of none; it must read as empty."""
    (tmp_path / "commitlog").mkdir()
    assert spark.read.format("rocketmq").load(str(tmp_path)).count() == 0
    late = spark.read.format("rocketmq").option("startingTimestamp", 10**15).load(str(store))
    assert late.count() == 0


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"colums": "topic"}, None, "unknown option 'colums'; did you mean columns?"),
        ({"properties": "maps"}, None, "option properties: 'maps' is not one of map, binary"),
        ({}, "boody binary", "schema: unknown column 'boody'; did you mean body?"),
        ({}, "queue_id string", "schema: column queue_id cannot be read as string, only as int"),
        ({"path": "/does/not/exist"}, None, "option path: there is no folder /does/not/exist"),
    ],
)
def test_refusals_reach_the_user_from_the_driver(
    spark: SparkSession, store: Path, options: dict[str, str], schema: str | None, message: str
) -> None:
    """Planning fails, before a task starts, and the text is in what Spark raises."""
    from pyspark.errors import AnalysisException

    reader = spark.read.format("rocketmq").options(**{"path": str(store), **options})
    with pytest.raises(AnalysisException) as refused:
        (reader.schema(schema) if schema else reader).load().count()
    assert message in str(refused.value)


def _position(row: dict[str, Any]) -> int:
    position: int = row["commit_log_offset"]
    return position
