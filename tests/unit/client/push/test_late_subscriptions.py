"""What a push consumer subscribes to may change while it runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.consumers import QUICK, Seen, consumer, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    InvalidUse,
    Message,
    MessageModel,
    Producer,
    PushConsumer,
    PushSettings,
)
from aerobee.remoting.bodies import SubscriptionData
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.testing import EmbeddedCluster


def wanted(cluster: FakeCluster, at: int = 0) -> dict[str, str]:
    """Return what a broker's latest heartbeat says that the group wants."""
    (group,) = cluster.brokers[at].heartbeats[-1].consumer_data_set
    return {each.topic: each.sub_string for each in group.subscription_data_set}


def versions(cluster: FakeCluster, at: int) -> set[str]:
    """Return the versions of the subscription to "t" by which a broker's queues were pulled."""
    pulls = cluster.brokers[at].requests(RequestCode.PULL_MESSAGE)
    return {each.ext["subVersion"] for each in pulls if each.ext["topic"] == "t"}


async def test_a_topic_that_comes_late_is_consumed(cluster: FakeCluster) -> None:
    """All brokers are told at once; the topic that was there goes on."""
    cluster.create("t", 1)
    cluster.create("u", 2)
    fill(cluster, "u", 12)
    old, new = Seen(), Seen()
    async with consumer(cluster, old.handle) as member:
        await until(lambda: len(member.queues()) == 2)
        member.subscribe("u", new.handle)
        await until(lambda: len(new.bodies) == 12)
        assert len(member.queues()) == 6
        assert wanted(cluster) == wanted(cluster, 1) == {"t": "*", "%RETRY%g": "*", "u": "*"}
        fill(cluster, "t", 4)
        await until(lambda: len(old.bodies) == 4)
    assert set(old.bodies.values()) | set(new.bodies.values()) == {1}
    assert cluster.brokers[1].committed["g", "u", 1] == 3


async def test_a_topic_is_left(cluster: FakeCluster) -> None:
    """Running handlers end, their offset is stored, nothing else of the topic is handled."""
    cluster.create("t", 1)
    cluster.create("u", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 1)
    begun, gate = asyncio.Event(), asyncio.Event()
    seen, other = Seen(), Seen()
    changes: list[tuple[str, int]] = []

    async def handle(message: object) -> None:
        begun.set()
        await gate.wait()
        await seen.handle(message)  # type: ignore[arg-type]

    member = consumer(cluster, handle)
    member.subscribe("u", other.handle)
    member.on_queues_changed(lambda topic, queues, mine: changes.append((topic, len(mine))))
    async with member:
        await until(lambda: len(member.queues()) == 2)
        await begun.wait()
        member.unsubscribe("t")
        member.unsubscribe("never subscribed")
        fill(cluster, "t", 3)
        assert {queue.topic for queue in member.queues()} == {"u"}
        await until(lambda: wanted(cluster) == {"u": "*", "%RETRY%g": "*"})
        gate.set()
        await until(lambda: cluster.brokers[0].committed.get(("g", "t", 0)) == 1)
        await until(lambda: ("t", 0) in changes)
        fill(cluster, "u", 2)
        await until(lambda: len(other.bodies) == 2)
        assert list(seen.bodies) == [b"0"]
        member.subscribe("t", seen.handle)
        await until(lambda: len(seen.messages) == 4)
    assert [each.queue_offset for each in seen.messages] == [0, 1, 2, 3]


async def test_another_expression_and_handler_count_from_the_next_pull_on(
    cluster: FakeCluster,
) -> None:
    """The queues stay, and a pull that waits in the broker is not waited for."""
    cluster.create("t", 1)
    first, second = Seen(), Seen()
    async with consumer(cluster, first.handle, tags="a") as member:
        await until(lambda: len(member.queues()) == 2)
        fill(cluster, "t", 2, tags="a")
        await until(lambda: len(first.bodies) == 2)
        before = len(cluster.brokers[0].requests(RequestCode.QUERY_CONSUMER_OFFSET))
        member.subscribe("t", second.handle, tags="b")
        await until(lambda: wanted(cluster)["t"] == wanted(cluster, 1)["t"] == "b")
        await until(lambda: all(len(versions(cluster, at)) == 2 for at in range(2)))
        fill(cluster, "t", 2, tags="a")
        fill(cluster, "t", 4, tags="b")
        await until(lambda: len(second.bodies) == 4)
        assert [each.tags for each in second.messages] == ["b"] * 4
        assert sum(first.bodies.values()) == 2
        after = cluster.brokers[0].requests(RequestCode.QUERY_CONSUMER_OFFSET)
        assert len(after) == before, "no queue was taken anew"


@pytest.mark.parametrize(
    "way", [{"ordered": True}, {"model": MessageModel.BROADCASTING}], ids=["ordered", "broadcast"]
)
async def test_every_way_to_consume_follows(
    cluster: FakeCluster, tmp_path: Path, way: dict[str, Any]
) -> None:
    """Topics come, change their handler and go."""
    cluster.create("t", 1)
    cluster.create("u", 1)
    fill(cluster, "u", 4)
    first, second, third = Seen(), Seen(), Seen()
    settings = PushSettings(offsets_folder=str(tmp_path))
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=settings,
        consume_from=ConsumeFrom.FIRST,
        **way,
    )
    member.subscribe("t", first.handle)
    async with member:
        await until(lambda: len(member.queues()) == 2)
        member.subscribe("u", second.handle)
        await until(lambda: len(second.messages) == 4)
        member.subscribe("u", third.handle, tags="a")
        await until(lambda: all(wanted(cluster, at)["u"] == "a" for at in range(2)))
        fill(cluster, "u", 2, tags="a")
        await until(lambda: len(third.messages) == 2)
        member.unsubscribe("u")
        await until(lambda: all("u" not in wanted(cluster, at) for at in range(2)))
        fill(cluster, "t", 2)
        await until(lambda: len(first.messages) == 2)
    assert len(second.messages) == 4


async def test_a_late_expression_that_is_refused_is_told(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, with the broker's words: the call has returned before."""
    cluster.create("t", 1)
    async with consumer(cluster, Seen().handle) as member:
        for broker in cluster.brokers:
            broker.refuse(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SUBSCRIPTION_PARSE_FAILED)
        member.subscribe("t", Seen().handle, sql="a >")
        await until(lambda: "subscription refused group=g" in caplog.text)
        assert "SUBSCRIPTION_PARSE_FAILED" in caplog.text


async def test_nothing_is_subscribed_while_closing(cluster: FakeCluster) -> None:
    """And a member that closes is not brought back by what it subscribed to before."""
    cluster.create("t", 1)
    fill(cluster, "t", 1)
    begun, gate = asyncio.Event(), asyncio.Event()

    async def handle(message: object) -> None:
        begun.set()
        await gate.wait()

    member = consumer(cluster, handle)
    async with member:
        await begun.wait()
        member.subscribe("u", Seen().handle)
        closing = asyncio.ensure_future(member.close())
        await asyncio.sleep(0)
        with pytest.raises(InvalidUse, match="is closed"):
            member.subscribe("v", Seen().handle)
        gate.set()
        await closing
    assert not any(broker.members["g"] for broker in cluster.brokers)


async def test_a_real_broker_follows_every_change(tmp_path: Path) -> None:
    """Its filter for the group, its members' topics, and who owns which queue."""
    seen, other = Seen(), Seen()
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 2)
        await cluster.create_topic("u", 2)
        handovers = cluster.brokers[0].context.consumers.handovers
        async with Producer("p", namesrv=cluster.namesrv_addr) as producer:

            async def send(topic: str, *tags: str) -> None:
                for each in tags:
                    body = f"{topic} {each}".encode()
                    await producer.send(Message(topic, body, tags=each), key=0)

            member = PushConsumer("g", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST)
            member.subscribe("t", seen.handle, tags="a")
            async with member:
                await send("t", "a", "b")
                await until(lambda: list(seen.bodies) == [b"t a"])
                member.subscribe("t", seen.handle, tags="c")
                members = cluster.brokers[0].context.consumers.members
                await until(lambda: _expression(members.subscription("g", "t")) == "c")
                await send("t", "a", "c")
                await until(lambda: list(seen.bodies) == [b"t a", b"t c"])
                await send("u", "x")
                member.subscribe("u", other.handle)
                await until(lambda: list(other.bodies) == [b"u x"])
                owned = handovers.owned
                member.unsubscribe("t")
                await until(lambda: handovers.owned == owned - 2)
                await until(lambda: members.groups_of_topic("t") == [])
                await send("t", "c")
                await send("u", "y")
                await until(lambda: list(other.bodies) == [b"u x", b"u y"])
    assert set(seen.bodies.values()) | set(other.bodies.values()) == {1}


def _expression(known: SubscriptionData | None) -> str:
    return known.sub_string if known is not None else ""


async def test_topics_that_come_and_go_leave_nothing_behind(cluster: FakeCluster) -> None:
    """Neither those that were read nor those of which this member had no share."""
    cluster.create("t", 1)
    seen = Seen()
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=QUICK,
        client=ClientSettings(route_interval_ms=20),
        consume_from=ConsumeFrom.FIRST,
    )
    member.subscribe("t", seen.handle)
    async with member:
        instance, consumption = member._instance, member._consumption
        assert instance is not None and consumption is not None
        await until(lambda: bool(member.queues()))
        before = set(instance.routes.routes) | {"%RETRY%g"}
        for at in range(8):
            topic = f"passing-{at}"
            cluster.create(topic, 1)
            member.subscribe(topic, seen.handle)

            def reached(topic: str = topic, at: int = at) -> bool:
                if at % 2:  # the others are given up before they are shared
                    return any(queue.topic == topic for queue in member.queues())
                return topic in instance.routes.routes

            await until(reached)
            member.unsubscribe(topic)
            for broker in cluster.brokers:
                broker.topics.pop(topic)
        await until(lambda: set(instance.routes.routes) <= before, what="routes are forgotten")
        await until(lambda: set(consumption._owned) <= before, what="no queue is owned")
        await consumption._sample()
        assert set(member.statistics().topics) <= before
