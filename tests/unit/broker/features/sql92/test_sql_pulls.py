"""SQL92 filters through a real socket: heartbeats, pulls, holding, refusals."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.sql92 import scan
from aerobee.remoting.bodies import (
    CheckClientConfig,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    encode_body,
)
from aerobee.remoting.codes import PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import iter_records

SCAN_NS_MAX = scan.SCAN_NS_MAX
ORDERS = [("red", 1), ("blue", 7), ("red", 12), ("green", 30), ("red", 99)]


@pytest.fixture
async def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """A broker that filters by properties and has five messages in queue 0 of topic T."""
    monkeypatch.setattr(scan, "SCAN_NS_MAX", 10**12)  # else a busy machine answers in parts
    async with (
        running_broker(tmp_path, enablePropertyFilter="true") as running,
        await RawPeer.connect(running.port) as producer,
    ):
        for color, price in ORDERS:
            await send(producer, color, price)
        yield running


@pytest.fixture
async def consumer(broker: Broker) -> AsyncIterator[RawPeer]:
    """A client that pulls."""
    async with await RawPeer.connect(broker.port) as connected:
        yield connected


async def send(peer: RawPeer, color: str, price: int) -> None:
    """Send one message with two properties, which its body repeats."""
    properties = f"UNIQ_KEY\x01AAAA\x02color\x01{color}\x02price\x01{price}\x02"
    reply = await peer.request(send_command(f"{color} {price}".encode(), properties=properties))
    assert reply.code == ResponseCode.SUCCESS


async def ask(peer: RawPeer, request: Command) -> Command:
    """Return the answer to a request; what the broker tells its members comes in between."""
    await peer.send(encode_frame(request))
    while (reply := await peer.read()).opaque != request.opaque or not reply.is_response:
        assert reply.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    return reply


def sql_pull(expression: str, offset: int = 0, suspend_ms: int = 0) -> Command:
    """Build a pull that brings an expression."""
    return pull_command(
        offset, expression=expression, suspend_ms=suspend_ms, expressionType="SQL92"
    )


def group_pull(offset: int = 0, version: int = 1) -> Command:
    """Build a pull that relies on what its group said in a heartbeat."""
    flags = PullSysFlag.COMMIT_OFFSET
    return pull_command(offset, sysFlag=int(flags), subVersion=version, subscription="")


async def subscribe(peer: RawPeer, expression: str, version: int = 1, kind: str = "SQL92") -> None:
    """Send a heartbeat of group G."""
    subscription = SubscriptionData(
        topic="T", sub_string=expression, expression_type=kind, sub_version=version
    )
    consumer = ConsumerData(group_name="G", subscription_data_set=[subscription])
    beat = HeartbeatData(client_id="c1", consumer_data_set=[consumer])
    reply = await ask(
        peer, Command(code=RequestCode.HEART_BEAT, body=encode_body(beat), opaque=next_opaque())
    )
    assert reply.code == ResponseCode.SUCCESS


def bodies(reply: Command) -> list[bytes]:
    """Return the bodies of the records that a pull brought."""
    return [bytes(record.body) for record in iter_records(bytes(reply.body))]


async def test_a_group_that_subscribed_by_sql_gets_what_matches(consumer: RawPeer) -> None:
    """The heartbeat brings the expression, pulls rely on it; what is skipped moves the offset."""
    await subscribe(consumer, "color = 'red' AND price BETWEEN 10 AND 50")
    reply = await ask(consumer, group_pull())
    assert (reply.code, bodies(reply)) == (ResponseCode.SUCCESS, [b"red 12"])
    assert reply.ext["nextBeginOffset"] == "5"
    await subscribe(consumer, "price > 20", version=2)
    reply = await ask(consumer, group_pull(version=2))
    assert bodies(reply) == [b"green 30", b"red 99"]


async def test_a_pull_may_bring_its_expression(consumer: RawPeer) -> None:
    """As a pull consumer does, and a lite one; no heartbeat is needed."""
    reply = await ask(consumer, sql_pull("color IN ('blue', 'green')"))
    assert bodies(reply) == [b"blue 7", b"green 30"]
    reply = await ask(consumer, sql_pull("price > 7 OR nothing IS NOT NULL", 3))
    assert bodies(reply) == [b"green 30", b"red 99"]


async def test_where_nothing_matches_the_client_goes_on_behind_it(consumer: RawPeer) -> None:
    """Code 20 with the next offset."""
    reply = await ask(consumer, sql_pull("price > 1000"))
    assert (reply.code, reply.remark) == (
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        "NO_MATCHED_MESSAGE",
    )
    assert (reply.ext["nextBeginOffset"], reply.ext["maxOffset"]) == ("5", "5")


async def test_a_message_that_cannot_be_judged_is_not_wanted(
    broker: Broker, consumer: RawPeer
) -> None:
    """Text that is no number fails the evaluation, whatever else the expression says."""
    async with await RawPeer.connect(broker.port) as producer:
        await send(producer, "x", 5)
    reply = await ask(consumer, sql_pull("color > 5 OR price = 5"))
    assert (reply.code, reply.ext["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "6")


async def test_a_held_pull_wakes_for_a_message_that_matches(
    broker: Broker, consumer: RawPeer
) -> None:
    """Others are passed over while it waits, and the offset in its reply is behind them."""
    await consumer.send(encode_frame(sql_pull("price > 50 AND color = 'red'", 5, 30_000)))
    await until(lambda: broker.context.pulls.holds.count == 1, what="the pull is held")
    async with await RawPeer.connect(broker.port) as producer:
        await send(producer, "red", 10)
        await send(producer, "blue", 100)
        assert broker.context.pulls.holds.count == 1
        await send(producer, "red", 60)
    reply = await consumer.read()
    assert (bodies(reply), reply.ext["nextBeginOffset"]) == ([b"red 60"], "8")


async def test_a_held_pull_that_meets_nothing_ends_with_its_time(
    broker: Broker, consumer: RawPeer
) -> None:
    """The offset is past what was looked at, so nothing is looked at twice."""
    await consumer.send(encode_frame(sql_pull("price > 1000", 5, 300)))
    await until(lambda: broker.context.pulls.holds.count == 1, what="the pull is held")
    async with await RawPeer.connect(broker.port) as producer:
        await send(producer, "red", 10)
    reply = await consumer.read()
    assert reply.ext["nextBeginOffset"] == "6"


async def test_a_bad_expression_is_refused_where_it_comes(consumer: RawPeer) -> None:
    """Code 23 with what is wrong, by the check before the start and by a pull that brings it."""
    checked = CheckClientConfig(
        client_id="c1",
        group="G",
        subscription_data=SubscriptionData(
            topic="T", sub_string="price > 'x'", expression_type="SQL92"
        ),
    )
    check = Command(code=RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(checked))
    for request in (check, sql_pull("price > 'x'")):
        reply = await ask(consumer, request)
        assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert "Value ''x'' cannot be compared." in (reply.remark or "")
    reply = await ask(consumer, sql_pull(""))
    assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_bad_expression_in_a_heartbeat_is_told_to_pulls(consumer: RawPeer) -> None:
    """The heartbeat itself is never refused: code 27 comes with each pull, until it is mended."""
    await subscribe(consumer, "price >")
    reply = await ask(consumer, group_pull())
    assert reply.code == ResponseCode.FILTER_DATA_NOT_EXIST
    reply = await ask(consumer, group_pull(version=2))
    assert reply.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    await subscribe(consumer, "price > 50", version=2)
    reply = await ask(consumer, group_pull(version=2))
    assert bodies(reply) == [b"red 99"]
    await subscribe(consumer, "a > 1", version=3, kind="SQL99")
    reply = await ask(consumer, group_pull(version=3))
    assert reply.code == ResponseCode.FILTER_DATA_NOT_EXIST


async def test_tags_and_expressions_may_follow_each_other(consumer: RawPeer) -> None:
    """A group that changes its mind is filtered by its latest wish."""
    await subscribe(consumer, "price > 50")
    await subscribe(consumer, "*", version=2, kind="TAG")
    assert len(bodies(await ask(consumer, group_pull(version=2)))) == 5
    await subscribe(consumer, "price > 50", version=3)
    assert bodies(await ask(consumer, group_pull(version=3))) == [b"red 99"]


async def test_without_property_filters_sql_is_refused(tmp_path: Path) -> None:
    """RocketMQ's default; who brings it, and whether it could be compiled, makes no difference."""
    async with (
        running_broker(tmp_path) as broker,
        await RawPeer.connect(broker.port) as consumer,
    ):
        await ask(consumer, send_command(b"x"))
        for expression in ("price > 1", "price >"):
            reply = await ask(consumer, sql_pull(expression))
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert (reply.remark or "").endswith(
                "does not support consumer to filter message by SQL92"
            )
        for version, expression in enumerate(("price > 1", "price >"), 1):
            await subscribe(consumer, expression, version=version)
            reply = await ask(consumer, group_pull(version=version))
            assert reply.code == ResponseCode.SYSTEM_ERROR


async def test_other_clients_are_served_while_one_filters_much(
    broker: Broker, consumer: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk over messages ends after some milliseconds; the client is told where to go on."""
    monkeypatch.setattr(scan, "SCAN_NS_MAX", SCAN_NS_MAX)
    async with await RawPeer.connect(broker.port) as producer:
        frames = [
            encode_frame(send_command(properties="UNIQ_KEY\x01A\x02" + "x\x01y\x02" * 3000))
            for _ in range(60)
        ]
        await producer.send(b"".join(frames))
        for _ in frames:
            await producer.read()
    hostile = " OR ".join(f"p{number} = 'x'" for number in range(900))
    offset, turns = 0, 0
    while offset < 65:
        reply = await asyncio.wait_for(ask(consumer, sql_pull(hostile, offset)), 5)
        assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert int(reply.ext["nextBeginOffset"]) > offset
        offset, turns = int(reply.ext["nextBeginOffset"]), turns + 1
    assert turns > 2
