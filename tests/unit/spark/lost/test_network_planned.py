"""Topics deleted or made anew at brokers between a micro-batch's plan and the tasks' pulls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from support.lake.fake_spark import Checkpoint, run

from aerobee.client import Message, Producer
from aerobee.client.cluster.directory import Cluster
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.client import ConnectionPool
from aerobee.spark.errors import DataLost
from aerobee.spark.offsets import OffsetsTree
from aerobee.spark.source import RocketMQSource
from aerobee.spark.streams.reader import QueueStreamReader
from aerobee.testing import ClusterThread


class Topic:
    """A topic `orders` of one broker; bodies are numbers that never repeat."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._cluster = cluster
        self._namesrv = cluster.namesrv_addr
        self._sent = 0

    def make(self, queues: int, count: int) -> None:
        """Make it, and send so many messages over all of its queues."""
        asyncio.run(self._make(queues, count))

    def delete(self) -> None:
        """Delete it at the broker and the nameserver, as mqadmin does."""
        asyncio.run(self._delete())

    def query(self, **options: str) -> QueueStreamReader:
        """A stream over it."""
        usual = {"namesrv": self._namesrv, "subscribe": "orders", "startingOffsets": "earliest"}
        usual |= {"columns": "queue_id, queue_offset, body", "networkTimeout": "15000"}
        source = RocketMQSource({**usual, **options})
        reader = source.streamReader(source.schema())
        assert isinstance(reader, QueueStreamReader)
        return reader

    async def _make(self, queues: int, count: int) -> None:
        namesrv = self._namesrv
        async with Cluster(namesrv) as admin, Producer(namesrv=namesrv) as producer:
            await admin.create_topic("orders", queues)
            named = await producer.fetch_queues("orders")
            for number in range(count):
                message = Message("orders", b"%d" % (self._sent + number))
                await producer.send(message, queue=named[number % queues])
        self._sent += count

    async def _delete(self) -> None:
        pool = ConnectionPool()
        try:
            for address, code in (
                (self._cluster.broker_addrs[0], RequestCode.DELETE_TOPIC_IN_BROKER),
                (self._namesrv, RequestCode.DELETE_TOPIC_IN_NAMESRV),
            ):
                reply = await pool.call(address, Command(code, {"topic": "orders"}), 5.0)
                assert reply.code == ResponseCode.SUCCESS
        finally:
            await pool.close()


@pytest.fixture
def topic() -> Iterator[Topic]:
    """One that is not made yet."""
    with ClusterThread() as cluster:
        yield Topic(cluster)


def after_planning(reader: QueueStreamReader, happens: Callable[[], None]) -> QueueStreamReader:
    """Let something happen once, before the tasks of the first micro-batch with messages pull."""
    partitions, left = reader.partitions, [happens]

    def planned(start: OffsetsTree, end: OffsetsTree) -> Sequence[InputPartition]:
        found = partitions(start, end)
        if found and left:
            left.pop()()
        return found

    reader.partitions = planned  # type: ignore[method-assign]
    return reader


def numbers(checkpoint: Checkpoint) -> list[int]:
    """The bodies that have come."""
    return sorted(int(row["body"]) for row in checkpoint.rows())


@pytest.mark.parametrize("count", [20, 60])
def test_topic_made_anew_after_a_plan_is_told(topic: Topic, count: int) -> None:
    """With as many messages as were planned, or more: none of them passes for a planned one."""
    topic.make(2, 20)
    checkpoint = Checkpoint()

    def again() -> None:
        topic.delete()
        topic.make(2, count)

    text = r"queue orders broker-a:0, to be read up to offset 10, is another one now"
    with pytest.raises(DataLost, match=text):
        run(after_planning(topic.query(), again), checkpoint)
    assert not checkpoint.rows()


@pytest.mark.parametrize("parts", [1, 7])
@pytest.mark.parametrize("count", [20, 60])
def test_messages_of_a_topic_made_anew_after_a_plan_come_once(
    topic: Topic, count: int, parts: int
) -> None:
    """With failOnDataLoss=false, also where several tasks share a queue."""
    topic.make(2, 20)
    checkpoint = Checkpoint()

    def again() -> None:
        topic.delete()
        topic.make(2, count)

    reader = topic.query(failOnDataLoss="false", minPartitions=str(parts))
    run(after_planning(reader, again), checkpoint)
    assert numbers(checkpoint) == list(range(20, 20 + count))


def test_topic_made_anew_while_a_task_reads_is_told(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was pulled of the planned one comes, and what is pulled of the new one does not."""
    topic.make(1, 64)
    monkeypatch.setattr("aerobee.spark.network.pulls.SPANS_AHEAD", 1)
    monkeypatch.setattr("aerobee.spark.network.reads.BLOCK_RECORDS", 1)
    checkpoint = Checkpoint()
    reader = topic.query(failOnDataLoss="false")
    read, left = reader.read, [1]

    def reading(partition: InputPartition | None) -> Iterator[Any]:
        for batch in read(partition):
            yield batch
            if left:
                left.pop()
                topic.delete()
                topic.make(1, 70)

    reader.read = reading  # type: ignore[method-assign]
    run(reader, checkpoint)
    found = numbers(checkpoint)
    assert len(found) == len(set(found))
    first = [number for number in found if number < 64]
    assert first == list(range(len(first))) and first
    assert found[len(first) :] == list(range(64, 134))


DELETED = r"orders broker-a:\d \[0, 10\).* their topic was deleted"


def test_topic_deleted_after_a_plan_is_told(topic: Topic) -> None:
    """By the tasks, and by a restart from the checkpoint, which has the plan."""
    topic.make(2, 20)
    checkpoint = Checkpoint()
    with pytest.raises(DataLost, match=DELETED):
        run(after_planning(topic.query(), topic.delete), checkpoint)
    with pytest.raises(DataLost, match=DELETED):
        run(topic.query(), checkpoint)
    assert not checkpoint.rows()


def test_query_goes_on_without_a_topic_deleted_after_a_plan(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    """With failOnDataLoss=false; one of the same name is read from its first message on."""
    topic.make(2, 20)
    checkpoint = Checkpoint()
    run(after_planning(topic.query(failOnDataLoss="false"), topic.delete), checkpoint)
    assert "[0, 10)" in caplog.text
    assert not checkpoint.rows()
    topic.make(1, 3)
    run(topic.query(failOnDataLoss="false"), checkpoint)
    assert numbers(checkpoint) == [20, 21, 22]


def test_restart_goes_on_without_a_topic_deleted_after_a_plan(topic: Topic) -> None:
    """With failOnDataLoss=false, after a query that ended."""
    topic.make(2, 20)
    checkpoint = Checkpoint()
    with pytest.raises(DataLost):
        run(after_planning(topic.query(), topic.delete), checkpoint)
    run(topic.query(failOnDataLoss="false"), checkpoint)
    assert checkpoint.commits == len(checkpoint.offsets)


def test_topic_deleted_between_micro_batches(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends the query, or is forgotten: its broker is there, and knows no such topic."""
    topic.make(2, 20)
    checkpoint = Checkpoint()
    run(topic.query(), checkpoint)
    topic.delete()
    with pytest.raises(
        DataLost, match=r"orders broker-a:0 and 1 more, read up to offset 10, is not"
    ):
        run(topic.query(), checkpoint)
    run(topic.query(failOnDataLoss="false"), checkpoint)
    assert "queue orders broker-a:0 is not there; read up to offset 10" in caplog.text
    topic.make(2, 30)
    run(topic.query(), checkpoint)
    assert numbers(checkpoint) == list(range(50))


def test_fewer_queues_after_a_plan(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    """Those that may not be read any more end the query, or are left out with a warning."""
    topic.make(4, 20)
    checkpoint = Checkpoint()

    def fewer() -> None:
        topic.make(2, 0)

    text = r"orders broker-a:2 \[0, 5\).*fewer queues to read"
    with pytest.raises(DataLost, match=text):
        run(after_planning(topic.query(), fewer), checkpoint)
    run(topic.query(failOnDataLoss="false"), checkpoint)
    assert {row["queue_id"] for row in checkpoint.rows()} == {0, 1}
    assert "orders broker-a:2 [0, 5)" in caplog.text


def test_little_patience_suffices_for_a_queue_that_is_shorter(topic: Topic) -> None:
    """What is lost is told as lost, not as a broker that does not answer."""
    topic.make(1, 20)

    def again() -> None:
        topic.delete()
        topic.make(1, 3)

    reader = topic.query(networkTimeout="1000", failOnDataLoss="false")
    checkpoint = Checkpoint()
    run(after_planning(reader, again), checkpoint)
    assert numbers(checkpoint) == [20, 21, 22]
