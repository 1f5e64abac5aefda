"""A plain pull consumer beside members that share queues, at a real broker: it disturbs nobody."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.consumers import Seen
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
)
from aerobee.testing import EmbeddedCluster

CLIENT = ClientSettings(rebalance_interval_ms=100, rebalance_gap_ms=20)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A broker whose topic "t" has four queues."""
    settings = {"handover_wait_millis": 60_000}  # of whoever is held
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        await cluster.create_topic("t", 4)
        yield cluster


async def send(cluster: EmbeddedCluster, first: int, count: int) -> None:
    """Send numbered bodies over the four queues."""
    async with Producer("p", namesrv=cluster.namesrv_addr) as producer:
        for at in range(first, first + count):
            await producer.send(Message("t", b"%d" % at), key=at % 4)


def push(cluster: EmbeddedCluster, seen: Seen) -> PushConsumer:
    """Return a push consumer of group g from the first message on."""
    made = PushConsumer(
        "g", namesrv=cluster.namesrv_addr, client=CLIENT, consume_from=ConsumeFrom.FIRST
    )
    made.subscribe("t", seen.handle)
    return made


async def test_a_push_consumer_keeps_its_queues(cluster: EmbeddedCluster) -> None:
    """While another reads them in the name of the group, and asks for its offsets."""
    await send(cluster, 0, 8)
    handovers = cluster.brokers[0].context.consumers.handovers
    seen, changes = Seen(), list[tuple[str, int]]()
    member = push(cluster, seen)
    member.on_queues_changed(lambda topic, queues, mine: changes.append((topic, len(mine))))
    async with member:
        await until(lambda: len(seen.bodies) == 8)
        owned = handovers.owned
        async with PullConsumer("g", namesrv=cluster.namesrv_addr) as other:
            for queue in await other.fetch_queues("t"):
                result = await other.pull(queue, 0)
                assert len(result.messages) == 2
                async with asyncio.timeout(20):
                    await other.committed(queue)
            assert (handovers.owned, handovers.waiting) == (owned, 0)
            await send(cluster, 8, 8)
            await until(lambda: len(seen.bodies) == 16)
        assert len(member.queues()) == 4 and changes == [("t", 4)]
    assert set(seen.bodies.values()) == {1}


async def test_none_is_listed_where_queues_are_shared(cluster: EmbeddedCluster) -> None:
    """The others would leave a share to it that nobody reads."""
    listed = PullConsumer("g", namesrv=cluster.namesrv_addr, topics=["t"])
    async with push(cluster, Seen()) as member:
        await until(lambda: len(member.queues()) == 4)
        with pytest.raises(InvalidUse, match="that share queues, and would"):
            await listed.start()
        assert cluster.brokers[0].context.consumers.members.client_ids("g") == [member.client_id]
    polling = LitePullConsumer("g", namesrv=cluster.namesrv_addr, client=CLIENT)
    polling.subscribe("t")
    async with polling:
        with pytest.raises(InvalidUse, match="name no topics, or use another group"):
            await listed.start()
    async with listed:
        assert len(cluster.brokers[0].context.consumers.members.client_ids("g")) == 1


async def test_who_is_listed_owns_nothing(cluster: EmbeddedCluster) -> None:
    """The broker neither holds its questions nor makes others wait for it."""
    await send(cluster, 0, 4)
    context = cluster.brokers[0].context
    async with PullConsumer("audit", namesrv=cluster.namesrv_addr, topics=["t"]) as listed:
        group = context.consumers.members.group("audit")
        assert group is not None and group.consume_type == "CONSUME_ACTIVELY"
        for queue in await listed.fetch_queues("t"):
            assert len((await listed.pull(queue, 0)).messages) == 1
            await listed.commit(queue, 1)
        queue = MessageQueue("t", cluster.brokers[0].settings.broker_name, 0)
        assert await listed.committed(queue) == 1
        assert context.consumers.handovers.owned == 0
    assert context.consumers.members.group("audit") is None


async def test_who_is_listed_makes_room(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """For members that come later and share queues: they get all, and it goes on pulling."""
    await send(cluster, 0, 8)
    members = cluster.brokers[0].context.consumers.members
    seen = Seen()
    async with PullConsumer("g", namesrv=cluster.namesrv_addr, topics=["t"]) as listed:
        assert len(members.client_ids("g")) == 1
        async with PullConsumer("g", namesrv=cluster.namesrv_addr, topics=["t"]):
            assert len(members.client_ids("g")) == 2, "their own kind leaves them alone"
        async with push(cluster, seen) as member:
            await until(lambda: len(seen.bodies) == 8)
            assert members.client_ids("g") == [member.client_id]
            assert "pull consumer listed no more" in caplog.text
            for queue in await listed.fetch_queues("t"):
                assert len((await listed.pull(queue, 0)).messages) == 2
    assert set(seen.bodies.values()) == {1}
    assert members.group("g") is None
