"""Routes are asked for once, kept, refreshed and forgotten."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.silent_server import SilentServer

from aerobee.client.cluster import nameservers
from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.nameservers import Nameservers
from aerobee.client.cluster.routes import RouteCache, TopicRoute, parse_route
from aerobee.client.errors import RouteMissing
from aerobee.client.message import MessageQueue
from aerobee.client.settings import ClientSettings
from aerobee.remoting.bodies import BrokerData, QueueData, TopicRouteData
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.net.client import refuse_requests
from aerobee.remoting.net.routes import Reply

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.fixture
async def routes(cluster: FakeCluster) -> AsyncIterator[RouteCache]:
    """A cache that asks the cluster's nameserver."""
    connections = Connections(ClientSettings(), refuse_requests)
    yield RouteCache(Nameservers(connections, [cluster.namesrv], in_order=True))
    await connections.close()


async def test_one_question_serves_all_who_wait(cluster: FakeCluster, routes: RouteCache) -> None:
    """Look-ups at the same time share a request; later ones need none."""
    cluster.create("t", 2)
    found = await asyncio.gather(*(routes.get("t") for _ in range(10)))
    assert all(route is found[0] for route in found)
    await routes.get("t")
    assert len(cluster.brokers[0].requests(ROUTE)) == 1
    assert routes.address("broker-b") == cluster.brokers[1].address


async def test_who_gives_up_a_look_up_leaves_it_to_the_others(
    cluster: FakeCluster, routes: RouteCache
) -> None:
    """Not even the one that asked first takes their answer away."""
    cluster.create("t", 2)
    callers = [asyncio.create_task(routes.get("t")) for _ in range(3)]
    await asyncio.sleep(0)
    callers[0].cancel()
    first, *others = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert all(isinstance(route, TopicRoute) for route in others)
    assert len(cluster.brokers[0].requests(ROUTE)) == 1


async def test_changes_are_announced_once(cluster: FakeCluster, routes: RouteCache) -> None:
    """A refresh that finds nothing different says nothing."""
    cluster.create("t", 2)
    changes: list[TopicRoute] = []
    routes.on_changed.append(changes.append)
    for _ in range(3):
        await routes.refresh("t")
    assert len(changes) == 1
    cluster.create("t", 3)
    await routes.refresh_all(["t", "unknown"])
    assert [len(route.read_queues) for route in changes] == [4, 6]


async def test_topics_may_come_while_others_are_looked_up(
    cluster: FakeCluster, routes: RouteCache
) -> None:
    """A consumer subscribes to one more meanwhile: that look-up is another one's affair."""
    cluster.create("t", 2)
    topics = ["t"]
    wanted = dict.fromkeys(topics)
    refreshing = asyncio.create_task(routes.refresh_all(wanted))
    await asyncio.sleep(0)
    wanted["u"] = None
    await refreshing
    assert list(routes.routes) == topics


async def test_brokers_that_left_are_forgotten(cluster: FakeCluster, routes: RouteCache) -> None:
    """Once no route names them."""
    cluster.create("t", 2)
    await routes.get("t")
    cluster.listed.discard("broker-b")
    await routes.refresh_all(["t"])
    assert routes.address("broker-b") is None
    with pytest.raises(Unavailable, match="no route names broker broker-b"):
        await routes.broker_address(MessageQueue("t", "broker-b", 0))


async def test_a_known_route_outlives_a_missing_answer(
    cluster: FakeCluster, routes: RouteCache
) -> None:
    """A topic that disappears, or a silent nameserver, changes nothing."""
    cluster.create("t", 2)
    route = await routes.get("t")
    cluster.listed.clear()
    assert await routes.refresh("t") is None
    assert await routes.get("t") is route
    for broker in cluster.brokers:
        await broker.stop()
    await routes.refresh_all(["t"])
    assert await routes.get("t") is route


async def test_the_next_nameserver_is_asked(cluster: FakeCluster) -> None:
    """The one that answers stays the first to be asked."""
    cluster.create("t", 1)
    connections = Connections(ClientSettings(), refuse_requests)
    routes = RouteCache(Nameservers(connections, ["127.0.0.1:1", cluster.namesrv], in_order=True))
    assert await routes.get("t")
    assert routes.nameservers.answered == cluster.namesrv
    await connections.close()


async def test_a_nameserver_that_is_silent_is_asked_on_another_connection() -> None:
    """A connection may be half open for minutes; Java's client closes it, too."""
    async with SilentServer() as server:
        connections = Connections(ClientSettings(api_timeout_ms=50), refuse_requests)
        routes = RouteCache(Nameservers(connections, [server.address], in_order=True))
        for _ in range(2):
            with pytest.raises(Unavailable, match="no reply"):
                await routes.get("t")
        assert server.connections == 2
        await connections.close()


async def test_silent_nameservers_hold_nobody_up(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is asked as well after a moment, not after the time of a whole request."""
    monkeypatch.setattr(nameservers, "PATIENCE_S", 0.01)
    cluster.create("t", 1)
    async with SilentServer() as one, SilentServer() as two:
        connections = Connections(ClientSettings(api_timeout_ms=60_000), refuse_requests)
        routes = RouteCache(
            Nameservers(connections, [one.address, two.address, cluster.namesrv], in_order=True)
        )
        async with asyncio.timeout(30):  # half of what a single one would take
            assert await routes.get("t")
            assert routes.nameservers.answered == cluster.namesrv
            await routes.refresh("t")
        assert (one.connections, two.connections) == (1, 1)
        await connections.close()


@pytest.mark.parametrize("body", [b"no JSON", b"null", b'{"brokerDatas": [{"brokerName": 1}]}'])
async def test_a_damaged_answer_is_none(cluster: FakeCluster, body: bytes) -> None:
    """The next nameserver is asked; where there is none, the error says what was wrong."""
    cluster.create("t", 1)
    damaged, sound = cluster.brokers
    damaged.script[ROUTE].extend([lambda *_: Reply(body=body)] * 2)
    connections = Connections(ClientSettings(), refuse_requests)
    alone = RouteCache(Nameservers(connections, [damaged.address], in_order=True))
    with pytest.raises(Unavailable, match="for topic 't': body is no TopicRouteData"):
        await alone.get("t")
    both = RouteCache(Nameservers(connections, [damaged.address, sound.address], in_order=True))
    assert await both.get("t")
    assert both.nameservers.answered == sound.address
    await connections.close()


async def test_an_assumed_route_becomes_the_real_one(
    cluster: FakeCluster, routes: RouteCache
) -> None:
    """Readers are not fooled by a route that only senders may assume."""
    assumed = await routes.for_sending("new", "TBW102", 4)
    assert assumed.assumed
    assert len(assumed.write_queues) == 8
    with pytest.raises(RouteMissing):
        await routes.get("new")
    cluster.create("new", 1)
    real = await routes.get("new")
    assert not real.assumed
    assert len(real.write_queues) == 2


async def test_a_broker_that_registers_between_two_questions_is_found(
    cluster: FakeCluster, routes: RouteCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither topic nor creator was known when they were asked for, and then there is a broker."""
    known, asked = cluster.route, list[str]()

    def route(topic: str) -> TopicRouteData | None:
        asked.append(topic)
        return known(topic) if len(asked) > 2 else None

    monkeypatch.setattr(cluster, "route", route)
    assert (await routes.for_sending("new", "TBW102", 4)).assumed
    assert asked == ["new", "TBW102", "new", "TBW102"]


def data(perm: int, *, order: str | None = None, master: bool = True) -> TopicRouteData:
    """Build a nameserver's reply: one broker, 3 queues to read and 2 to write."""
    return TopicRouteData(
        order_topic_conf=order,
        queue_datas=[QueueData(broker_name="b", read_queue_nums=3, write_queue_nums=2, perm=perm)],
        broker_datas=[BrokerData(broker_name="b", broker_addrs={0 if master else 1: "h:1"})],
    )


@pytest.mark.parametrize(("perm", "read", "write"), [(6, 3, 2), (4, 3, 0), (2, 0, 2), (0, 0, 0)])
def test_permissions_decide_on_queues(perm: int, read: int, write: int) -> None:
    """Queues to read from and to send to differ in number and permission."""
    route = parse_route("t", data(perm))
    assert (len(route.read_queues), len(route.write_queues)) == (read, write)


def test_without_master_there_is_nothing_to_send_to() -> None:
    """A slave can be read from all the same."""
    route = parse_route("t", data(6, master=False))
    assert (len(route.read_queues), route.write_queues) == (3, ())


def test_ordered_topics_keep_their_queues() -> None:
    """The configured queues count for sending, whether their brokers live or not."""
    route = parse_route("t", data(6, order="b:4;gone:2;nonsense;x:y"))
    names = [(queue.broker_name, queue.queue_id) for queue in route.write_queues]
    assert names == [("b", 0), ("b", 1), ("b", 2), ("b", 3), ("gone", 0), ("gone", 1)]
    assert route.ordered


@pytest.mark.parametrize("count", [65_537, 2**31 - 1, -1])
def test_a_hostile_count_harms_its_broker_alone(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Sends and reads go to the topic's other brokers, not to queues that nobody has."""
    brokers = [BrokerData(broker_name=name, broker_addrs={0: "127.0.0.1:1"}) for name in "ab"]
    queues = [
        QueueData(broker_name="b", read_queue_nums=count, write_queue_nums=4, perm=6),
        QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6),
    ]
    route = parse_route("t", TopicRouteData(queue_datas=queues, broker_datas=brokers))
    assert {queue.broker_name for queue in route.write_queues} == {"a"}
    assert [queue.queue_id for queue in route.read_queues] == [0, 1, 2, 3]
    assert f"topic=t broker=b queues={count}" in caplog.text


def test_many_brokers_with_many_queues_do_not_fill_the_memory() -> None:
    """A topic has a million queues in all; brokers that have fewer keep theirs."""
    queues = [
        QueueData(broker_name=f"a-{number}", read_queue_nums=65_536, perm=4) for number in range(40)
    ]
    queues.append(QueueData(broker_name="small", read_queue_nums=4, perm=4))
    route = parse_route("t", TopicRouteData(queue_datas=queues))
    assert len(route.read_queues) == 15 * 65_536 + 4
    ordered = ";".join(f"a-{number}:65536" for number in range(40))
    route = parse_route("t", TopicRouteData(order_topic_conf=f"{ordered};x:{'9' * 5000};y:2"))
    assert len(route.write_queues) == 15 * 65_536 + 2
