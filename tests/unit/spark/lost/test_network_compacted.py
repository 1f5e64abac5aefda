"""Streams of compaction topics over the network: a message that was copied is the same one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from pyspark.sql.datasource import InputPartition
from support.lake.fake_spark import Checkpoint, run

from aerobee.client import Message, Producer, PullConsumer
from aerobee.client.cluster.directory import Cluster
from aerobee.remoting.message.message_id import KEPT_BESIDE
from aerobee.spark.offsets import OffsetsTree
from aerobee.spark.source import RocketMQSource
from aerobee.spark.streams.reader import QueueStreamReader
from aerobee.testing import ClusterThread


@pytest.fixture
def namesrv() -> Iterator[str]:
    """A cluster with a compaction topic of one queue."""
    with ClusterThread() as cluster:
        asyncio.run(make(cluster.namesrv_addr))
        yield cluster.namesrv_addr


async def make(namesrv: str) -> None:
    """Make the topic."""
    async with Cluster(namesrv) as admin:
        await admin.create_topic("latest", 1, attributes={"cleanup.policy": "COMPACTION"})


def send(namesrv: str, numbers: range) -> None:
    """Send messages with a key each."""

    async def sending() -> None:
        async with Producer(namesrv=namesrv) as producer:
            for number in numbers:
                await producer.send(Message("latest", b"%d" % number, keys=f"k{number}"))

    asyncio.run(sending())


def wait_until_copied(namesrv: str, last: int) -> None:
    """Return when the broker gives the message of an offset from its copy."""

    async def waiting() -> None:
        async with PullConsumer("looking", namesrv=namesrv) as consumer, asyncio.timeout(30):
            (queue,) = await consumer.fetch_queues("latest")
            position = 0
            while position < KEPT_BESIDE:
                (message, *_) = (await consumer.pull(queue, last)).messages
                position = message.position

    asyncio.run(waiting())


def query(namesrv: str, fail: str) -> QueueStreamReader:
    """A stream over it."""
    source = RocketMQSource({
        "namesrv": namesrv, "subscribe": "latest", "startingOffsets": "earliest",
        "columns": "queue_id, queue_offset, body", "networkTimeout": "15000",
        "failOnDataLoss": fail,
    })  # fmt: skip
    reader = source.streamReader(source.schema())
    assert isinstance(reader, QueueStreamReader)
    return reader


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_stream_goes_on_behind_messages_that_were_copied(namesrv: str, fail: str) -> None:
    """Its mark is of a place in the log that the message has no more."""
    checkpoint = Checkpoint()
    send(namesrv, range(10))
    run(query(namesrv, fail), checkpoint)
    wait_until_copied(namesrv, 9)
    send(namesrv, range(10, 15))
    run(query(namesrv, fail), checkpoint)
    wait_until_copied(namesrv, 14)
    run(query(namesrv, fail), checkpoint)
    assert [int(row["body"]) for row in checkpoint.rows()] == list(range(15))


@pytest.mark.parametrize("fail", ["true", "false"])
def test_messages_that_are_copied_behind_a_plan_are_read(namesrv: str, fail: str) -> None:
    """The plan's last message is the one that the task reads, wherever it lies by now."""
    checkpoint = Checkpoint()
    send(namesrv, range(10))
    reader = query(namesrv, fail)
    partitions = reader.partitions

    def planned(start: OffsetsTree, end: OffsetsTree) -> Sequence[InputPartition]:
        found = partitions(start, end)
        wait_until_copied(namesrv, 9)
        return found

    reader.partitions = planned  # type: ignore[method-assign]
    run(reader, checkpoint)
    assert [int(row["body"]) for row in checkpoint.rows()] == list(range(10))
