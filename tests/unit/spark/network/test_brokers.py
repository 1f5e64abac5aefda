"""What the driver learns of a cluster's queues, from real brokers of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from support.lake.fake_spark import Checkpoint, run

from aerobee.client import Message, Producer
from aerobee.client.cluster.directory import Cluster
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.raw import PullStatus, RawPull
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import CallTimedOut
from aerobee.remoting.net.client import ConnectionPool
from aerobee.spark.errors import ClusterUnreachable, DataLost, OptionError
from aerobee.spark.network import brokers as network_brokers
from aerobee.spark.network.brokers import Network
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.source import RocketMQSource
from aerobee.spark.topics import TopicChoice
from aerobee.testing import ClusterThread

USERS = TopicChoice(system=False, retry=False)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Two brokers with topic `orders` of two queues on each, and one message more in each queue."""
    with ClusterThread(brokers=2) as cluster:
        asyncio.run(fill(cluster.namesrv_addr))
        yield cluster


async def fill(namesrv: str) -> None:
    """Make the topics and send."""
    async with Cluster(namesrv) as admin, Producer(namesrv=namesrv) as producer:
        await admin.create_topic("orders", queues=2)
        await admin.create_topic("%RETRY%billing", queues=1)
        await admin.create_topic("written", queues=1, perm=2)
        for count, queue in enumerate(await producer.fetch_queues("orders"), 1):
            for number in range(count):
                await producer.send(Message("orders", b"%d" % number), queue=queue)


@pytest.fixture
def network(cluster: ClusterThread) -> Iterator[Network]:
    """A driver's view of the cluster."""
    with Network(NetworkAddress((cluster.namesrv_addr,))) as network:
        yield network


def test_bounds_of_all_queues_of_users_topics(network: Network) -> None:
    """Sorted by queue, without system and retry topics, nor those that may not be read."""
    one, two = network.brokers()
    expected = [
        *(QueueRange(BrokerQueue(one, "orders", number), 0, 1 + number) for number in range(2)),
        *(QueueRange(BrokerQueue(two, "orders", number), 0, 3 + number) for number in range(2)),
    ]
    bounds = network.bounds(USERS)
    assert [each for each in bounds.values() if each.key.topic == "orders"] == expected
    assert not [key for key in bounds if key.topic in ("%RETRY%billing", "written")]
    named = network.bounds(TopicChoice(names=frozenset({"orders"})))
    assert list(named.values()) == expected
    assert network.latest(named) == {each.key: each.end for each in expected}
    assert network.earliest(named) == {each.key: 0 for each in expected}
    retried = network.bounds(TopicChoice(system=False, pattern=".*billing"))
    assert {key.topic for key in retried} == {"%RETRY%billing"}


def test_single_queues(network: Network) -> None:
    """Only the queues that were assigned."""
    _, two = network.brokers()
    wanted = frozenset({BrokerQueue(two, "orders", 1)})
    assert list(network.bounds(TopicChoice(queues=wanted))) == sorted(wanted)


def test_offsets_by_time(network: Network) -> None:
    """Before the first message, and after the last one."""
    bounds = network.bounds(TopicChoice(names=frozenset({"orders"})))
    assert network.offsets_at(bounds, 1) == {key: 0 for key in bounds}
    assert network.offsets_at(bounds, 1 << 50) == {key: each.end for key, each in bounds.items()}


def test_sizes_of_the_next_records(network: Network) -> None:
    """As they stand in the log: all there are in a short queue, none behind its end."""
    bounds = network.bounds(TopicChoice(names=frozenset({"orders"})))
    for each in bounds.values():
        sizes = network.record_sizes(each.key, each.end - 1)
        assert len(sizes) == 1
        assert 91 + len("orders") < sizes[0] < 300
        assert len(network.record_sizes(each.key, 0)) == each.end
        assert len(network.record_sizes(each.key, each.end)) == 0


def test_messages_at_offsets(network: Network) -> None:
    """Where the broker's log has them, and since when; none where there is no message."""
    bounds = network.bounds(TopicChoice(names=frozenset({"orders"})))
    first = network.messages_at({key: 0 for key in bounds})
    last = network.messages_at({key: each.end - 1 for key, each in bounds.items()})
    assert first.keys() == last.keys() == bounds.keys()
    for key, each in bounds.items():
        assert (first[key] < last[key]) == (each.end > 1)
        assert last[key][1] > 1_700_000_000_000
    assert network.messages_at({key: each.end for key, each in bounds.items()}) == {}


def test_few_messages_are_held_at_a_time(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand queues of large messages would fill the driver's memory at each trigger."""
    held: list[int] = [0]

    async def pull(*_: object) -> RawPull:
        held.append(held[-1] + 1)
        await asyncio.sleep(0)
        held.append(held[-1] - 1)
        return RawPull(PullStatus.NO_NEW_MSG, 0, 0, 0, b"", 0, 0)

    monkeypatch.setattr(network.puller, "pull", pull)
    assert (
        network.messages_at({BrokerQueue("broker-a", "t", each): 0 for each in range(1000)}) == {}
    )
    assert 1 < max(held) <= 32


def test_silent_broker_is_asked_for_few_of_its_queues(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand queues would else wait for it one after the other; another broker's are told."""
    asked: list[str] = []
    monkeypatch.setattr(network_brokers, "RETRY_DELAY_S", 0.01)

    async def pull(queue: MessageQueue, *_: object) -> RawPull:
        asked.append(queue.broker_name)
        await asyncio.sleep(0)
        if queue.broker_name == "silent":
            raise CallTimedOut("no reply")
        return RawPull(PullStatus.NO_NEW_MSG, 0, 0, 0, b"", 0, 0)

    monkeypatch.setattr(network.puller, "pull", pull)
    queues = [(broker, number) for number in range(1000) for broker in ("silent", "well")]
    assert network.messages_at({BrokerQueue(broker, "t", at): 0 for broker, at in queues}) == {}
    assert asked.count("well") == 1000
    assert asked.count("silent") <= 32 * network_brokers.TRIES


def test_topic_made_anew_is_told_to_a_stream() -> None:
    """Deleted and made again at real brokers, and grown past what the query has read."""
    with ClusterThread() as cluster:
        namesrv = cluster.namesrv_addr

        async def send(bodies: range) -> None:
            async with Cluster(namesrv) as admin, Producer(namesrv=namesrv) as producer:
                await admin.create_topic("orders", queues=1)
                for body in bodies:
                    await producer.send(Message("orders", b"%d" % body))

        def query(checkpoint: Checkpoint, **options: str) -> None:
            usual = {"namesrv": namesrv, "subscribe": "orders", "startingOffsets": "earliest"}
            source = RocketMQSource({**usual, "columns": "topic, queue_id, body", **options})
            run(source.streamReader(source.schema()), checkpoint)

        asyncio.run(send(range(5)))
        checkpoint = Checkpoint()
        query(checkpoint)
        delete = Command(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
        (address,) = cluster.broker_addrs

        async def delete_topic() -> int:
            pool = ConnectionPool()
            try:
                return (await pool.call(address, delete, 5.0)).code
            finally:
                await pool.close()

        assert asyncio.run(delete_topic()) == ResponseCode.SUCCESS
        asyncio.run(send(range(5, 14)))
        with pytest.raises(DataLost, match=r"queue orders .*, read up to offset 5, is another"):
            query(checkpoint)
        query(checkpoint, failOnDataLoss="false")
        assert [int(row["body"]) for row in checkpoint.rows()] == list(range(14))


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (TopicChoice(names=frozenset({"order"})), "no topic 'order'; did you mean orders?"),
        (TopicChoice(names=frozenset({"written"})), "no queue of topic 'written' may be read"),
        (
            TopicChoice(queues=frozenset({BrokerQueue("broker-a", "orders", 7)})),
            "option assign: there is no queue orders broker-a:7",
        ),
    ],
)
def test_what_is_named_must_be_there(network: Network, choice: TopicChoice, text: str) -> None:
    """The refusal says what there is; a stream leaves it out until it comes."""
    with pytest.raises(OptionError, match=text.replace("?", r"\?")):
        network.bounds(choice)
    assert not network.bounds(choice, missing_fails=False)


def test_works_within_a_running_loop(cluster: ClusterThread) -> None:
    """As in a notebook."""

    async def cell() -> int:
        with Network(NetworkAddress((cluster.namesrv_addr,))) as network:
            return len(network.bounds(USERS))

    assert asyncio.run(cell()) >= 4


def test_nobody_there(unused_tcp_port: int) -> None:
    """The text names the address, and what to look at."""
    address = NetworkAddress((f"127.0.0.1:{unused_tcp_port}",))
    refusal = pytest.raises(ClusterUnreachable, match=rf"{unused_tcp_port}.*refused.*brokerIP1")
    with Network(address) as network, refusal:
        network.bounds(USERS)


def test_broker_gone() -> None:
    """A broker whose route is still known is asked again, and then named."""
    with ClusterThread() as cluster:
        namesrv = cluster.namesrv_addr
        asyncio.run(fill(namesrv))
        with Network(NetworkAddress((namesrv,))) as network:
            keys = list(network.bounds(TopicChoice(names=frozenset({"orders"}))))
            cluster.stop()
            with pytest.raises(ClusterUnreachable, match=r"queue orders .* did not tell"):
                network.latest(keys)
