"""Who reads queues without a share in them, in a process that has a member of the same group."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.consumers import Seen
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
)
from aerobee.testing import EmbeddedCluster

CLIENT = ClientSettings(rebalance_interval_ms=100, rebalance_gap_ms=20)
ELSEWHERE = replace(CLIENT, instance_name="elsewhere")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A broker whose topic "t" has two queues with three messages each."""
    settings = {"handover_wait_millis": 60_000}  # of whoever is held
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        await cluster.create_topic("t", 2)
        async with Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT) as producer:
            queues = await producer.fetch_queues("t")
            for at in range(6):
                await producer.send(Message("t", b"%d" % at), queue=queues[at % 2])
        yield cluster


@asynccontextmanager
async def members(cluster: EmbeddedCluster) -> AsyncIterator[tuple[MessageQueue, MessageQueue]]:
    """Two members of group g with a queue each; gives that of `CLIENT`, and the other one's."""
    near, far = (
        PushConsumer(
            "g", namesrv=cluster.namesrv_addr, client=client, consume_from=ConsumeFrom.FIRST
        )
        for client in (CLIENT, ELSEWHERE)
    )
    seen = Seen()
    for member in (near, far):
        member.subscribe("t", seen.handle)
    handovers = cluster.brokers[0].context.consumers.handovers
    async with near, far:
        await until(lambda: len(near.queues()) == len(far.queues()) == 1 and not handovers.waiting)
        await until(lambda: len(seen.bodies) == 6)
        (mine,), (others,) = near.queues(), far.queues()
        owned = handovers.owned
        yield mine, others
        assert (near.queues(), far.queues()) == ([mine], [others])
        assert (handovers.owned, handovers.waiting) == (owned, 0)


async def read(consumer: PullConsumer, queue: MessageQueue) -> None:
    """Pull what the queue holds, ask and commit, without being held or refused."""
    async with asyncio.timeout(20):
        for _ in range(2):
            assert len((await consumer.pull(queue, 0)).messages) == 3
        assert await consumer.committed(queue) is not None
        await consumer.commit(queue, 3)


async def test_a_pull_consumer_is_none_of_the_group(cluster: EmbeddedCluster) -> None:
    """It reads the other member's queue, and this one's, as often as it likes."""
    async with (
        members(cluster) as queues,
        PullConsumer("g", namesrv=cluster.namesrv_addr, client=CLIENT) as consumer,
    ):
        for queue in queues:
            await read(consumer, queue)


async def test_members_that_come_later_change_nothing(cluster: EmbeddedCluster) -> None:
    """The pull consumer was there first, and the member shares its instance then."""
    async with PullConsumer("g", namesrv=cluster.namesrv_addr, client=CLIENT) as consumer:
        for queue in await consumer.fetch_queues("t"):
            assert len((await consumer.pull(queue, 0)).messages) == 3
        async with members(cluster) as queues:
            for queue in queues:
                await read(consumer, queue)


async def test_given_queues_are_read_beside_a_member(cluster: EmbeddedCluster) -> None:
    """Their first offset is found at once, their pulls bring what there is, and go on doing so."""
    consumer = LitePullConsumer(
        "g", namesrv=cluster.namesrv_addr, client=CLIENT, consume_from=ConsumeFrom.FIRST
    )
    async with members(cluster) as queues, consumer:
        async with asyncio.timeout(20):
            await consumer.assign(queues)
            for queue in queues:
                await consumer.seek_to_begin(queue)
            for _ in queues:
                assert len(await consumer.poll()) == 3
            await consumer.commit()
            assert [await consumer.committed(queue) for queue in queues] == [3, 3]
