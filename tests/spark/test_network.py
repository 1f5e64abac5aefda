"""A cluster as a Spark table, read and written over the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aerobee.testing import ClusterThread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Two brokers, with topics of two queues on each."""
    with ClusterThread(brokers=2) as cluster:
        for topic in ("orders", "copies"):
            cluster.create_topic(topic, queues=2)
        yield cluster


def messages(spark: SparkSession, cluster: ClusterThread, topic: str) -> DataFrame:
    """A topic as a table."""
    reader = spark.read.format("rocketmq").option("namesrv", cluster.namesrv_addr)
    return reader.option("subscribe", topic).option("minPartitions", "3").load()


def test_rows_are_written_read_and_written_again(
    spark: SparkSession, cluster: ClusterThread
) -> None:
    """Of every kind of column; a part of a topic is then replayed into another one."""
    rows = spark.range(3000).selectExpr(
        "concat('order ', id) body",
        "array(concat('k', id), 'all') keys",
        "if(id % 2 = 0, 'even', null) tags",
        "map('region', cast(id % 3 as string)) properties",
        "id % 10 sharding_key",
    )
    writer = rows.write.format("rocketmq").option("namesrv", cluster.namesrv_addr)
    writer.option("topic", "orders").mode("append").save()
    found = messages(spark, cluster, "orders")
    assert found.rdd.getNumPartitions() >= 3
    read = found.selectExpr(
        "cast(body as string)", "split(keys, ' ')", "tags", "map('region', properties['region'])",
        "cast(properties['__SHARDINGKEY'] as bigint)",
    )  # fmt: skip
    assert sorted(map(str, read.collect())) == sorted(
        str(row).replace("body=", "body=") for row in rows.toDF(*read.columns).collect()
    )
    replayed = found.where("tags = 'even'").selectExpr(
        "'copies' topic", "body", "keys", "tags", "properties"
    )
    replayed.write.format("rocketmq").option("namesrv", cluster.namesrv_addr).mode("append").save()
    copies = messages(spark, cluster, "copies").selectExpr("cast(body as string)").collect()
    assert sorted(row.body for row in copies) == sorted(f"order {n}" for n in range(0, 3000, 2))


def test_refusals_come_from_the_driver(spark: SparkSession, cluster: ClusterThread) -> None:
    """Before a task starts, and with what to do."""
    reader = spark.read.format("rocketmq")
    with pytest.raises(Exception, match=r"127.0.0.1:1 .*refused.*see that the address is right"):
        reader.option("namesrv", "127.0.0.1:1").load().count()
    reader = spark.read.format("rocketmq").option("namesrv", cluster.namesrv_addr)
    with pytest.raises(Exception, match=r"no topic 'order'; did you mean orders\?"):
        reader.option("subscribe", "order").load().count()
    rows = spark.range(1).selectExpr("cast(id as string) body", "id key")
    given = {"namesrv": cluster.namesrv_addr, "topic": "orders"}
    for frame, options, mode, text in (
        (rows, given, "append", r"no message has a column 'key'; did you mean keys\?"),
        (rows.drop("key"), {"topic": "orders"}, "append", "option namesrv is missing"),
        (rows.drop("key"), given, "overwrite", "cannot be overwritten"),
        (rows.select("body"), {"namesrv": given["namesrv"]}, "append", "name the topic"),
    ):
        with pytest.raises(Exception, match=text):
            frame.write.format("rocketmq").options(**options).mode(mode).save()


def test_examples_run(
    spark: SparkSession, cluster: ClusterThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every Python block of the document about the network, one after the other."""
    document = (TESTS.parent / "spark" / "network" / "NETWORK.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        code = block.replace("127.0.0.1:9876", cluster.namesrv_addr)
        code = code.replace("/tmp/checkpoint", str(tmp_path))
        exec(compile(code, f"NETWORK block {number}", "exec"), names)  # noqa: S102
    assert "queue_id" in capsys.readouterr().out
    assert messages(spark, cluster, "replayed").count() >= 1000
