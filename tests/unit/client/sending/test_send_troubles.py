"""`send_soon` in bad weather: an outcome for each message, in order, whatever happens."""

import asyncio
import contextlib
import logging
from typing import Any, Final

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.lane_worlds import QUEUE, bodies, done, everything, is_stored, numbered
from support.waiting import until

from aerobee.client import (
    BrokerRefused,
    Message,
    Producer,
    RouteMissing,
    SendFailed,
    Unavailable,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.message.properties import find_property

SEND: Final = RequestCode.SEND_MESSAGE_V2


pytestmark = pytest.mark.usefixtures("lane_code", "topic")


async def test_a_refusal_is_tried_at_another_broker(cluster: FakeCluster) -> None:
    """Behind the same handle, under the same id; the broker that did it had it once."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"warm"))
        cluster.brokers[0].refuse(SEND, ResponseCode.SYSTEM_BUSY, 3)
        sent = [producer.send_soon(Message("t", body)) for body in numbered(40)]
        assert not any(isinstance(each, Exception) for each in await done(*sent))
        refused = [each for each in cluster.brokers[0].requests(SEND)]
    assert everything(cluster) == sorted([*numbered(40), b"warm"])
    stored = {handle.result().message_id for handle in sent}
    ids = [find_property(each.ext["i"].encode(), "UNIQ_KEY") for each in refused]
    assert len(refused) > 3
    assert stored.issuperset(each for each in ids[1:] if each)


@pytest.mark.parametrize("refusal", [ResponseCode.FLOW_CONTROL, ResponseCode.MESSAGE_ILLEGAL])
async def test_a_final_refusal_is_the_handles_error(cluster: FakeCluster, refusal: int) -> None:
    """Also of a code that other sends are tried again for, where the queue was chosen."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        cluster.brokers[0].refuse(SEND, refusal)
        lost = producer.send_soon(Message("t", b"lost"), queue=QUEUE)
        kept = producer.send_soon(Message("t", b"kept"), queue=QUEUE)
        with pytest.raises(BrokerRefused) as raised:
            await lost
        assert raised.value.code == refusal
        assert lost.error is lost.exception() is raised.value
        await kept
        cluster.brokers[0].refuse(SEND, ResponseCode.SYSTEM_BUSY)
        (busy,) = await done(producer.send_soon(Message("t", b"busy"), queue=QUEUE))
        assert isinstance(busy, BrokerRefused)
    assert bodies(cluster.brokers[0]) == [b"warm", b"kept"]


async def test_failures_nobody_waits_for_are_told(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The first at once, the others together, at the end at the latest."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        cluster.brokers[0].refuse(SEND, ResponseCode.MESSAGE_ILLEGAL, 20)
        with caplog.at_level(logging.WARNING):
            for _ in range(20):
                producer.send_soon(Message("t", b"x"), queue=QUEUE)
            await producer.flush()
    told = [each.args for each in caplog.records if "unawaited" in each.message]
    assert [args[0] for args in told if isinstance(args, tuple)] == [1, 19]


async def test_a_failure_is_told_when_who_waited_has_given_up(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody else would hear of it; a `send` that was cancelled is its caller's own doing."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        cluster.brokers[0].script[SEND].extend([lambda *_: None] * 2)
        handle = producer.send_soon(Message("t", b"x"), queue=QUEUE, timeout_ms=60)
        for waiting in (handle, producer.send(Message("t", b"x"), queue=QUEUE, timeout_ms=60)):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting, 0.01)
        await until(lambda: handle.done)
    told = [each.args for each in caplog.records if "unawaited" in each.message]
    assert [args[0] for args in told if isinstance(args, tuple)] == [1]


async def test_a_lost_connection_loses_nothing(cluster: FakeCluster) -> None:
    """What was written goes another way, what waits for its turn as well: all are there."""
    broker = cluster.brokers[0]
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(*(producer.send_soon(Message("t", b"warm")) for _ in range(4)))
        broker.script[SEND].extend(
            [lambda *_: None] * 10 + [lambda connection, _: connection.abort("")]
        )
        sent = [producer.send_soon(Message("t", body)) for body in numbered(5_000)]
        assert not any(isinstance(each, Exception) for each in await done(*sent))
    assert set(everything(cluster)) == {*numbered(5_000), b"warm"}


async def test_order_is_kept_over_a_lost_connection(cluster: FakeCluster) -> None:
    """Of a chosen queue what was unanswered fails, what waited for its turn follows, in order."""
    broker = cluster.brokers[0]
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        broker.script[SEND].extend(
            [lambda *_: None] * 9 + [lambda connection, _: connection.abort("")]
        )
        sent = [producer.send_soon(Message("t", body), queue=QUEUE) for body in numbered(3_000)]
        outcomes = await done(*sent)
    failed = [
        body for body, each in zip(numbered(3_000), outcomes, strict=True) if not is_stored(each)
    ]
    assert 10 <= len(failed) <= 1_024
    assert all(isinstance(each, Unavailable) or is_stored(each) for each in outcomes)
    stored = bodies(broker)
    assert stored == [b"warm", *sorted(stored[1:])]
    assert set(numbered(3_000)) - set(stored) <= set(failed)


@pytest.mark.parametrize("way", ["abort", "close"])
async def test_order_is_kept_over_a_connection_that_this_side_ends(
    cluster: FakeCluster, way: str
) -> None:
    """What waited for its turn goes before what is sent while the connection is on its way out."""
    broker = cluster.brokers[0]
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        broker.script[SEND].extend([lambda *_: None] * 1_024)
        sent = [producer.send_soon(Message("t", body), queue=QUEUE) for body in numbered(1_500)]
        await until(lambda: not broker.script[SEND])
        connection = producer._open(QUEUE)
        assert connection is not None
        getattr(connection, way)("as the test wants")
        sent += [producer.send_soon(Message("t", b"later"), queue=QUEUE) for _ in range(3)]
        await done(*sent)
    assert bodies(broker) == [b"warm", *numbered(1_500)[1_024:], *[b"later"] * 3]
    ids = [find_property(each.properties, "UNIQ_KEY") for each in broker.log["t", 0][1:]]
    assert ids == [handle.result().message_id for handle in sent[1_024:]]
    assert len(set(ids)) == len(ids)


async def test_each_time_that_is_up_is_noticed(cluster: FakeCluster) -> None:
    """Also when nothing else happens on the connection."""
    cluster.brokers[0].script[SEND].extend([lambda *_: None] * 4)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.fetch_queues("t")
        sent = [
            producer.send_soon(Message("t", b"x"), queue=QUEUE, timeout_ms=timeout_ms)
            for timeout_ms in (150, 50, 250, 200)
        ]
        outcomes = await asyncio.wait_for(done(*sent), 10)
    assert all(isinstance(each, Unavailable) for each in outcomes)


async def test_a_silent_broker_costs_no_more_than_the_time(cluster: FakeCluster) -> None:
    """A late answer hits nobody; the next message has its own."""
    broker = cluster.brokers[0]
    late: list[Any] = []
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        broker.script[SEND].append(lambda connection, command: late.append((connection, command)))
        slow = producer.send_soon(Message("t", b"slow"), queue=QUEUE, timeout_ms=50)
        with pytest.raises(Unavailable, match="no reply to code 310"):
            await slow
        broker.script[SEND].append(lambda connection, command: late.append((connection, command)))
        again = producer.send_soon(Message("t", b"again"), queue=QUEUE)
        await until(lambda: len(late) == 2)
        (connection, first), (_, second) = late
        fields = {"msgId": "7F0000010000AD3F" + "0" * 16, "queueId": "0"}
        connection.send(first.reply(0, fields | {"queueOffset": "77"}))
        connection.send(second.reply(0, fields | {"queueOffset": "78"}))
        assert (await again).queue_offset == 78


async def test_all_that_wait_for_a_silent_broker_fail_in_time(cluster: FakeCluster) -> None:
    """Those that were written, and those whose turn never came; with retries as `send` has them."""
    for broker in cluster.brokers:
        broker.script[SEND].extend([lambda *_: None] * 5_000)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.fetch_queues("t")
        begun = asyncio.get_running_loop().time()
        sent = [producer.send_soon(Message("t", b"x"), timeout_ms=200) for _ in range(2_500)]
        kept = [
            producer.send_soon(Message("t", b"x"), timeout_ms=200, queue=QUEUE) for _ in range(9)
        ]
        outcomes = await done(*sent, *kept)
        assert asyncio.get_running_loop().time() - begun < 10
    assert all(isinstance(each, SendFailed | Unavailable) for each in outcomes)
    assert any(isinstance(each, SendFailed) for each in outcomes)


async def test_without_a_route_all_fail_alike(cluster: FakeCluster) -> None:
    """One look-up for all that wait."""
    for broker in cluster.brokers:
        del broker.topics["TBW102"]
    async with Producer(namesrv=cluster.namesrv) as producer:
        sent = [producer.send_soon(Message("new", b"x")) for _ in range(50)]
        outcomes = await done(*sent)
    assert all(isinstance(each, RouteMissing) for each in outcomes)
    asked = sum(
        len(broker.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) for broker in cluster.brokers
    )
    assert asked < 20


async def test_an_awaited_send_goes_on_where_the_plain_way_ends(cluster: FakeCluster) -> None:
    """Refused, or the connection lost: another broker has it, and a cancelled one stops."""
    broker = cluster.brokers[0]
    async with Producer(namesrv=cluster.namesrv) as producer:
        await asyncio.gather(*(producer.send(Message("t", b"warm")) for _ in range(8)))
        broker.refuse(SEND, ResponseCode.SYSTEM_BUSY, 2)
        results = await asyncio.gather(*(producer.send(Message("t", b"x")) for _ in range(8)))
        asked = [each for one in cluster.brokers for each in one.requests(SEND)]
        asked = [each for each in asked if each.body == b"x"]
        ids = {find_property(each.ext["i"].encode(), "UNIQ_KEY") for each in asked}
        assert len(asked) == 10
        assert ids == {result.message_id for result in results}
        assert len(ids) == 8
        broker.script[SEND].append(lambda connection, _: connection.abort("as the test wants"))
        await asyncio.gather(*(producer.send(Message("t", b"y")) for _ in range(8)))
        await producer.send(Message("t", b"y"), queue=QUEUE)
        broker.script[SEND].append(lambda *_: None)
        task = asyncio.ensure_future(producer.send(Message("t", b"z"), queue=QUEUE))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await producer.send(Message("t", b"z"), queue=QUEUE)).queue == QUEUE
    assert everything(cluster).count(b"x") == 8
    assert set(everything(cluster)) >= {b"y", b"z"}


async def test_a_producer_that_is_cancelled_while_it_closes_owes_nothing(
    cluster: FakeCluster,
) -> None:
    """Each handle has an outcome all the same."""
    cluster.brokers[0].script[SEND].extend([lambda *_: None] * 50)
    producer = Producer(namesrv=cluster.namesrv)
    await producer.start()
    await producer.fetch_queues("t")
    sent = [producer.send_soon(Message("t", b"x"), queue=QUEUE) for _ in range(50)]
    await asyncio.sleep(0.05)
    closing = asyncio.ensure_future(producer.close())
    await asyncio.sleep(0.05)
    closing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await closing
    assert all(isinstance(each, Unavailable) for each in await done(*sent))
