"""Brokers that move, queues that come, topics that go: clients find out, and forget."""

import socket
from typing import Any

import pytest
from support.consumers import Seen, consumer, fill
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullSettings,
    RouteMissing,
    Unavailable,
)
from aerobee.client.cluster.client_id import make_client_id
from aerobee.client.cluster.routes import AT_A_TIME, MISSED_MAX
from aerobee.remoting.codes import RequestCode

SLOW = ClientSettings(route_interval_ms=3_600_000)  # nothing comes by the timer
PATIENT = ClientSettings(api_timeout_ms=60_000)
QUEUE = MessageQueue("t", "broker-b", 0)
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


async def move(broker: FakeBroker) -> None:
    """Let a broker come back at another address, with all that it has."""
    before = broker.address
    await broker.stop()
    with socket.socket() as kept:  # so that nobody else listens at the old one
        kept.bind(("127.0.0.1", 0))
        await broker.start()
    assert broker.address != before


async def test_queues_are_asked_for_each_time(cluster: FakeCluster) -> None:
    """A job that reads all queues misses none that came since."""
    cluster.create("t", 1)
    lite = LitePullConsumer("g", namesrv=cluster.namesrv, client=SLOW)
    async with (
        PullConsumer("p", namesrv=cluster.namesrv, client=SLOW) as plain,
        lite,
        Producer(namesrv=cluster.namesrv, client=SLOW) as producer,
    ):
        for queues in (1, 3):
            cluster.create("t", queues)
            for client in (plain, lite, producer):
                assert len(await client.fetch_queues("t")) == 2 * queues
        for broker in cluster.brokers:
            del broker.topics["t"]
        with pytest.raises(RouteMissing):
            await plain.fetch_queues("t")


async def test_a_plain_consumer_finds_a_broker_that_moved(cluster: FakeCluster) -> None:
    """At the next call: its pulls, questions and commits go to the new address."""
    cluster.create("t", 1)
    broker = cluster.brokers[1]
    broker.store("t", 0, b"x")
    async with PullConsumer("p", namesrv=cluster.namesrv, client=SLOW) as plain:
        for _ in range(3):
            assert (await plain.pull(QUEUE, 0)).messages[0].body == b"x"
            await move(broker)
            assert await plain.newest_offset(QUEUE) == 1
            await move(broker)
            await plain.commit(QUEUE, 1)
            await move(broker)


async def test_a_send_to_a_chosen_queue_finds_its_broker(cluster: FakeCluster) -> None:
    """Though no other one may be tried."""
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv, client=SLOW) as producer:
        await producer.send(Message("t", b"1"), queue=QUEUE)
        await move(cluster.brokers[1])
        await producer.send(Message("t", b"2"), queue=QUEUE)
    assert len(cluster.brokers[1].log["t", 0]) == 2


async def test_a_given_queue_is_read_where_its_broker_is(cluster: FakeCluster) -> None:
    """Without waiting for the timer of routes."""
    cluster.create("t", 1)
    settings = LitePullSettings(pull=PullSettings(suspend_ms=100))
    async with LitePullConsumer(
        "g",
        namesrv=cluster.namesrv,
        client=SLOW,
        settings=settings,
        consume_from=ConsumeFrom.FIRST,
    ) as lite:
        await lite.assign([QUEUE])
        await move(cluster.brokers[1])
        cluster.brokers[1].store("t", 0, b"late")
        assert [message.body for message in await lite.poll(5_000)] == [b"late"]


async def test_queues_that_are_read_keep_their_route_fresh(cluster: FakeCluster) -> None:
    """Though nobody has subscribed to their topic, or been given them."""
    cluster.create("t", 1)
    client = ClientSettings(route_interval_ms=20)
    async with PullConsumer("p", namesrv=cluster.namesrv, client=client) as plain:
        await plain.committed(QUEUE)
        assert plain._instance is not None
        routes = plain._instance.routes
        cluster.create("t", 5)
        await until(lambda: len(routes.routes["t"].read_queues) == 10)


async def test_topics_that_are_gone_are_forgotten(cluster: FakeCluster) -> None:
    """After a while, for a nameserver that was restarted does not know them all at first."""
    cluster.create("t", 1)
    cluster.create("u", 1)
    client = ClientSettings(route_interval_ms=5)
    async with Producer(namesrv=cluster.namesrv, client=client) as producer:
        await producer.send(Message("t", b"x"))
        await producer.send(Message("u", b"x"))
        assert producer._instance is not None
        routes = producer._instance.routes
        for broker in cluster.brokers:
            del broker.topics["t"]
        asked = len(cluster.brokers[0].requests(ROUTE))
        await until(lambda: "t" not in routes.routes)
        assert len(cluster.brokers[0].requests(ROUTE)) - asked >= MISSED_MAX
        assert routes.kept == {"u"}
        assert "u" in routes.routes


async def test_silent_nameservers_are_not_asked_for_every_topic(cluster: FakeCluster) -> None:
    """A round with hundreds of topics would take hours."""
    client = ClientSettings(route_interval_ms=3_600_000, api_timeout_ms=50)
    topics = [f"t{at}" for at in range(5 * AT_A_TIME)]
    async with Producer(namesrv=cluster.namesrv, client=client) as producer:
        assert producer._instance is not None
        asked = len(cluster.brokers[0].requests(ROUTE))
        for _ in topics:
            cluster.brokers[0].script[ROUTE].append(lambda *_: None)
        await producer._instance.routes.refresh_all(topics)
        assert len(cluster.brokers[0].requests(ROUTE)) - asked == AT_A_TIME
        cluster.brokers[0].script.clear()


async def test_a_late_subscription_does_not_stop_its_group(cluster: FakeCluster) -> None:
    """While no nameserver tells of its topic, queues that others give up are taken."""
    cluster.create("t", 2)
    fill(cluster, "t", 4)
    seen = Seen()
    async with consumer(cluster, seen.handle, client=PATIENT) as one:
        async with consumer(cluster, seen.handle, client=PATIENT) as other:
            await until(lambda: len(one.queues()) == len(other.queues()) == 2)
            for _ in range(20):
                cluster.brokers[0].script[ROUTE].append(lambda *_: None)
            asked = len(cluster.brokers[0].requests(ROUTE))
            one.subscribe("u", seen.handle)
            await until(lambda: len(cluster.brokers[0].requests(ROUTE)) > asked)
        await until(lambda: len(one.queues()) == 4, 20)  # less than a look-up takes
        cluster.brokers[0].script.clear()


async def test_a_nameserver_with_a_name_is_looked_up_beside_the_loop(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow DNS server stops nobody else; the client id is that of the way to it."""
    asked: list[object] = []

    class Socket(socket.socket):
        """Tells with what it was connected."""

        def connect(self, address: Any) -> None:
            asked.append(address)
            super().connect(address)

    port = cluster.namesrv.rpartition(":")[2]
    assert not make_client_id(f"localhost:{port}", ClientSettings())
    monkeypatch.setattr("aerobee.client.cluster.client_id.socket.socket", Socket)
    member = LitePullConsumer("g", namesrv=f"localhost:{port}")
    member.subscribe("t")
    async with member, Producer(namesrv=f"localhost:{port}") as producer:
        assert producer._instance is not None
        assert member.client_id == producer._instance.client_id
        assert member.client_id.partition("@")[0] in ("127.0.0.1", "::1")
    assert asked
    assert not [each for each in asked if isinstance(each, tuple) and each[0] == "localhost"]


async def test_nobody_tells_where_a_broker_has_gone(cluster: FakeCluster) -> None:
    """The error is that of the connection, and comes soon."""
    cluster.create("t", 1)
    async with PullConsumer("p", namesrv=cluster.namesrv, client=SLOW) as plain:
        await plain.newest_offset(QUEUE)
        await cluster.brokers[1].stop()
        with pytest.raises(Unavailable):
            await plain.pull(QUEUE, 0)
        await cluster.brokers[1].start()
