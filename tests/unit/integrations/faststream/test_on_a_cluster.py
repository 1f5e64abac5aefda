"""Brokers of FastStream on a cluster: what is done is done, and what is not comes again."""

import asyncio
import os
import signal
import sys
from typing import Any

import pytest
from faststream import FastStream
from faststream.exceptions import SetupError, StopConsume
from support.runs.readme_blocks import python_block
from support.waiting import until

from aerobee.client import ConsumeFrom, LitePullConsumer, NoReply, PushSettings, Unavailable
from aerobee.integrations.faststream import (
    AerobeeBroker,
    AerobeeResponse,
    TestAerobeeBroker,
    annotations,
)
from aerobee.testing import EmbeddedCluster

FIRST = ConsumeFrom.FIRST
PROGRAM = """
import asyncio, sys
from faststream import FastStream
from aerobee.client import ConsumeFrom
from aerobee.integrations.faststream import AerobeeBroker

broker = AerobeeBroker(sys.argv[1], group="g")

@broker.subscriber("t", consume_from=ConsumeFrom.FIRST)
async def handle(number: int) -> None:
    print(number, flush=True)
    await asyncio.Event().wait()

asyncio.run(FastStream(broker).run())
"""


async def test_an_application_lives_and_publishes(cluster: EmbeddedCluster) -> None:
    """Its hooks run around it; two topics of one group share a consumer."""
    broker = AerobeeBroker(cluster.namesrv_addr, group="g")
    told: list[str] = []
    app = FastStream(broker, after_shutdown=[lambda: told.append("shutdown")])

    @app.after_startup
    async def begin() -> None:
        told.append("startup")
        await broker.publish(1, "t", tags="a")

    @broker.publisher("u", tags="b", key="one")
    @broker.subscriber("t", tags="a", consume_from=FIRST)
    async def first(number: int) -> int:
        return number + 1

    @broker.subscriber("u", consume_from=FIRST)
    async def second(number: int, message: annotations.AerobeeMessage) -> None:
        told.append(f"{number} {message.raw_message.tags}")
        app.exit()

    await asyncio.wait_for(app.run(), 20)
    assert told == ["startup", "2 b", "shutdown"]


async def test_requests_are_answered(cluster: EmbeddedCluster) -> None:
    """With headers; None is an answer, too; where nobody answers the asker hears of that."""
    broker = AerobeeBroker(cluster.namesrv_addr, group="g")

    @broker.subscriber("t", consume_from=FIRST)
    async def answer(word: str) -> AerobeeResponse:
        if word == "none":
            return AerobeeResponse(None)
        if word == "fail":
            raise ValueError(word)
        return AerobeeResponse({"word": word}, headers={"h": "1"})

    @broker.subscriber("u", consume_from=FIRST, no_reply=True)
    async def say_nothing(word: str) -> str:
        return word

    async with broker:
        await broker.start()
        reply = await broker.request("x", "t", timeout=10, correlation_id="c")
        assert await reply.decode() == {"word": "x"}
        assert reply.headers["h"] == "1" and reply.correlation_id == "c"
        assert await (await broker.request("none", "t", timeout=10)).decode() is None
        publisher = broker.publisher("t")
        assert await (await publisher.request("y", timeout=10)).decode() == {"word": "y"}
        for topic, word in (("u", "x"), ("t", "fail")):
            with pytest.raises(NoReply):
                await broker.request(word, topic, timeout=0.5)


async def test_a_stop_waits_for_handlers_and_loses_nothing(cluster: EmbeddedCluster) -> None:
    """They end, and publish; what they did is stored, what they had not begun comes to others."""
    got: list[int] = []
    running, leaves = asyncio.Event(), asyncio.Event()

    def make() -> AerobeeBroker:
        broker = AerobeeBroker(
            cluster.namesrv_addr, group="g", settings=PushSettings(concurrency=3)
        )

        @broker.publisher("u")
        @broker.subscriber("t", consume_from=FIRST)
        async def handle(number: int) -> int:
            running.set()
            await leaves.wait()
            got.append(number)
            return number

        return broker

    first = make()
    async with first:
        await first.start()
        for number in range(20):
            await first.publish(number, "t")
        await running.wait()
        asyncio.get_running_loop().call_later(0.1, leaves.set)
    assert 0 < len(got) < 20
    second = make()
    published: list[int] = []

    @second.subscriber("u", group="readers", consume_from=FIRST)
    async def read(number: int) -> None:
        published.append(number)

    async with second:
        await second.start()
        await until(lambda: len(published) == 20, 20)
    assert sorted(got) == sorted(published) == list(range(20))


async def test_who_outlasts_the_stop_has_its_message_again(cluster: EmbeddedCluster) -> None:
    """A handler is cancelled when the time is up, and nothing counts as done."""
    got: list[str] = []

    def make() -> AerobeeBroker:
        broker = AerobeeBroker(cluster.namesrv_addr, group="g", graceful_timeout=0.1)

        @broker.subscriber("t", consume_from=FIRST)
        async def handle(word: str) -> None:
            got.append(word)
            if len(got) == 1:
                try:
                    await asyncio.Event().wait()
                finally:
                    got.append("cancelled")

        return broker

    first = make()
    async with first:
        await first.start()
        await first.publish("x", "t")
        await until(lambda: got)
    assert got == ["x", "cancelled"]
    async with make() as second:
        await second.start()
        await until(lambda: got == ["x", "cancelled", "x"])


async def test_what_a_killed_process_had_comes_again(cluster: EmbeddedCluster) -> None:
    """Also where its handler was at work."""
    broker = AerobeeBroker(cluster.namesrv_addr, group="g")
    got: set[int] = set()

    @broker.subscriber("t", consume_from=FIRST)
    async def handle(number: int) -> None:
        got.add(number)

    async with broker:
        await broker.publish_batch(1, 2, 3, topic="t")
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, cluster.namesrv_addr, stdout=-1, stderr=-3
        )
        assert child.stdout is not None
        seen: set[bytes] = set()
        async with asyncio.timeout(30):
            while not {b"1\n", b"2\n", b"3\n"} <= seen:
                seen.add(await child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
        await broker.start()
        await until(lambda: got == {1, 2, 3}, 30)


async def test_a_broker_that_restarts_loses_nothing(cluster: EmbeddedCluster) -> None:
    """Neither of what is published nor of what is handled; a ping says how it is."""
    broker = AerobeeBroker(cluster.namesrv_addr, group="g")
    got: set[int] = set()

    @broker.subscriber("t", consume_from=FIRST)
    async def handle(number: int) -> None:
        got.add(number)

    assert not await broker.ping()
    async with broker:
        await broker.start()
        assert await broker.ping()
        for number in range(20):
            await broker.publish(number, "t")
            if number == 10:
                await cluster.restart_broker()
        await until(lambda: len(got) == 20, 20)
    async with AerobeeBroker("127.0.0.1:1") as nowhere:
        assert not await nowhere.ping(timeout=0.5)
        with pytest.raises(Unavailable):
            await nowhere.publish(1, "t", timeout_ms=100)


async def test_a_handler_may_stop_its_subscriber(cluster: EmbeddedCluster) -> None:
    """Its message is not done, and the others of the group go on."""
    broker = AerobeeBroker(cluster.namesrv_addr, group="g")
    got: list[str] = []

    @broker.subscriber("t", consume_from=FIRST)
    async def stops(word: str) -> None:
        got.append(f"stop {word}")
        raise StopConsume

    @broker.subscriber("u", consume_from=FIRST)
    async def stays(word: str) -> None:
        got.append(word)
        if word == "2":
            raise StopConsume  # the last one: the consumer itself is closed by its handler

    async with broker:
        await broker.start()
        await broker.publish("x", "t")
        await until(lambda: got == ["stop x"], 20)
        await broker.publish("1", "u")
        await until(lambda: "1" in got, 20)
        await broker.publish("2", "u")
        await until(lambda: "2" in got, 20)
    assert got == ["stop x", "1", "2"]


async def test_subscribers_of_a_group_agree(cluster: EmbeddedCluster) -> None:
    """What cannot work is refused at the start, and nothing is left behind."""
    broker = AerobeeBroker(cluster.namesrv_addr)
    handlers = []

    async def handle(word: str) -> None: ...

    def subscribe(*topic: str, **how: Any) -> None:
        handlers.append(broker.subscriber(*topic, **how)(handle))

    subscribe("t", group="g")
    for topic, how, words in (
        ("t", {"group": "g"}, "has a subscriber of topic 't'"),
        ("u", {"group": "g", "ordered": True}, "have to say the same"),
        ("u", {}, "has no group"),
    ):
        added = broker.subscriber(topic, **how)
        added(handle)
        with pytest.raises(SetupError, match=words):
            await broker.start()
        broker._subscribers.discard(added)
    await broker.start()  # what was left behind would be refused now
    await broker.stop()


async def test_messages_are_asked_for_one_by_one(cluster: EmbeddedCluster) -> None:
    """By a subscriber without handlers, also one that is made while the broker runs."""
    async with AerobeeBroker(cluster.namesrv_addr, group="g") as broker:
        await broker.start()
        for number in range(4):
            await broker.publish(number, "t", key="one")
        subscriber = broker.subscriber("t", consume_from=FIRST)
        await subscriber.start()
        one = await subscriber.get_one(timeout=10)
        assert one is not None and await one.decode() == 0
        got = []
        async for message in subscriber:
            got.append(await message.decode())
            if len(got) == 3:
                break
        assert got == [1, 2, 3]
        assert await subscriber.get_one(timeout=0.2) is None
        await subscriber.stop()
        late: list[int] = []

        async def handle(number: int) -> None:
            late.append(number)

        added = broker.subscriber("u", consume_from=FIRST)
        added(handle)
        await added.start()
        await broker.publish(5, "u")
        await until(lambda: late == [5], 20)


async def test_mocks_are_there_with_a_cluster_too(cluster: EmbeddedCluster) -> None:
    """FastStream's test client, `with_real`."""
    broker = AerobeeBroker(cluster.namesrv_addr, group="g")

    @broker.subscriber("t", consume_from=FIRST)
    async def handle(number: int) -> None: ...

    async with TestAerobeeBroker(broker, with_real=True) as tested:
        await tested.publish(7, "t")
        await handle.wait_call(timeout=10)
        handle.mock.assert_called_once_with(7)


@pytest.mark.timeout(60)
async def test_the_example_runs(cluster: EmbeddedCluster) -> None:
    """What the README shows ends when it is asked to, with what it did stored."""
    await cluster.create_topic("orders", 1)
    await cluster.create_topic("bills", 1)
    program = python_block("integrations/faststream/README.md", "faststream").replace(
        "127.0.0.1:9876", cluster.namesrv_addr
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=-1)
    assert child.stdout is not None
    async with asyncio.timeout(40):
        while b"to pay: number=7 cents=4200" not in await child.stdout.readline():
            pass
        child.terminate()
        await child.communicate()
    assert child.returncode == 0
    async with LitePullConsumer("billing", namesrv=cluster.namesrv_addr) as consumer:
        for queue in await consumer.fetch_queues("orders"):
            assert await consumer.committed(queue) == 1
