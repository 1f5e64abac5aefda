"""All brokers are asked, by hashes that are not unique; one that fails costs nobody else."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.stand_ins.silent_server import SilentServer

from aerobee.client import (
    BrokerRefused,
    ClientSettings,
    FoundMessages,
    InvalidMessage,
    InvalidUse,
    PullConsumer,
    RouteMissing,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import CallTimedOut, Unavailable
from aerobee.remoting.message.message_id import offset_message_id
from aerobee.remoting.message.record import encode_record
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Outcome, Reply

QUERY = RequestCode.QUERY_MESSAGE
FIRST = datetime.fromtimestamp(1_700_000_000, UTC)  # the store time of each queue's first message


def store(
    broker: FakeBroker, topic: str, body: bytes, keys: str = "", *, unique: str = "", ms: int = -1
) -> int:
    """Store a message, so many milliseconds after FIRST; return its position."""
    unique = unique or f"0A{len(body):030X}"
    broker.store(topic, 0, body, f"KEYS\x01{keys}\x02UNIQ_KEY\x01{unique}\x02".encode())
    log = broker.log[topic, 0]
    if ms >= 0:
        log[-1] = replace(log[-1], store_timestamp=1_700_000_000_000 + ms)
    return log[-1].position


async def find(cluster: FakeCluster, topic: str = "t", **wanted: Any) -> FoundMessages:
    """Look for messages of a topic."""
    async with PullConsumer("finders", namesrv=cluster.namesrv) as consumer:
        return await consumer.find(topic, **wanted)


def bodies(found: FoundMessages) -> list[bytes]:
    """Return what was found."""
    return [message.body for message in found]


async def test_all_brokers_are_asked_and_the_oldest_comes_first(cluster: FakeCluster) -> None:
    """By one key of several; each message knows its own queue."""
    cluster.create("t", 1)
    one, two = cluster.brokers
    store(one, "t", b"0", "k1 k2")
    store(one, "t", b"1", "k2")
    store(two, "t", b"2", "k3")
    store(two, "t", b"3", "k3 k1")
    found = await find(cluster, key="k1")
    assert (bodies(found), found.complete, found.failed) == ([b"0", b"3"], True, {})
    assert [message.queue.broker_name for message in found] == ["broker-a", "broker-b"]
    assert len(found) == 2 and found[1].body == b"3"
    assert [message.queue_offset for message in found] == [0, 1]
    nothing = await find(cluster, key="k4")
    assert (list(nothing), nothing.complete) == ([], True)
    (asked,) = one.requests(QUERY)[:1]
    assert (asked.ext["indexType"], asked.ext["maxNum"]) == ("K", "64")


async def test_equal_hashes_and_other_topics_are_left_out(cluster: FakeCluster) -> None:
    """ "Aa" and "BB" have one hash; brokers do not compare keys."""
    cluster.create("t", 1)
    for keys in ("Aa", "BB", "x Aa", "AaBB"):
        store(cluster.brokers[0], "t", keys.encode(), keys)
    assert bodies(await find(cluster, key="Aa")) == [b"Aa", b"x Aa"]

    def lying(connection: Connection, command: Command) -> Outcome:
        broker.store("u", 0, b"of another topic", b"KEYS\x01Aa\x02")
        return Reply(body=encode_record(broker.log["u", 0][0]))

    broker = cluster.brokers[0]
    broker.script[QUERY].append(lying)
    assert bodies(await find(cluster, key="Aa")) == []


async def test_ids_of_either_kind(cluster: FakeCluster) -> None:
    """The client's by the index, the broker's by its place; each is compared."""
    cluster.create("t", 1)
    broker = cluster.brokers[1]
    unique = "0A0000010000123456780000000000FF"
    store(broker, "t", b"other")
    position = store(broker, "t", b"wanted", unique=unique)
    port = broker.server.port
    by_place = offset_message_id("127.0.0.1", port, position)
    for wanted in (unique, by_place, by_place.lower()):
        assert bodies(await find(cluster, message_id=wanted)) == [b"wanted"]
    assert broker.requests(QUERY)[-1].ext["indexType"] == "U"
    assert len(broker.requests(RequestCode.VIEW_MESSAGE_BY_ID)) == 2
    for wanted in (
        offset_message_id("127.0.0.1", port, position + 1),  # nothing there
        offset_message_id("127.0.0.1", 1, position),  # no broker of the topic: a client's, perhaps
        "no-hex",
    ):
        assert bodies(await find(cluster, message_id=wanted)) == []
    store(broker, "u", b"of another topic")
    cluster.create("u", 1)
    elsewhere = offset_message_id("127.0.0.1", port, broker.log["u", 0][0].position)
    assert bodies(await find(cluster, "t", message_id=elsewhere)) == []
    assert bodies(await find(cluster, "u", message_id=elsewhere)) == [b"of another topic"]


async def test_a_broker_is_called_only_where_a_nameserver_says_so(cluster: FakeCluster) -> None:
    """A client's id looks like an address: nobody may make us call one by it."""
    cluster.create("t", 1)
    called = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert bodies(await find(cluster, message_id=offset_message_id("127.0.0.1", port, 5))) == []
    assert not called.is_set()
    server.close()


async def test_a_broker_that_fails_costs_nobody_else(cluster: FakeCluster) -> None:
    """A refusal, a lost connection, nonsense: the answer names the broker, and is not complete."""
    cluster.create("t", 1)
    one, two = cluster.brokers
    store(one, "t", b"there", "k")

    def nonsense(connection: Connection, command: Command) -> Outcome:
        return Reply(body=b"nonsense" * 40)

    def cut(connection: Connection, command: Command) -> Outcome:
        connection.abort("as the test wants")
        return None

    two.refuse(QUERY, ResponseCode.SYSTEM_ERROR)
    for _ in range(4):  # once more than pages get smaller
        two.script[QUERY].append(cut)
    two.script[QUERY].append(nonsense)
    for _ in range(3):
        found = await find(cluster, key="k")
        assert (bodies(found), found.complete, set(found.failed)) == (
            [b"there"],
            False,
            {"broker-b"},
        )
    await two.stop()
    found = await find(cluster, key="k")
    assert bodies(found) == [b"there"]
    assert isinstance(found.failed["broker-b"], Unavailable)


async def test_a_silent_broker_costs_the_time_and_no_message(cluster: FakeCluster) -> None:
    """What the others have found is there when time is up."""
    cluster.create("t", 1)
    one, two = cluster.brokers
    store(one, "t", b"there", "k")
    async with SilentServer() as silent:
        two.address = silent.address
        found = await find(cluster, key="k", timeout_ms=200)
    assert bodies(found) == [b"there"]
    assert isinstance(found.failed["broker-b"], CallTimedOut)


async def test_where_all_fail_the_first_says_why(cluster: FakeCluster) -> None:
    """An empty answer would look as if there were nothing."""
    cluster.create("t", 1)
    for broker in cluster.brokers:
        broker.refuse(QUERY, ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerRefused, match="as the test wants"):
        await find(cluster, key="k")
    with pytest.raises(RouteMissing, match="nowhere"):
        await find(cluster, "nowhere", key="k")


async def test_pages_reach_back_to_the_oldest(cluster: FakeCluster) -> None:
    """More than a broker gives at a time; limits keep the newest, and say that there is more."""
    cluster.create("t", 1)
    broker = cluster.brokers[0]
    count = 300
    for at in range(count):
        store(broker, "t", b"%d" % at, "k", ms=at * 100)  # ten a second
    found = await find(cluster, key="k", messages_max=1_000)
    assert bodies(found) == [b"%d" % at for at in range(count)] and found.complete
    found = await find(cluster, key="k", messages_max=70)
    assert bodies(found) == [b"%d" % at for at in range(count - 70, count)]
    assert not found.complete
    found = await find(
        cluster,
        key="k",
        since=FIRST + timedelta(milliseconds=550),
        until=FIRST + timedelta(milliseconds=1_200),
    )
    assert bodies(found) == [b"%d" % at for at in range(6, 13)] and found.complete


@pytest.mark.parametrize("found_max", [32, 40, 63])
async def test_a_broker_may_give_less_at_a_time(cluster: FakeCluster, found_max: int) -> None:
    """A page that is not full is no reason to take it for the last one."""
    cluster.create("t", 1)
    broker = cluster.brokers[0]
    broker.found_max = found_max
    for at in range(100):
        store(broker, "t", b"%d" % at, "k", ms=at * 100)
    found = await find(cluster, key="k", messages_max=500)
    assert bodies(found) == [b"%d" % at for at in range(100)] and found.complete


async def test_more_of_one_second_than_a_page_is_told(cluster: FakeCluster) -> None:
    """An index of whole seconds tells the newest of each; what is older is found."""
    cluster.create("t", 1)
    broker = cluster.brokers[0]
    for at in range(200):
        store(broker, "t", b"%d" % at, "k", ms=1_000 if at >= 20 else 0)
    found = await find(cluster, key="k", messages_max=500)
    assert bodies(found) == [b"%d" % at for at in [*range(20), *range(136, 200)]]
    assert not found.complete


async def test_a_replica_is_asked_where_the_master_is_silent(cluster: FakeCluster) -> None:
    """It has the same messages, and an index of its own."""
    cluster.create("t", 1)
    two = cluster.brokers[1]
    store(two, "t", b"there", "k")
    position = two.log["t", 0][0].position
    route = cluster.route

    def with_replica(topic: str) -> Any:
        data = route(topic)
        if data is not None and topic == "t":
            data.broker_datas[0].broker_addrs.update({0: "127.0.0.1:1", 2: two.address})
            del data.broker_datas[1], data.queue_datas[1]
        return data

    cluster.route = with_replica  # type: ignore[method-assign]
    found = await find(cluster, key="k")
    assert (bodies(found), found.complete, found.failed) == ([b"there"], True, {})
    assert found[0].queue.broker_name == "broker-a"
    named = offset_message_id("127.0.0.1", two.server.port, position)
    assert bodies(await find(cluster, message_id=named)) == [b"there"]


async def test_a_damaged_body_is_told_apart(cluster: FakeCluster) -> None:
    """Its properties match; nobody gets what is not what was sent."""
    cluster.create("t", 1)
    broker = cluster.brokers[0]

    def damaged(connection: Connection, command: Command) -> Outcome:
        data = bytearray(encode_record(broker.log["t", 0][0]))
        data[data.index(b"there")] ^= 1
        return Reply(body=bytes(data))

    store(broker, "t", b"there", "k")
    broker.script[QUERY].append(damaged)
    found = await find(cluster, key="k")
    assert bodies(found) == []
    assert "checksum" in found.unreadable[0].damage.reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("wanted", "error", "why"),
    [
        ({}, InvalidUse, "one of key and message_id"),
        ({"key": "k", "message_id": "m"}, InvalidUse, "one of key and message_id"),
        ({"key": ""}, InvalidUse, "not empty"),
        ({"key": "two words"}, InvalidUse, "no spaces"),
        ({"key": "k", "messages_max": 0}, InvalidUse, "messages_max=0"),
        ({"key": "k", "since": datetime(2024, 1, 1)}, InvalidUse, "since=.*no time zone"),
        (
            {"key": "k", "until": 1_700_000_000},
            InvalidUse,
            "until=1700000000: it must be a datetime",
        ),
        ({"key": "k", "since": FIRST, "until": FIRST - timedelta(1)}, InvalidUse, "is after until"),
        ({"key": "k", "topic": "bad topic"}, InvalidMessage, "bad topic"),
    ],
)
async def test_nonsense_is_refused_by_name(
    cluster: FakeCluster, wanted: dict[str, Any], error: type[Exception], why: str
) -> None:
    """Before anybody is asked."""
    with pytest.raises(error, match=why):
        await find(cluster, **wanted)


async def test_a_client_that_is_closed_finds_nothing(cluster: FakeCluster) -> None:
    """As with every other call; the time of a search is a setting."""
    cluster.create("t", 1)
    client = ClientSettings(find_timeout_ms=50)
    async with SilentServer() as silent:
        for broker in cluster.brokers:
            broker.address = silent.address
        consumer = PullConsumer(
            "finders", namesrv=f"127.0.0.1:{cluster.brokers[0].server.port}", client=client
        )
        async with consumer:
            with pytest.raises(CallTimedOut):
                await consumer.find("t", key="k")
    with pytest.raises(InvalidUse, match=r"not started|is closed"):
        await consumer.find("t", key="k")
