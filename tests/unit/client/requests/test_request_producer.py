"""Requests and replies, against real brokers: answers, failures told apart, restarts between."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    InvalidMessage,
    InvalidUse,
    Message,
    NoReply,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    ReplierRefused,
    ReplyConnectionLost,
    ReplyNotTaken,
    RequestProducer,
    RouteMissing,
    SendFailed,
    Unavailable,
    reply_to,
)
from aerobee.testing import EmbeddedCluster

CLIENT = ClientSettings(rebalance_gap_ms=20, instance_name="asking")
OTHER = ClientSettings(rebalance_gap_ms=20, instance_name="answering")
Handler = Callable[[RequestProducer, ReceivedMessage], Awaitable[None]]


async def echo(producer: RequestProducer, request: ReceivedMessage) -> None:
    """Answer with the request's body."""
    await producer.reply(request, b"re:" + request.body)


@asynccontextmanager
async def both_sides(
    cluster: EmbeddedCluster, handle: Handler = echo, settings: ProducerSettings | None = None
) -> AsyncIterator[RequestProducer]:
    """A requester, and a replier of topic "t" that handles 32 at a time."""
    await cluster.create_topic("t", 4)
    addresses = cluster.namesrv_addr
    answering = RequestProducer("answerers", namesrv=addresses, client=OTHER)
    consumer = PushConsumer(
        "repliers", namesrv=addresses, client=OTHER, consume_from=ConsumeFrom.FIRST,
        settings=PushSettings(concurrency=32),
    )  # fmt: skip
    consumer.subscribe("t", lambda message: handle(answering, message))
    asking = RequestProducer("askers", namesrv=addresses, client=CLIENT, settings=settings)
    async with answering, consumer, asking:
        yield asking


async def test_a_request_is_answered(tmp_path: Path) -> None:
    """With what the replier gave, by whichever broker; bodies unpacked; many at a time."""
    large = bytes(range(256)) * 100

    async def handle(producer: RequestProducer, request: ReceivedMessage) -> None:
        assert request.properties["TTL"] == "8000" and request.properties["mine"] == "x"
        body = large if request.body == b"large" else b"re:" + request.body
        await producer.reply(request, body, tags="a", keys="k", properties={"n": "1"})

    async with (
        EmbeddedCluster(root=tmp_path, brokers=2) as cluster,
        both_sides(cluster, handle) as asking,
    ):
        ask = Message("t", b"one", properties={"mine": "x"})
        answer = await asking.request(ask, timeout_ms=8_000)
        assert (answer.body, answer.tags, answer.keys) == (b"re:one", "a", ["k"])
        assert answer.topic == "DefaultCluster_REPLY_TOPIC" and answer.queue_offset == -1
        assert answer.properties["n"] == "1" and ask.properties == {"mine": "x"}
        assert answer.properties["ARRIVE_TIME"] and answer.properties["PUSH_REPLY_TIME"]
        assert f"127.0.0.1:{answer.store_host[1]}" in cluster.broker_addrs
        asks = [Message("t", b"%d" % at, properties={"mine": "x"}) for at in range(200)]
        asks.append(Message("t", b"large", properties={"mine": "x"}))
        answers = await asyncio.gather(*(asking.request(each, timeout_ms=8_000) for each in asks))
        assert [each.body for each in answers] == [b"re:%d" % at for at in range(200)] + [large]
        ports = {each.store_host[1] for each in answers}
        assert len(ports) == 2, "replies come by both brokers"


async def test_failures_are_told_apart(tmp_path: Path) -> None:
    """Not sent, no reply, refused, closed meanwhile; what comes late or twice is dropped."""
    late: list[ReceivedMessage] = []

    async def handle(producer: RequestProducer, request: ReceivedMessage) -> None:
        if request.body == b"refuse":
            await producer.reply(request, b"-", refusal="no such fruit")
        elif request.body == b"twice":
            await producer.reply(request, b"first")
            await producer.reply(request, b"second")
        else:
            late.append(request)

    async with (
        EmbeddedCluster(
            root=tmp_path, broker_settings={"auto_create_topic_enable": False}
        ) as cluster,
        both_sides(cluster, handle) as asking,
    ):
        with pytest.raises(RouteMissing):
            await asking.request(Message("unknown", b"x"))
        with pytest.raises(InvalidMessage):
            await asking.request(Message("t", b""))
        with pytest.raises(InvalidMessage, match="CORRELATION_ID"):
            await asking.request(Message("t", b"x", properties={"CORRELATION_ID": "1"}))
        with pytest.raises(ReplierRefused, match="no such fruit") as refused:
            await asking.request(Message("t", b"refuse"), timeout_ms=8_000)
        assert refused.value.reply.body == b"-"
        assert (await asking.request(Message("t", b"twice"), timeout_ms=8_000)).body == b"first"
        replies = asking._started().replies
        await until(lambda: replies.unwanted == 1, what="the second one")
        with pytest.raises(NoReply, match=r"send request message to <t> OK, but wait") as none:
            await asking.request(Message("t", b"late"), timeout_ms=300)
        assert type(none.value) is NoReply and none.value.result.queue.topic == "t"
        await until(lambda: len(late) == 1, what="the request to be handled")
        async with RequestProducer("q", namesrv=cluster.namesrv_addr, client=OTHER) as other:
            await other.reply(late[0], b"too late")
        assert replies.unwanted == 2 and len(replies) == 0
        waiting = asyncio.create_task(asking.request(Message("t", b"x"), timeout_ms=8_000))
        await until(lambda: len(late) == 2, what="the request to be handled")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(replies) == 0
        waiting = asyncio.create_task(asking.request(Message("t", b"x"), timeout_ms=8_000))
        await until(lambda: len(late) == 3, what="the request to be handled")
        await asking.close()
        with pytest.raises(Unavailable, match="was closed before the reply came"):
            await waiting
        with pytest.raises(InvalidUse):
            await asking.request(Message("t", b"x"))


async def test_the_first_of_two_repliers_is_heard(tmp_path: Path) -> None:
    """Two groups answer each request; the second one is slow, and hears of nothing wrong."""
    answered: list[bytes] = []

    async def handle(producer: RequestProducer, request: ReceivedMessage) -> None:
        await producer.reply(request, b"quick")

    async with EmbeddedCluster(root=tmp_path) as cluster, both_sides(cluster, handle) as asking:
        addresses = cluster.namesrv_addr
        slow = RequestProducer("slow", namesrv=addresses, client=OTHER)
        second = PushConsumer(
            "second", namesrv=addresses, client=OTHER, consume_from=ConsumeFrom.FIRST
        )
        heard = asyncio.Event()

        async def answer(request: ReceivedMessage) -> None:
            await heard.wait()
            await slow.reply(request, b"slow")
            answered.append(request.body)

        second.subscribe("t", answer)
        async with slow, second:
            for number in range(3):
                reply = await asking.request(Message("t", b"%d" % number), timeout_ms=8_000)
                assert reply.body == b"quick"
            heard.set()
            await until(lambda: len(answered) == 3, 20, what="the slow ones")
        assert asking._started().replies.unwanted == 3


async def test_a_reply_that_nobody_takes_is_told(tmp_path: Path) -> None:
    """The requester is gone: its replier hears so; a message that is no request has no reply."""
    got: list[ReceivedMessage] = []

    async def handle(_: RequestProducer, request: ReceivedMessage) -> None:
        got.append(request)

    async with EmbeddedCluster(root=tmp_path) as cluster, both_sides(cluster, handle) as asking:
        await asking.send(Message("t", b"plain"))
        waiting = asyncio.create_task(asking.request(Message("t", b"x"), timeout_ms=60_000))
        await until(lambda: len(got) == 2, what="both messages")
        plain, request = sorted(got, key=lambda each: each.body)
        await asking.close()
        with pytest.raises(Unavailable):
            await waiting
        async with RequestProducer("r", namesrv=cluster.namesrv_addr, client=OTHER) as replier:
            with pytest.raises(InvalidMessage, match="nobody waits"):
                await replier.reply(plain, b"y")
            with pytest.raises(ReplyNotTaken, match=r"channel of <.*> not found"):
                await replier.reply(request, b"y")
            chosen = reply_to(request, b"y")
            with pytest.raises(SendFailed):
                await replier.send(chosen)
        plain.properties.pop("CLUSTER")
        with pytest.raises(InvalidMessage, match=r"property\[CLUSTER\] is null"):
            reply_to(plain, b"y")


async def test_a_broker_that_restarts_in_between_loses_no_request(tmp_path: Path) -> None:
    """The request is stored, its connection ends; the reply comes on the next one."""
    held = asyncio.Event()
    handled: list[bytes] = []

    async def handle(producer: RequestProducer, request: ReceivedMessage) -> None:
        handled.append(request.body)
        await held.wait()
        await producer.reply(request, b"after all", timeout_ms=5_000)

    async with EmbeddedCluster(root=tmp_path) as cluster, both_sides(cluster, handle) as asking:
        waiting = [
            asyncio.create_task(asking.request(Message("t", b"%d" % at), timeout_ms=15_000))
            for at in range(5)
        ]
        await until(lambda: len(handled) == 5, what="the requests to be handled")
        await cluster.restart_broker()
        paths = asking._paths
        assert paths is not None
        await until(lambda: paths.losses and not paths._missing(), what="to be known again")
        held.set()
        assert {each.body for each in await asyncio.gather(*waiting)} == {b"after all"}


async def test_a_lost_connection_is_told_apart_from_silence(tmp_path: Path) -> None:
    """The reply may have been pushed to the connection that ended."""
    handled: list[ReceivedMessage] = []

    async def handle(_: RequestProducer, request: ReceivedMessage) -> None:
        handled.append(request)

    async with EmbeddedCluster(root=tmp_path) as cluster, both_sides(cluster, handle) as asking:
        waiting = asyncio.create_task(asking.request(Message("t", b"x"), timeout_ms=1_500))
        await until(lambda: handled, what="the request to be handled")
        asking._started().connections.drop(cluster.broker_addrs[0], "the test")
        with pytest.raises(ReplyConnectionLost):
            await waiting


async def test_a_dead_broker_of_the_route_holds_up_one_request_at_most(tmp_path: Path) -> None:
    """It was registered and died: requests go by the other one, and so do replies."""
    async with EmbeddedCluster(root=tmp_path, brokers=2) as cluster:
        settings = ProducerSettings(retries_max=4)
        async with both_sides(cluster, settings=settings) as asking:
            assert (await asking.request(Message("t", b"1"), timeout_ms=8_000)).body == b"re:1"
            await cluster.brokers.pop(0).stop()
            for at in range(6):
                began_s = monotonic()
                answer = await asking.request(Message("t", b"%d" % at), timeout_ms=8_000)
                assert answer.body == b"re:%d" % at and monotonic() - began_s < 7


async def test_thousands_of_requests_wait_at_a_time(tmp_path: Path) -> None:
    """Each has its own reply, whatever the order; nothing of them is left."""
    count = 4_000
    held = asyncio.Event()
    got = itertools.count(1)

    async def handle(producer: RequestProducer, messages: list[ReceivedMessage]) -> None:
        if next(got) * 0 + len(messages) and not held.is_set():
            await held.wait()
        for message in reversed(messages):
            await producer.reply(message, message.body, timeout_ms=20_000)

    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 4)
        addresses = cluster.namesrv_addr
        answering = RequestProducer("answerers", namesrv=addresses, client=OTHER)
        consumer = PushConsumer(
            "repliers", namesrv=addresses, client=OTHER, consume_from=ConsumeFrom.FIRST,
            settings=PushSettings(concurrency=64),
        )  # fmt: skip

        async def batch(messages: list[ReceivedMessage]) -> None:
            await handle(answering, messages)

        consumer.subscribe("t", batch, batch=32)
        asking = RequestProducer("askers", namesrv=addresses, client=CLIENT)
        async with answering, consumer, asking:
            requests: list[asyncio.Task[Any]] = [
                asyncio.create_task(asking.request(Message("t", b"%d" % at), timeout_ms=60_000))
                for at in range(count)
            ]
            replies = asking._started().replies
            await until(lambda: len(replies) == count, 20, what="all of them to wait")
            held.set()
            answers = await asyncio.gather(*requests)
            assert [int(each.body) for each in answers] == list(range(count))
            assert len(replies) == replies.unwanted == 0
