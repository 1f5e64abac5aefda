"""What nobody has foreseen harms what it befalls, for as long as it lasts, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.consumers import Seen, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    Producer,
    PullSettings,
    PushConsumer,
    PushSettings,
)
from aerobee.client.cluster import routes
from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.routes import parse_route
from aerobee.client.group.locks import LockKeeper
from aerobee.client.poll.fetched import FetchedMessages
from aerobee.client.pulls.puller import Puller
from aerobee.remoting.bodies import BrokerData, QueueData, TopicRouteData
from aerobee.remoting.errors import NotConnected

CLIENT = ClientSettings(
    rebalance_interval_ms=50, rebalance_gap_ms=20, route_interval_ms=50, heartbeat_interval_ms=50
)
PULL = PullSettings(error_delay_ms=20, suspend_ms=200)
SOON_MS = 500  # for which a send is tried again
BAD = ["broker..local:10911", f"{'b' * 64}.local:10911", "broker b:1", "nowhere", "b:0", ""]


@contextmanager
def listed_at(cluster: FakeCluster, address: str) -> Iterator[None]:
    """Let the nameserver tell a wrong address of the second broker."""
    broker = cluster.brokers[1]
    right, broker.address = broker.address, address
    try:
        yield
    finally:
        broker.address = right


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("address", BAD[:1])
async def test_a_wrong_address_harms_its_broker_alone(
    cluster: FakeCluster, address: str, ordered: bool
) -> None:
    """Consumers start and read the others, sends go to them; mended, it is as if nothing was."""
    cluster.create("t", 2)
    fill(cluster, "t", 8)
    seen = Seen()
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(pull=PULL),
        client=CLIENT,
        consume_from=ConsumeFrom.FIRST,
        ordered=ordered,
    )
    member.subscribe("t", seen.handle)
    with listed_at(cluster, address):
        await member.start()
        await until(lambda: len(seen.bodies) == 4)
        async with Producer(namesrv=cluster.namesrv) as producer:
            for at in range(20):
                await producer.send(Message("t", b"new %d" % at))
        await until(lambda: len(seen.bodies) == 24)
    await until(lambda: len(seen.bodies) == 28, what="the other broker is read, too")
    await until(lambda: len(member.queues()) == 4)
    await member.close()


async def test_a_given_queue_outlives_a_wrong_address(cluster: FakeCluster) -> None:
    """Its broker is read again as soon as the route names it rightly."""
    cluster.create("t", 1)
    settings = LitePullSettings(pull=PULL)
    queue = MessageQueue("t", "broker-b", 0)
    async with LitePullConsumer(
        "g", namesrv=cluster.namesrv, client=CLIENT, settings=settings
    ) as consumer:
        await consumer.assign([queue])
        assert consumer._instance is not None
        routes = consumer._instance.routes
        with listed_at(cluster, BAD[0]):
            await routes.refresh("t")
            for connection in list(cluster.brokers[1].connections):
                connection.close("the test wants it")
            await until(lambda: not cluster.brokers[1].connections)
        cluster.brokers[1].store("t", 0, b"late")
        batch = await consumer.poll(5_000)
        assert [message.body for message in batch] == [b"late"]


def test_a_route_holds_no_wrong_address() -> None:
    """Those that nobody can connect to are left out, whatever else the route says."""
    data = TopicRouteData(
        order_topic_conf=None,
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
            for name in ("a", "b")
        ],
        broker_datas=[
            BrokerData(
                cluster="c",
                broker_name="a",
                broker_addrs={at + 1: bad for at, bad in enumerate(BAD)},
            ),
            BrokerData(cluster="c", broker_name="b", broker_addrs={0: "broker-b.local:10911"}),
        ],
    )
    route = parse_route("t", data)
    assert route.brokers == {"a": {}, "b": {0: "broker-b.local:10911"}}
    assert [queue.broker_name for queue in route.write_queues] == ["b"]


@pytest.fixture
def believing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes keep whatever a nameserver calls an address."""
    monkeypatch.setattr(routes, "parse_address", lambda address: (address, 0))


@pytest.mark.usefixtures("believing")
@pytest.mark.parametrize("address", BAD)
async def test_a_send_to_no_address_is_tried_at_another_broker(
    cluster: FakeCluster, address: str
) -> None:
    """Single messages and batches, as where a broker cannot be reached."""
    cluster.create("t", 1)
    with listed_at(cluster, address):
        async with Producer(namesrv=cluster.namesrv) as producer:
            for at in range(4):
                await producer.send(Message("t", b"%d" % at))
                await producer.send_many([Message("t", b"many %d" % at)])


@pytest.mark.usefixtures("believing")
@pytest.mark.parametrize("address", BAD)
async def test_a_chosen_queue_without_an_address_is_told_as_unavailable(
    cluster: FakeCluster, address: str
) -> None:
    """As the documents of every way to send promise; mended, its broker gets the next message."""
    cluster.create("t", 1)
    queue = MessageQueue("t", "broker-b", 0)
    message = Message("t", b"now")
    async with Producer(namesrv=cluster.namesrv) as producer:
        with listed_at(cluster, address):
            for attempt in (
                lambda: producer.send(message, queue=queue, timeout_ms=SOON_MS),
                lambda: producer.send_many([message], queue=queue, timeout_ms=SOON_MS),
                lambda: producer.send_oneway(message, queue=queue),
            ):
                with pytest.raises(NotConnected, match="address"):
                    await attempt()
        await producer.send(message, queue=queue)
        result = await producer.send(message, queue=queue)
    assert result.queue_offset == 1


class Odd(Exception):
    """No error of this project."""


@pytest.mark.parametrize(
    ("owner", "name"), [(Puller, "begin"), (Puller, "read"), (FetchedMessages, "add")]
)
async def test_pulling_goes_on_after_any_error(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    """Of a given queue, too, which nobody takes anew; nothing that was fetched is stranded."""
    cluster.create("t", 1)
    left = [3]
    sound = getattr(owner, name)

    def broken(*arguments: object, **named: object) -> object:
        left[0] -= 1
        if left[0] >= 0:
            raise Odd
        return sound(*arguments, **named)

    monkeypatch.setattr(owner, name, broken)
    fill(cluster, "t", 2)
    settings = LitePullSettings(pull=PULL)
    async with LitePullConsumer(
        "g", namesrv=cluster.namesrv, settings=settings, consume_from=ConsumeFrom.FIRST
    ) as consumer:
        await consumer.assign([MessageQueue("t", "broker-a", 0)])
        batch = await consumer.poll(5_000)
    assert left[0] < 0
    assert [message.body for message in batch] == [b"0"]


async def test_queues_that_could_not_be_locked_are_asked_for_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever asking for their locks has raised."""
    cluster.create("t", 2)
    take, left = LockKeeper.take, [2]

    async def broken(self: LockKeeper, queues: list[MessageQueue]) -> set[MessageQueue]:
        left[0] -= 1
        if left[0] >= 0:
            raise Odd
        return await take(self, queues)

    monkeypatch.setattr(LockKeeper, "take", broken)
    member = PushConsumer("g", namesrv=cluster.namesrv, client=CLIENT, ordered=True)
    member.subscribe("t", Seen().handle)
    async with member:
        await until(lambda: len(member.queues()) == 4)


async def test_one_broker_that_fails_oddly_leaves_the_start_alone(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats to the others are sent and answered."""
    cluster.create("t", 1)
    address = cluster.brokers[1].address

    connect = Connections.connect

    async def broken(self: Connections, at: str) -> object:
        if at == address:
            raise Odd
        return await connect(self, at)

    monkeypatch.setattr(Connections, "connect", broken)
    member = PushConsumer("g", namesrv=cluster.namesrv, client=CLIENT)
    member.subscribe("t", Seen().handle)
    async with member:
        await until(lambda: bool(cluster.brokers[0].members["g"]))
