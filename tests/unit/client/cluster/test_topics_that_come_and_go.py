"""A client that lives for months among topics that come and go keeps a bounded number of them."""

import asyncio

import pytest
from support.stand_ins.fake_cluster import FakeCluster

from aerobee.client import Message, MessageQueue, Producer
from aerobee.client.group.offsets import GroupOffsets
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.headers.typed import Header

TOPICS = 12


async def test_a_producer_remembers_the_last_topics_alone(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns and templates begin anew where there are too many; sends side by side go on."""
    monkeypatch.setattr("aerobee.client.sending.choice.TOPICS_KEPT", 3)
    monkeypatch.setattr("aerobee.client.sending.frames.TEMPLATES_KEPT", 3)
    topics = [f"t{number}" for number in range(TOPICS)]
    for topic in topics:
        cluster.create(topic, 1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        sends = [producer.send(Message(topic, b"x")) for topic in topics for _ in range(4)]
        results = await asyncio.gather(*sends)
        assert [result.queue.topic for result in results] == [
            each for each in topics for _ in "xxxx"
        ]
        assert len(producer._choice.turns) <= 3
        assert len(producer._headers._plain) <= 3


class Broker:
    """Stores whatever it is told."""

    async def call_broker(
        self, queue: MessageQueue, code: int, header: Header, timeout_ms: int
    ) -> Command:
        """Answer at the next turn of the loop."""
        await asyncio.sleep(0)
        return Command(ResponseCode.SUCCESS)


async def test_committed_queues_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stays of those of which no commit is under way."""
    monkeypatch.setattr("aerobee.client.group.offsets.QUEUES_KEPT", 3)
    offsets = GroupOffsets(Broker(), "g", 1000)
    for number in range(TOPICS):
        queue = MessageQueue(f"t{number}", "broker-a", 0)
        await asyncio.gather(offsets.commit(queue, 1), offsets.commit(queue, 2))
    assert len(offsets._latest) <= 4
    assert len(offsets._under_way) <= 4
    assert len(offsets._carried) <= 4
