"""`readStream.format("rocketmq")` through Spark: from stores, and from brokers over the network."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.disks.stores import read_log

from aerobee.client import Message, Producer
from aerobee.client.cluster.directory import Cluster
from aerobee.spark.offsets import MARKS
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore
from aerobee.testing import ClusterThread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

HOSTS = bytes([127, 0, 0, 1, 0, 0, 0, 9]) + (10**12).to_bytes(8, "big")
HOSTS += bytes([127, 0, 0, 1, 0, 0, 0, 9]) + bytes(12)
PLACE = "topic, queue_id, queue_offset"


class Sink:
    """What a query has written, by micro-batch; a repeated one replaces what it wrote before."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def write(self, rows: DataFrame, number: int) -> None:
        """For `foreachBatch`."""
        self.batches[number] = [tuple(row) for row in rows.collect()]

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows, in order."""
        return sorted(row for rows in self.batches.values() for row in rows)


def start(
    spark: SparkSession,
    sink: Sink,
    checkpoint: Path,
    trigger: dict[str, Any] | None = None,
    **options: str,
) -> StreamingQuery:
    """Start a query that writes into the sink."""
    reader = spark.readStream.format("rocketmq").options(**{"columns": PLACE, **options})
    writer = reader.load().writeStream.foreachBatch(sink.write)
    writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.trigger(**trigger or {"processingTime": "0 seconds"}).start()


def append(store: MessageStore, topic: str, count: int) -> None:
    """Some messages over two queues, confirmed, and their entries written out by a round."""
    for number in range(count):
        queue = store.queue(topic, number % 2)
        store.commit_log.append(queue, 0, 0, 5, HOSTS, b"body", b"TAGS\x01a\x02", 7)
    store.commit_log.commit()
    store.poll()
    assert store.flusher.flush_all(10)


def places(**topics: int) -> list[tuple[Any, ...]]:
    """The rows of topics of so many messages."""
    return sorted(
        (topic, number % 2, number // 2)
        for topic, count in topics.items()
        for number in range(count)
    )


@pytest.fixture
def live(tmp_path: Path) -> Iterator[MessageStore]:
    """A broker's store that is open."""
    settings = StoreSettings(tmp_path / "live" / "a", segment_bytes=1 << 16, helper_process=False)
    store = MessageStore(settings)
    store.open()
    yield store
    store.close()


def test_all_columns_of_a_store_arrive_within_limits(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    """AvailableNow takes everything that is there, in micro-batches of at most so many messages."""
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "700"}
    reader = spark.readStream.format("rocketmq").options(**options).load(str(store))
    found: dict[int, list[dict[str, Any]]] = {}

    def write(rows: DataFrame, number: int) -> None:
        found[number] = [row.asDict() for row in rows.collect()]

    writer = reader.writeStream.foreachBatch(write).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    query.awaitTermination()
    expected = [row for row in read_log(store) if row["topic"] != "%RETRY%billing"]
    counts = [len(found[number]) for number in sorted(found)]
    assert counts == [0, 700, 700, len(expected) - 1400]
    rows = [row for number in sorted(found) for row in found[number]]
    rows.sort(key=lambda row: row["commit_log_offset"])
    for row, truth in zip(rows, expected, strict=True):
        row["body"] = bytes(row["body"])
        for name in ("store_timestamp", "born_timestamp"):
            row[name] = round(row[name].timestamp() * 1000)
        assert row == {name: truth[name] for name in row}
    progress = query.recentProgress[-1].sources[0]
    reached = json.loads(progress.endOffset)
    assert reached.pop(MARKS) and reached == json.loads(progress.latestOffset)


def test_live_store_new_topics_and_new_stores(
    spark: SparkSession, live: MessageStore, store: Path, tmp_path: Path
) -> None:
    """From the start on what comes; a restart goes on; a deleted topic ends the query."""
    append(live, "orders", 10)
    root, sink, checkpoint = tmp_path / "live", Sink(), tmp_path / "checkpoint"
    query = start(spark, sink, checkpoint, path=str(root / "*"))
    query.processAllAvailable()
    assert sink.rows() == []
    append(live, "orders", 4)
    append(live, "payments", 3)
    query.processAllAvailable()
    new = [row for row in places(orders=14) if row[2] >= 5]
    assert sink.rows() == sorted(new + places(payments=3))
    live.commit_log.append(live.queue("orders", 0), 0, 0, 5, HOSTS, b"x", b"TAGS\x01a\x02", 7)
    query.processAllAvailable()
    assert len(sink.rows()) == 7, "what is not confirmed is not seen"
    query.stop()
    shutil.copytree(store, root / "b")
    append(live, "payments", 2)
    query = start(
        spark, sink, checkpoint, {"availableNow": True}, path=str(root / "*"), subscribe="payments"
    )
    query.awaitTermination()
    queues_of_b = sum(row["topic"] == "payments" for row in read_log(store))
    assert len(sink.rows()) == 7 + 2 + queues_of_b
    shutil.rmtree(root / "a" / "consumequeue" / "payments")
    again = {"path": str(root / "*"), "subscribe": "payments"}
    query = start(spark, sink, checkpoint, {"availableNow": True}, **again)
    with pytest.raises(Exception, match="payments a:0 and 1 more, read up to offset 3, is not"):
        query.awaitTermination()


def test_wrong_options_end_the_query_before_a_task(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    """With the text that names them."""
    query = start(spark, Sink(), tmp_path, path=str(store), endingOffsets="latest")
    with pytest.raises(Exception, match=r"option endingOffsets is one of spark\.read, and"):
        query.awaitTermination()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Two brokers."""
    with ClusterThread(brokers=2) as cluster:
        yield cluster


async def send(namesrv: str, topic: str, count: int) -> None:
    """Make the topic, with two queues on each broker, and send to all of them."""
    async with Cluster(namesrv) as admin, Producer(namesrv=namesrv) as producer:
        await admin.create_topic(topic, queues=2)
        queues = await producer.fetch_queues(topic)
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number), queue=queues[number % len(queues)])


def test_brokers_are_streamed_over_the_network(
    spark: SparkSession, cluster: ClusterThread, tmp_path: Path
) -> None:
    """With limits, topics that are new, and a restart from the checkpoint."""
    asyncio.run(send(cluster.namesrv_addr, "orders", 40))
    sink = Sink()
    options = {
        "namesrv": cluster.namesrv_addr,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "15",
        "columns": "broker, topic, queue_id, queue_offset",
    }
    query = start(spark, sink, tmp_path, {"availableNow": True}, **options)
    query.awaitTermination()
    assert [len(sink.batches[number]) for number in sorted(sink.batches)] == [0, 15, 15, 10]
    asyncio.run(send(cluster.namesrv_addr, "orders", 8))
    asyncio.run(send(cluster.namesrv_addr, "payments", 4))
    query = start(spark, sink, tmp_path, {"availableNow": True}, **options)
    query.awaitTermination()
    rows = sink.rows()
    assert len(rows) == len(set(rows)) == 52
    assert {row[3] for row in rows if row[1] == "orders"} == set(range(12))
