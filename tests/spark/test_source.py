"""`format("rocketmq")` through Spark: the same rows as a plain struct loop reads."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.disks.stores import read_log, tag_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        .option("subscribe", "orders")
        .option("startingTimestamp", since)
        .option("endingTimestamp", until)
        .option("decompress", "true")
        .load([f"file:{store}"])
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


def test_queues_alone_and_named_offsets(spark: SparkSession, store: Path) -> None:
    """Counts by topic and hash of tags, from one queue's offset on."""
    offsets = '{"orders": {"0": 100}}'
    reader = spark.read.format("rocketmq").option("subscribe", "orders,payments")
    counted = (
        reader.option("startingOffsets", offsets)
        .option("columns", "topic, queue_id, queue_offset, tags_code")
        .load(str(store))
        .groupBy("topic", "tags_code")
        .count()
        .collect()
    )
    truth: dict[tuple[str, int], int] = {}
    for row in read_log(store):
        key = (row["topic"], tag_hash(row["raw_properties"]))
        skipped = key[0] == "orders" and row["queue_id"] == 0 and row["queue_offset"] < 100
        if key[0] in ("orders", "payments") and not skipped:
            truth[key] = truth.get(key, 0) + 1
    assert {(row["topic"], row["tags_code"]): row["count"] for row in counted} == truth


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    """Spark hands filters over for the time of a test."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.usefixtures("pushdown")
def test_filters_are_taken_over(
    spark: SparkSession, store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each kind that is exact, one that spares reading, and one that stays Spark's."""
    from pyspark.sql import functions as f

    logged = [row for row in read_log(store) if row["topic"] != "%RETRY%billing"]
    half = logged[1000]
    moment = datetime.fromtimestamp(half["store_timestamp"] / 1000, UTC)
    reader = spark.read.format("rocketmq").option("path", str(store))
    messages = reader.option("pushFilters", "true").load()
    filtered = (
        messages.where(f.col("topic").isin("orders", "nothing"))
        .where("queue_id in (0, 2) and queue_offset > 5 and queue_offset <= 300")
        .where(f.col("commit_log_offset") >= logged[50]["commit_log_offset"])
        .where(f.col("store_timestamp") < f.lit(moment))
        .where("tags = 'a' and sys_flag = 0")
    )
    wanted = [
        row
        for row in logged[50:]
        if row["topic"] == "orders"
        and row["queue_id"] != 1
        and 5 < row["queue_offset"] <= 300
        and row["store_timestamp"] < half["store_timestamp"]
        and row["tags"] == "a"
    ]
    plain = [row["commit_log_offset"] for row in wanted if row["sys_flag"] == 0]
    assert sorted(row.commit_log_offset for row in filtered.collect()) == plain
    assert _rows_scanned(filtered) == len(wanted) > len(plain), "what Spark got of 2,000"
    capfd.readouterr()
    filtered.explain("formatted")
    lines = capfd.readouterr().out.splitlines()
    taken = next(line for line in lines if line.startswith("PushedFilters: "))
    for column in ("topic", "queue_id", "queue_offset", "commit_log_offset", "store_timestamp"):
        assert column in taken
    left = next(line for line in lines if line.startswith("Condition : "))
    assert "tags" in left and "sys_flag" in left
    assert "queue_offset" not in left and "store_timestamp" not in left
    assert messages.where("queue_id = -1").count() == 0


@pytest.mark.usefixtures("pushdown")
def test_unless_asked_no_query_narrows_another(spark: SparkSession, store: Path) -> None:
    """Spark 4.3 would give the first query's messages to the second one, and one half to both."""
    messages = spark.read.format("rocketmq").option("columns", "topic, queue_id").load(str(store))
    expected = [row for row in read_log(store) if row["topic"] != "%RETRY%billing"]
    assert messages.where("queue_id = -1").count() == 0
    assert messages.count() == len(expected)
    both = messages.where("queue_id = 0").union(messages.where("queue_id = 1"))
    assert both.count() == sum(row["queue_id"] in (0, 1) for row in expected)


@pytest.mark.usefixtures("pushdown")
def test_damage_becomes_rows(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """With filters handed over, too; the default fails with file and position."""
    from pyspark.errors import PySparkException

    damaged = shutil.copytree(store, tmp_path / "damaged")
    first = next(read_log(store))
    path = damaged / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[first["record_bytes"] : first["record_bytes"] + 8] = b"damaged!"
    path.write_bytes(data)
    reader = spark.read.format("rocketmq").option("includeRetryTopics", "true")
    rows = reader.option("mode", "PERMISSIVE").load(str(damaged)).cache()
    told = rows.where("_corrupt is not null").collect()
    assert [row.commit_log_offset for row in told] == [first["record_bytes"]]
    assert f"at log position {first['record_bytes']}" in told[0]["_corrupt"]
    assert told[0].topic is None
    assert rows.count() == len(list(read_log(store)))
    rows.unpersist()
    dropping = reader.option("mode", "DROPMALFORMED").load(str(damaged))
    assert dropping.where("topic = 'orders'").where("body is not null").count() == sum(
        row["topic"] == "orders" for row in list(read_log(store))[2:]
    ) + (first["topic"] == "orders")
    with pytest.raises(PySparkException, match=f"at log position {first['record_bytes']}"):
        reader.option("mode", "FAILFAST").load(str(damaged)).collect()


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


def _rows_scanned(frame: DataFrame) -> int:
    """The scan's own metric, as the page of the query in Spark's UI shows it."""
    plan = frame._jdf.queryExecution().executedPlan()
    while not plan.children().isEmpty():
        plan = plan.children().head()
    return int(plan.metrics().apply("numOutputRows").value())


def _position(row: dict[str, Any]) -> int:
    position: int = row["commit_log_offset"]
    return position


def test_tables_of_a_catalog(spark: SparkSession, store: Path) -> None:
    """Created, described, read in part, in views, with more options; dropped, the store stays."""
    spark.sql(
        f"CREATE TABLE log USING rocketmq OPTIONS (path '{store}', columns 'topic, queue_offset',"
        " includeRetryTopics 'true') COMMENT 'ours' TBLPROPERTIES ('team' = 'billing')"
    )
    try:
        count = len(list(read_log(store)))
        assert spark.table("log").count() == count
        described = [row.col_name for row in spark.sql("DESCRIBE TABLE EXTENDED log").collect()]
        assert described[:2] == ["topic", "queue_offset"]
        orders = sum(row["topic"] == "orders" for row in read_log(store))
        spark.sql("CREATE VIEW orders AS SELECT * FROM log WITH (subscribe = 'orders')")
        for query in ("SELECT * FROM orders", "SELECT * FROM log WHERE topic = 'orders'"):
            assert spark.sql(query).count() == orders
    finally:
        spark.sql("DROP VIEW IF EXISTS orders")
        spark.sql("DROP TABLE log")
    assert len(list(read_log(store))) == count


def test_table_with_columns_of_its_own_says_how_to_read_it(
    spark: SparkSession, store: Path
) -> None:
    """Spark keeps its options to itself."""
    spark.sql(f"CREATE TABLE narrow (topic string) USING rocketmq OPTIONS (path '{store}')")
    try:
        with pytest.raises(Exception, match="CREATE TABLE without them"):
            spark.table("narrow").count()
        found = spark.sql(f"SELECT topic FROM narrow WITH (path = '{store}')")
        assert found.where("topic = 'orders'").count() > 0
    finally:
        spark.sql("DROP TABLE narrow")
