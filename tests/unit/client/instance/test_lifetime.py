"""Whatever becomes of a start, nothing stays open behind it."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext

import pytest
from support.consumers import Seen
from support.consumers import consumer as push_consumer
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import LitePullConsumer, Message, Producer, PullConsumer, PushConsumer
from aerobee.client.errors import InvalidUse
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.instance.lifetime import Lifetime
from aerobee.remoting.codes import RequestCode


def producer(cluster: FakeCluster) -> Producer:
    """Return a producer of another group than the one that is there."""
    return Producer("second", namesrv=cluster.namesrv)


def push(cluster: FakeCluster) -> PushConsumer:
    """Return a push consumer of group g."""
    return push_consumer(cluster, Seen().handle)


def poll(cluster: FakeCluster) -> LitePullConsumer:
    """Return a lite pull consumer of group g."""
    made = LitePullConsumer("g", namesrv=cluster.namesrv)
    made.subscribe("t")
    return made


def pull(cluster: FakeCluster) -> PullConsumer:
    """Return a plain pull consumer that brokers list."""
    return PullConsumer("g", namesrv=cluster.namesrv, topics=["t"])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("make", [producer, push, poll, pull])
async def test_a_start_that_was_closed_leaves_the_next_one_alone(
    cluster: FakeCluster,
    make: Callable[[FakeCluster], Lifetime],
    shared: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One object, closed while it starts and started again: the first start ends by an error.

    The second one stays, also where both use an instance that somebody else keeps.
    """
    cluster.create("t", 1)
    begun, let_go = asyncio.Event(), asyncio.Event()
    identify = ClientInstance.identify

    async def slow(instance: ClientInstance) -> None:
        if not begun.is_set():
            begun.set()
            await let_go.wait()
        await identify(instance)

    async with Producer(namesrv=cluster.namesrv) if shared else nullcontext():
        client = make(cluster)
        monkeypatch.setattr(ClientInstance, "identify", slow)
        first = asyncio.create_task(client.start())
        await begun.wait()
        await client.close()
        await client.start()
        let_go.set()
        with pytest.raises(InvalidUse, match="was closed while it started"):
            await first
        assert client._started()
        await client.close()
    await until(lambda: not any(broker.connections for broker in cluster.brokers))


@pytest.mark.parametrize("make", [producer, push, poll, pull])
async def test_a_start_that_is_given_up_leaves_nothing_open(
    cluster: FakeCluster, make: Callable[[FakeCluster], Lifetime]
) -> None:
    """A time-out of the caller's own, while brokers do not answer to heartbeats."""
    cluster.create("t", 1)
    before = asyncio.all_tasks()
    async with Producer(namesrv=cluster.namesrv) as first:
        for _ in cluster.brokers:
            await first.send(Message("t", b"x"))
        for broker in cluster.brokers:
            broker.script[RequestCode.HEART_BEAT].append(lambda *_: None)
        client = make(cluster)
        starting = asyncio.create_task(client.start())
        await until(
            lambda: not any(each.script[RequestCode.HEART_BEAT] for each in cluster.brokers)
        )
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        async with client:
            pass  # another start is none too many
    await until(lambda: not any(broker.connections for broker in cluster.brokers))
    await until(lambda: asyncio.all_tasks() <= before | cluster.tasks())
