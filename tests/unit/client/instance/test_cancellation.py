"""Starts and closes that are cancelled, wherever they were, on an instance that others use."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count

import pytest
from support.consumers import Seen, consumer, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
)
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.instance.lifetime import Lifetime
from aerobee.remoting.codes import RequestCode

CLIENT = ClientSettings(instance_name="shared", takeover_delay_ms=0)
Make = Callable[[FakeCluster], Lifetime]


def push(cluster: FakeCluster) -> PushConsumer:
    """Return a push consumer of group g."""
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        client=CLIENT,
        settings=PushSettings(handover_timeout_ms=200),
        consume_from=ConsumeFrom.FIRST,
    )
    member.subscribe("t", Seen().handle)
    return member


def lite(cluster: FakeCluster) -> LitePullConsumer:
    """Return a lite pull consumer of group g."""
    member = LitePullConsumer("g", namesrv=cluster.namesrv, client=CLIENT)
    member.subscribe("t")
    return member


def plain(cluster: FakeCluster) -> PullConsumer:
    """Return a plain pull consumer that brokers list."""
    return PullConsumer("g", namesrv=cluster.namesrv, client=CLIENT, topics=["t"])


def second_producer(cluster: FakeCluster) -> Producer:
    """Return a producer of another group."""
    return Producer("second", namesrv=cluster.namesrv, client=CLIENT)


MAKES = [push, lite, plain, second_producer]


@pytest.fixture
async def shared(cluster: FakeCluster) -> AsyncIterator[tuple[FakeCluster, ClientInstance]]:
    """An instance that a producer uses, too, for as long as the test; nothing is left behind."""
    tasks = len(asyncio.all_tasks() - cluster.tasks())
    cluster.create("t", 2)
    async with Producer(namesrv=cluster.namesrv, client=CLIENT) as producer:
        await producer.send_many([Message("t", b"x"), Message("t", b"y")])
        assert producer._instance is not None
        yield cluster, producer._instance
        await producer.send(Message("t", b"it still sends"))
    await until(lambda: not any(broker.connections for broker in cluster.brokers))
    await until(lambda: len(asyncio.all_tasks() - cluster.tasks()) <= tasks)


async def cancelled_at(turn: int, work: Awaitable[None]) -> bool:
    """Cancel work at its n-th turn of the loop; True if it had ended before."""
    task = asyncio.ensure_future(work)
    for _ in range(turn):
        await asyncio.sleep(0)
        if task.done():
            break
    ended = task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
        raise asyncio.CancelledError
    return ended


async def check_gone(cluster: FakeCluster, instance: ClientInstance, tasks: int) -> None:
    """No member of group g, no entry of it, and no task more than before."""
    assert not instance.consumers
    assert not instance.groups
    assert "second" not in instance.heartbeats.producers
    assert instance.users == 1
    await until(lambda: not any(each.members["g"] for each in cluster.brokers), what="it has left")
    await until(lambda: len(asyncio.all_tasks() - cluster.tasks()) <= tasks, what="tasks end")


async def at_each_turn(
    shared: tuple[FakeCluster, ClientInstance],
    make: Make,
    attempt: Callable[[int, Lifetime], Awaitable[bool]],
) -> None:
    """Attempt it with a new client at every turn, until one comes after the end of the work."""
    cluster, instance = shared
    tasks = len(asyncio.all_tasks() - cluster.tasks())
    for turn in count():
        ended = await attempt(turn, make(cluster))
        await check_gone(cluster, instance, tasks)
        if ended:
            break
    assert turn > 1


@pytest.mark.parametrize("make", MAKES)
async def test_a_close_may_be_cancelled_at_any_moment(
    shared: tuple[FakeCluster, ClientInstance], make: Make
) -> None:
    """It leaves no member, no task and no use of the instance, and can be followed by a start."""
    cluster, instance = shared
    tasks = len(asyncio.all_tasks() - cluster.tasks())

    async def attempt(turn: int, client: Lifetime) -> bool:
        await client.start()
        ended = await cancelled_at(turn, client.close())
        if turn:  # one that never began has done nothing
            await check_gone(cluster, instance, tasks)
        await client.close()
        return ended

    await at_each_turn(shared, make, attempt)


@pytest.mark.parametrize("make", MAKES)
async def test_a_close_may_be_cancelled_again_and_again(
    shared: tuple[FakeCluster, ClientInstance], make: Make
) -> None:
    """A second cancellation finds it where it cleans up after the first: all of it happens."""

    async def attempt(turn: int, client: Lifetime) -> bool:
        await client.start()
        closing = asyncio.create_task(client.close())
        for _ in range(turn + 1):  # at the first one it begins
            await asyncio.sleep(0)
        ended = closing.done()
        while not closing.done():
            closing.cancel()
            await asyncio.sleep(0)
        return ended

    await at_each_turn(shared, make, attempt)


@pytest.mark.parametrize("make", MAKES)
async def test_a_start_may_be_cancelled_at_any_moment(
    shared: tuple[FakeCluster, ClientInstance], make: Make
) -> None:
    """What it has begun is undone."""

    async def attempt(turn: int, client: Lifetime) -> bool:
        ended = await cancelled_at(turn, client.start())
        if ended:
            await client.close()
        return ended

    await at_each_turn(shared, make, attempt)


@pytest.mark.parametrize("make", MAKES)
async def test_a_close_during_the_start_ends_it(
    shared: tuple[FakeCluster, ClientInstance], make: Make
) -> None:
    """Whenever it comes, the client does not run when both are over."""

    async def attempt(turn: int, client: Lifetime) -> bool:
        starting = asyncio.create_task(client.start())
        for _ in range(turn + 1):
            await asyncio.sleep(0)
        ended = starting.done()
        await client.close()
        await asyncio.wait([starting])
        starting.exception()
        return ended

    await at_each_turn(shared, make, attempt)


@pytest.mark.parametrize("make", [push, lite])
async def test_a_close_cancelled_in_a_round_starves_nobody(
    shared: tuple[FakeCluster, ClientInstance], make: Make
) -> None:
    """A round asks a slow broker while the close waits; the other member gets all the queues."""
    cluster, instance = shared
    fill(cluster, "t", 8)
    seen = Seen()
    async with consumer(cluster, seen.handle) as other:
        client = make(cluster)
        await client.start()
        await until(lambda: len(other.queues()) == 2)
        asked = [len(broker.seen) for broker in cluster.brokers]
        for broker in cluster.brokers:
            broker.script[RequestCode.GET_CONSUMER_LIST_BY_GROUP].append(lambda *_: None)
        instance.rebalance_soon(at_once=True)
        await until(lambda: [len(broker.seen) for broker in cluster.brokers] != asked)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.close()
        for broker in cluster.brokers:
            broker.script.clear()
        await until(lambda: len(other.queues()) == 4, what="the other member has all queues")
        await until(lambda: not instance.consumers)


async def test_a_close_cancelled_while_handlers_run_says_good_bye(
    shared: tuple[FakeCluster, ClientInstance],
) -> None:
    """Brokers hear at once that the member has left, on the connection that others use."""
    cluster, _ = shared
    begun = asyncio.Event()

    async def handle(message: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    fill(cluster, "t", 4)
    member = push(cluster)
    member.subscribe("t", handle)
    await member.start()
    await begun.wait()
    closing = asyncio.create_task(member.close())
    await until(lambda: not member.queues())
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await until(lambda: not any(broker.members["g"] for broker in cluster.brokers))


async def test_a_second_close_waits_for_the_first(
    shared: tuple[FakeCluster, ClientInstance],
) -> None:
    """Who has closed a consumer may rely on it, however many do so."""
    cluster, _ = shared
    begun, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(message: object) -> None:
        begun.set()
        await go.wait()
        ended.set()

    fill(cluster, "t", 1)
    member = push(cluster)
    member.settings = PushSettings(handover_timeout_ms=60_000)
    member.subscribe("t", handle)
    await member.start()
    await begun.wait()
    first = asyncio.create_task(member.close())
    await until(lambda: not member.queues())
    second = asyncio.create_task(member.close())
    await asyncio.sleep(0)
    assert not second.done()
    go.set()
    await second
    assert ended.is_set() and not member.client_id
    await first


async def test_a_connection_whose_maker_gave_up_is_greeted(
    shared: tuple[FakeCluster, ClientInstance],
) -> None:
    """Whoever uses it later is known to the broker: the first request is a heartbeat."""
    cluster, instance = shared
    broker = cluster.brokers[1]
    for turn in count():
        instance.connections.drop(broker.address, "the test wants it")
        await until(lambda: not broker.connections)
        before = len(broker.seen)
        ended = await cancelled_at(turn, connect(instance, broker.address))
        await connect(instance, broker.address)
        await instance.connections.call(broker.address, RequestCode.GET_MIN_OFFSET, {})
        codes = [command.code for command in broker.seen[before:]]
        assert codes[0] == RequestCode.HEART_BEAT, f"cancelled at turn {turn}: {codes}"
        if ended:
            break
    assert turn > 1


async def connect(instance: ClientInstance, address: str) -> None:
    """Make a connection, or share its making."""
    await instance.connections.connect(address)
