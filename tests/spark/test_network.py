"""A cluster as a Spark table, read and written over the network; a driver that dies meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.sinking_child import stream

from aerobee.spark.columns import arrow_schema
from aerobee.spark.decode import Decoder
from aerobee.spark.network import Network
from aerobee.spark.network_address import NetworkAddress
from aerobee.spark.network_plan import plan_network
from aerobee.spark.network_reads import network_batches
from aerobee.spark.options import parse_options
from aerobee.spark.topics import TopicChoice
from aerobee.testing import ClusterThread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[1]
ROWS = 30_000  # of a micro-batch: enough to be killed in its middle
KILL_ROUNDS = int(os.environ.get("KILL_ROUNDS", "1"))
KILL_SECONDS_MAX = 240.0  # on a machine that does much else


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Two brokers, with topics of two queues on each."""
    with ClusterThread(brokers=2) as cluster:
        for topic in ("orders", "copies", "killed"):
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
    document = (TESTS.parent / "spark" / "NETWORK.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        code = block.replace("127.0.0.1:9876", cluster.namesrv_addr)
        code = code.replace("/tmp/checkpoint", str(tmp_path))
        exec(compile(code, f"NETWORK block {number}", "exec"), names)  # noqa: S102
    assert "queue_id" in capsys.readouterr().out
    assert messages(spark, cluster, "replayed").count() >= 1000


@pytest.mark.timeout((3 + KILL_ROUNDS) * KILL_SECONDS_MAX)
def test_driver_killed_in_a_micro_batch(
    spark: SparkSession, cluster: ClusterThread, tmp_path: Path
) -> None:
    """After the restart, in another session, every row is stored, and none of them twice."""
    killed = 0
    for _ in range(2 * KILL_ROUNDS + 2):  # a kill that comes too late hits nothing
        with driver(cluster, tmp_path) as child:
            # somewhere within the micro-batch after those that the rounds before have completed
            wait_for_rows(cluster, child, counted(cluster) // ROWS * ROWS + ROWS + ROWS // 6)
            os.killpg(child.pid, signal.SIGKILL)
        killed += counted(cluster) % ROWS > 0
        if killed == KILL_ROUNDS:
            break
    assert killed == KILL_ROUNDS, f"{killed} kills within a micro-batch"
    last = counted(cluster) // ROWS + 1
    stream(spark, cluster.namesrv_addr, "killed", str(tmp_path / "checkpoint"), ROWS, last)
    stored = bodies(cluster)
    assert not [body for body, times in stored.items() if times > 1]
    expected = {b"%d" % number for number in range(ROWS * (last + 1))}
    assert expected <= stored.keys()


class driver:
    """A driver in a process of its own, which is gone in the end."""

    def __init__(self, cluster: ClusterThread, folder: Path) -> None:
        checkpoint, namesrv = str(folder / "checkpoint"), cluster.namesrv_addr
        words = [namesrv, "killed", checkpoint, str(ROWS), "1000"]  # it is killed long before
        with (folder / "log").open("a") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "support.sinking_child", *words],
                cwd=TESTS,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self._child

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()


def counted(cluster: ClusterThread) -> int:
    """How many messages are stored."""
    with Network(NetworkAddress((cluster.namesrv_addr,))) as network:
        bounds = network.bounds(TopicChoice(names=frozenset({"killed"})))
    return sum(each.end for each in bounds.values())


def wait_for_rows(cluster: ClusterThread, child: subprocess.Popen[bytes], count: int) -> None:
    """Return as soon as so many messages are stored."""
    deadline = time.monotonic() + KILL_SECONDS_MAX
    choice = TopicChoice(names=frozenset({"killed"}))
    with Network(NetworkAddress((cluster.namesrv_addr,))) as network:
        keys = list(network.bounds(choice))
        while sum(network.latest(keys).values()) < count:
            assert child.poll() is None, "the driver has ended"
            assert time.monotonic() < deadline, "the rows did not come"
            time.sleep(0.01)


def bodies(cluster: ClusterThread) -> Counter[bytes]:
    """How often each body is stored."""
    parsed = parse_options({"namesrv": cluster.namesrv_addr, "subscribe": "killed"})
    found: Counter[bytes] = Counter()
    decoder = Decoder(arrow_schema(["body"]))
    for piece in plan_network(parsed, parsed.selection):
        for batch in network_batches(piece, parsed.selection, lambda broker: decoder):
            found.update(batch.column("body").to_pylist())
    return found
