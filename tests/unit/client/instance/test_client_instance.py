"""One client id's presence: who shares it, what it says to brokers, what it answers."""

import asyncio
import gc
import socket
import threading
from typing import Any

import pytest
from support.consumers import Seen, consumer, fill
from support.servers.tls_certs import CERTS
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    InvalidUse,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    TlsClientSettings,
    Unavailable,
)
from aerobee.client.cluster.address_server import parse_namesrv
from aerobee.client.cluster.client_id import find_client_id, local_ip, make_client_id
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Reply
from aerobee.remoting.net.tls import TlsMode, TlsSettings


@pytest.mark.parametrize(
    "text", ["a:1;b:2", "a:1,b:2", " a:1 ; b:2 ;", "a:1 b:2", ["a:1", "b:2 "], ("a:1", "b:2")]
)
def test_nameservers_are_read_however_written(text: str | list[str]) -> None:
    """Semicolons as RocketMQ has them, commas, blanks, sequences."""
    assert parse_namesrv(text) == ("a:1", "b:2")


@pytest.mark.parametrize("text", ["", " ; ", []])
def test_no_nameserver_is_an_error(text: str | list[str]) -> None:
    """The text shows how to write one."""
    with pytest.raises(InvalidUse, match=r"127\.0\.0\.1:9876"):
        parse_namesrv(text)


def test_client_ids_are_written_as_rocketmq_does() -> None:
    """Address, instance and unit; without a name the process and a time."""
    settings = ClientSettings(client_ip="10.0.0.1", instance_name="me", unit_name="u")
    assert make_client_id("127.0.0.1:9876", settings) == "10.0.0.1@me@u"
    ip, _, instance = make_client_id("127.0.0.1:9876", ClientSettings()).partition("@")
    assert ip == local_ip("127.0.0.1:9876") == "127.0.0.1"
    assert instance.count("#") == 1


async def test_a_nameservers_name_is_looked_up_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may take seconds; all other clients of the loop go on meanwhile."""
    look_up, asked, go = socket.getaddrinfo, list[str](), threading.Event()

    def slowly(host: str, port: int, *args: Any, **options: Any) -> Any:
        asked.append(host)
        assert go.wait(10)
        return look_up("127.0.0.1", port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    settings = ClientSettings(instance_name="me")
    assert make_client_id("somewhere.test:9876", settings) == ""
    finding = asyncio.create_task(find_client_id("somewhere.test:9876", settings))
    await until(lambda: asked == ["somewhere.test"])
    assert not finding.done()
    go.set()
    assert await finding == "127.0.0.1@me"


async def test_brokers_are_told_at_intervals(cluster: FakeCluster) -> None:
    """Heartbeats, routes and offsets come again and again."""
    cluster.create("t", 1)
    fill(cluster, "t", 4)
    client = ClientSettings(heartbeat_interval_ms=20, route_interval_ms=20, offsets_interval_ms=20)
    seen = Seen()
    member = PushConsumer("g", namesrv=cluster.namesrv, client=client)
    member.subscribe("t", seen.handle)
    broker = cluster.brokers[0]
    async with member:
        await until(lambda: bool(member.queues()))
        heartbeats = len(broker.heartbeats)
        await until(lambda: len(broker.heartbeats) > heartbeats + 3)
        await until(lambda: len(broker.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) > 3)
        await until(lambda: len(broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) > 3)


async def test_a_commit_without_answer_keeps_no_other_group_waiting(cluster: FakeCluster) -> None:
    """Offsets of all groups are stored beside each other, round after round."""
    cluster.create("t", 1)
    fill(cluster, "t", 4)
    broker, held = cluster.brokers[0], list[tuple[Connection, Command]]()
    late: list[Command] = []

    def hold(connection: Connection, command: Command) -> Reply | None:
        """Answer to group h alone."""
        if command.ext["consumerGroup"] == "h":
            late.extend([command] * bool(held))
            return Reply()
        held.append((connection, command))
        return None

    client = ClientSettings(offsets_interval_ms=20, offset_timeout_ms=15_000)
    members = [PushConsumer(group, namesrv=cluster.namesrv, client=client) for group in "gh"]
    for member in members:
        member.subscribe("t", Seen().handle)
    async with members[0], members[1]:
        await until(lambda: all(member.queues() for member in members))
        broker.script[RequestCode.UPDATE_CONSUMER_OFFSET].extend([hold] * 1000)
        await until(lambda: len(late) >= 3)
        broker.script.clear()
        for connection, command in held:
            connection.send(command.reply(0))


async def test_retries_of_every_broker_are_read_from_the_start(cluster: FakeCluster) -> None:
    """Each makes the group's retry topic when it hears of the group; routes are asked before."""
    cluster.create("t", 1)
    async with consumer(cluster, Seen().handle) as member:

        def brokers() -> set[str]:
            assert member.ownership is not None
            owned = member.ownership.queues
            return {queue.broker_name for queue in owned if queue.topic == "%RETRY%g"}

        await until(lambda: brokers() == {"broker-a", "broker-b"})


async def test_a_notification_rebalances_at_once(cluster: FakeCluster) -> None:
    """Long before the timer."""
    cluster.create("t", 4)
    async with consumer(cluster, Seen().handle) as member:
        await until(lambda: len(member.queues()) == 8)
        broker = cluster.brokers[0]
        stranger = object()
        for each in cluster.brokers:
            each.members["g"][stranger] = "0.0.0.0@first"  # type: ignore[index]
        connection = next(iter(broker.connections & set(broker.members["g"])))
        connection.send(
            Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}, flag=2)
        )
        await until(lambda: len(member.queues()) == 4)
        for each in cluster.brokers:
            del each.members["g"][stranger]  # type: ignore[arg-type]


async def test_a_notification_has_routes_looked_at(cluster: FakeCluster) -> None:
    """Members that know of different brokers would take each other's queues, for half a minute."""
    cluster.create("t", 4)
    cluster.listed.discard("broker-b")
    async with consumer(cluster, Seen().handle) as member:
        await until(lambda: len(member.queues()) == 4)
        cluster.listed.add("broker-b")
        asked = len(cluster.brokers[0].requests(RequestCode.GET_ROUTEINFO_BY_TOPIC))
        for _ in range(20):
            cluster.brokers[0].notify("g")
        await until(lambda: len(member.queues()) == 8)
        again = len(cluster.brokers[0].requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) - asked
        assert again <= 4, "twice two topics, and not forty"


async def test_who_is_not_listed_owns_nothing(cluster: FakeCluster) -> None:
    """The own id missing from the member list drops every queue."""
    cluster.create("t", 2)
    client = ClientSettings(rebalance_interval_ms=20, rebalance_gap_ms=10)
    member = PushConsumer("g", namesrv=cluster.namesrv, client=client)
    member.subscribe("t", Seen().handle)
    async with member:
        await until(lambda: len(member.queues()) == 4)
        known = [dict(broker.members["g"]) for broker in cluster.brokers]
        for broker in cluster.brokers:
            for connection in broker.members["g"]:
                broker.members["g"][connection] = "somebody@else"
        await until(lambda: not member.queues())
        for broker, members in zip(cluster.brokers, known, strict=True):
            broker.members["g"].update(members)
        await until(lambda: len(member.queues()) == 4)


async def test_any_broker_that_lives_tells_the_members(cluster: FakeCluster) -> None:
    """A broker that is gone, though the route still names it, stops no rebalancing."""
    cluster.create("t", 2)
    instance = ClientInstance((cluster.namesrv,), ClientSettings())
    route = await instance.routes.get("t")
    for broker in cluster.brokers:
        broker.members["g"] = {object(): "1.2.3.4@somebody"}  # type: ignore[dict-item]
    await cluster.brokers[0].stop()
    for _ in range(8):  # whom it asks first is left to chance
        assert await instance.members("g", route) == ["1.2.3.4@somebody"]
    await cluster.brokers[1].stop()
    with pytest.raises(Unavailable):
        await instance.members("g", route)
    await instance.close()


async def test_unknown_requests_are_answered_so(cluster: FakeCluster) -> None:
    """As RocketMQ answers them; the connection goes on."""
    cluster.create("t", 1)
    broker = cluster.brokers[1]
    queue = MessageQueue("t", broker.name, 0)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"x"), queue=queue)
        (connection,) = broker.connections
        reply = await connection.call(Command(RequestCode.NOTIFY_UNSUBSCRIBE_LITE), 5)
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        await producer.send(Message("t", b"y"), queue=queue)


async def test_the_last_user_closes_the_instance(cluster: FakeCluster) -> None:
    """Nothing stays connected, no task is left."""
    cluster.create("t", 1)
    before = asyncio.all_tasks()
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"x"))
        async with consumer(cluster, Seen().handle) as member:
            await until(lambda: bool(member.queues()))
        await producer.send(Message("t", b"y"))
    await until(lambda: not any(broker.connections for broker in cluster.brokers))
    await until(lambda: asyncio.all_tasks() <= before | cluster.tasks())


async def test_clients_speak_tls_where_they_are_told_to() -> None:
    """Nameserver and brokers are reached by TLS, and by nothing else."""
    tls = TlsSettings(
        mode=TlsMode.ENFORCING,
        cert_path=str(CERTS / "server.pem"),
        key_path=str(CERTS / "server.key"),
    )
    async with FakeCluster(tls=tls) as cluster:
        cluster.create("t", 1)
        secure = ClientSettings(tls=TlsClientSettings())
        async with Producer(namesrv=cluster.namesrv, client=secure) as producer:
            await producer.send(Message("t", b"x"))
        async with Producer(namesrv=cluster.namesrv) as plain:
            with pytest.raises(Unavailable):
                await plain.send(Message("t", b"x"))
        assert len(cluster.brokers[0].log["t", 0]) == 1


@pytest.mark.parametrize("ended_first", [True, False])
@pytest.mark.filterwarnings("error")
async def test_a_connection_made_at_the_end_leaves_nothing_behind(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, ended_first: bool
) -> None:
    """A heartbeat that nobody waits for any more is no coroutine, and no error, left alone."""
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"x"))
        instance = producer._instance
        assert instance is not None
        (address, *_) = instance.routes.brokers["broker-a"].values()
        instance.connections.drop(address, "to make it anew")
        if ended_first:
            instance._tasks.cancel()
        connecting = asyncio.ensure_future(instance.connections.connect(address))
        await until(lambda: instance.connections.open(address) is not None, what="it is open")
        instance._tasks.cancel()
        (await connecting).close("broken off")
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio"] == []
