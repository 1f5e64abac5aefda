"""A push consumer handles each message, commits what is done, and shares queues with others."""

import asyncio
import threading

import pytest
from support.consumers import Seen, consumer, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    BrokerRefused,
    ClientSettings,
    ConsumeFrom,
    ConsumeResult,
    InvalidUse,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.remoting.codes import RequestCode, ResponseCode


async def test_every_message_is_handled_once_and_committed(cluster: FakeCluster) -> None:
    """All queues of all brokers are read; at the close all offsets are stored."""
    cluster.create("t", 3)
    fill(cluster, "t", 500)
    seen = Seen()
    async with consumer(cluster, seen.handle) as member:
        await until(lambda: len(seen.bodies) == 500)
        fill(cluster, "t", 6)
        await until(lambda: sum(seen.bodies.values()) == 506)
        assert len(member.queues()) == 6
        assert member.statistics().handlers.succeeded == 506
    assert max(seen.bodies.values()) == 2  # the six bodies that were stored twice
    for broker in cluster.brokers:
        for queue in range(3):
            assert broker.committed["g", "t", queue] == len(broker.log["t", queue])


async def test_heartbeats_say_who_is_here(cluster: FakeCluster) -> None:
    """As RocketMQ's client writes them, to every broker of the topic."""
    cluster.create("t", 1)
    async with consumer(cluster, Seen().handle, tags="a || b") as member:
        await until(lambda: all(broker.heartbeats for broker in cluster.brokers))
        data = cluster.brokers[1].heartbeats[0]
        assert data.client_id == member.client_id
        (group,) = data.consumer_data_set
        assert (group.group_name, group.consume_type) == ("g", "CONSUME_PASSIVELY")
        assert (group.message_model, group.consume_from_where) == (
            "CLUSTERING",
            "CONSUME_FROM_FIRST_OFFSET",
        )
        subscription, retries = group.subscription_data_set
        assert (subscription.topic, subscription.sub_string) == ("t", "a || b")
        assert subscription.tags_set == ["a", "b"]
        assert (retries.topic, retries.sub_string) == ("%RETRY%g", "*")
    assert all(not broker.members["g"] for broker in cluster.brokers)


async def test_tags_are_filtered_again_and_passed_over(cluster: FakeCluster) -> None:
    """What the broker let through by mistake is not handled, and does not hold the offset."""
    cluster.create("t", 1)
    fill(cluster, "t", 20, tags="BB")
    fill(cluster, "t", 2, tags="Aa")  # the same hash
    seen = Seen()
    async with consumer(cluster, seen.handle, tags="Aa"):
        await until(lambda: len(seen.bodies) == 2)
    assert {message.tags for message in seen.messages} == {"Aa"}
    assert all(broker.committed["g", "t", 0] == 11 for broker in cluster.brokers)


async def test_two_members_share_and_take_over(cluster: FakeCluster) -> None:
    """The queues are split when the second comes and united when the first goes."""
    cluster.create("t", 4)
    one, two = Seen(), Seen()
    changes: list[tuple[str, int, int]] = []
    first, second = consumer(cluster, one.handle), consumer(cluster, two.handle)
    first.on_queues_changed(lambda topic, all_, mine: changes.append((topic, len(all_), len(mine))))
    async with first:
        await until(lambda: len(first.queues()) == 8)
        async with second:
            assert first.client_id != second.client_id
            await until(lambda: len(first.queues()) == len(second.queues()) == 4)
            assert not set(first.queues()) & set(second.queues())
            fill(cluster, "t", 80)
            await until(lambda: len(one.bodies) + len(two.bodies) == 80)
            assert len(one.bodies) == len(two.bodies) == 40
        await until(lambda: len(first.queues()) == 8)
        fill(cluster, "t", 80)
        await until(lambda: sum(one.bodies.values()) == 120)
    assert sum(two.bodies.values()) == 40
    assert changes == [("t", 8, 8), ("t", 8, 4), ("t", 8, 8)]


async def test_handlers_run_side_by_side_up_to_the_limit(cluster: FakeCluster) -> None:
    """While handlers wait others begin, in the order of offsets, no more than `concurrency`."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 50)
    running, most, begun = 0, 0, list[int]()
    go = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        nonlocal running, most
        begun.append(message.queue_offset)
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(concurrency=7),
        consume_from=ConsumeFrom.FIRST,
    )
    member.subscribe("t", handle)
    async with member:
        await until(lambda: running == 7)
        go.set()
        await until(lambda: len(begun) == 50)
    assert most == 7
    assert begun == sorted(begun)


async def test_plain_functions_run_in_threads(cluster: FakeCluster) -> None:
    """As many at a time as may run; they may block without holding up the loop."""
    cluster.create("t", 1)
    fill(cluster, "t", 40)
    together = threading.Barrier(20, timeout=10)
    threads: set[str] = set()

    def handle(message: ReceivedMessage) -> None:
        together.wait()
        threads.add(threading.current_thread().name)

    member = PushConsumer("g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    member.subscribe("t", handle)
    async with member:
        await until(lambda: member.statistics().handlers.succeeded == 40)
    assert len(threads) == 20
    assert all(name.startswith("g-handler") for name in threads)


async def test_functions_that_return_coroutines_are_async_too(cluster: FakeCluster) -> None:
    """What they return is awaited, and its answer counts."""
    cluster.create("t", 1)
    fill(cluster, "t", 4)
    seen = Seen()

    async def handle(message: ReceivedMessage) -> ConsumeResult:
        await seen.handle(message)
        return ConsumeResult.LATER if message.reconsume_times == 0 else ConsumeResult.SUCCESS

    member = PushConsumer("g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST)
    member.subscribe("t", lambda message: handle(message))
    async with member:
        await until(lambda: member.statistics().handlers.succeeded == 4)
    assert set(seen.bodies.values()) == {2}


async def test_closing_waits_for_handlers_and_commits_them(cluster: FakeCluster) -> None:
    """What runs may end and counts; what has not begun is left to the next owner."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 10)
    started = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        started.set()
        await asyncio.sleep(0.05)

    settings = PushSettings(concurrency=2)
    member = PushConsumer(
        "g", namesrv=cluster.namesrv, settings=settings, consume_from=ConsumeFrom.FIRST
    )
    member.subscribe("t", handle)
    async with member:
        await started.wait()
    assert cluster.brokers[0].committed["g", "t", 0] == 2


async def test_queues_that_are_added_are_found(cluster: FakeCluster) -> None:
    """A changed route is followed at the next look."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    client = ClientSettings(route_interval_ms=20, rebalance_gap_ms=10)
    member = PushConsumer("g", namesrv=cluster.namesrv, client=client)
    member.subscribe("t", Seen().handle)
    async with member:
        await until(lambda: len(member.queues()) == 1)
        cluster.create("t", 3)
        await until(lambda: len(member.queues()) == 3)


async def test_sql_is_checked_before_the_start(cluster: FakeCluster) -> None:
    """A broker that refuses the expression ends the start with its words."""
    cluster.create("t", 1)
    for broker in cluster.brokers:
        broker.refuse(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    member = PushConsumer("g", namesrv=cluster.namesrv)
    member.subscribe("t", Seen().handle, sql="a >")
    with pytest.raises(BrokerRefused, match="SUBSCRIPTION_PARSE_FAILED"):
        await member.start()
    assert not any(broker.heartbeats for broker in cluster.brokers)


async def test_misuse_is_explained(cluster: FakeCluster) -> None:
    """No subscription, a second start, the same instance name twice."""
    cluster.create("t", 1)
    with pytest.raises(InvalidUse, match="subscribes to nothing"):
        await PushConsumer("g", namesrv=cluster.namesrv).start()
    named = ClientSettings(instance_name="me")
    member = PushConsumer("g", namesrv=cluster.namesrv, client=named)
    member.subscribe("t", Seen().handle)
    twin = PushConsumer("g", namesrv=cluster.namesrv, client=named)
    twin.subscribe("t", Seen().handle)
    async with member:
        assert member.client_id == "127.0.0.1@me"
        with pytest.raises(InvalidUse, match="started already"):
            await member.start()
        with pytest.raises(InvalidUse, match="another instance_name"):
            await twin.start()


async def test_groups_of_one_process_share_one_connection(cluster: FakeCluster) -> None:
    """Producer and consumers of different groups are one client to each broker."""
    cluster.create("t", 1)
    before = len(cluster.brokers[1].connections)
    async with (
        consumer(cluster, Seen().handle, group="g1") as one,
        consumer(cluster, Seen().handle, group="g2") as two,
    ):
        assert one.client_id == two.client_id
        await until(lambda: bool(one.queues()) and bool(two.queues()))
        assert len(cluster.brokers[1].connections) - before == 1
