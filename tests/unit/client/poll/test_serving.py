"""A user's loop that is told to end: what it has may be finished, and no more is handed out."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.silent_server import SilentServer
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    PushConsumer,
    ReceivedMessage,
)


@pytest.fixture
async def one_queue(cluster: FakeCluster) -> AsyncIterator[FakeCluster]:
    """Twenty messages in the only queue of t."""
    cluster.brokers.pop()
    cluster.create("t", 1)
    for at in range(20):
        cluster.brokers[0].store("t", 0, b"%d" % at)
    yield cluster


def lite(cluster: FakeCluster, handover_timeout_ms: int = 10_000) -> LitePullConsumer:
    """Return a consumer from the first message on, not started."""
    settings = LitePullSettings(handover_timeout_ms=handover_timeout_ms)
    consumer = LitePullConsumer(
        "g", namesrv=cluster.namesrv, settings=settings, consume_from=ConsumeFrom.FIRST
    )
    consumer.subscribe("t")
    return consumer


def tell_to_end() -> None:
    """Send this process the signal that services get."""
    os.kill(os.getpid(), signal.SIGTERM)


async def test_the_message_at_hand_is_finished(
    one_queue: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """And committed; where that takes a moment the log says so."""
    got: list[int] = []

    async def work(consumer: LitePullConsumer) -> None:
        async for message in consumer:
            if message.queue_offset == 4:
                tell_to_end()
                await asyncio.sleep(0.7)
            got.append(message.queue_offset)

    await lite(one_queue).run(work)
    assert got == [0, 1, 2, 3, 4]
    assert one_queue.brokers[0].committed["g", "t", 0] == 5
    assert "waiting up to 10 s for what works on 1 message, then closing" in caplog.text


async def test_what_takes_too_long_is_cancelled_and_comes_again(
    one_queue: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """What was consumed before it is committed."""
    cancelled: list[bool] = []

    async def work(consumer: LitePullConsumer) -> None:
        async for message in consumer:
            if message.queue_offset == 4:
                tell_to_end()
                try:
                    await asyncio.sleep(60)
                finally:
                    cancelled.append(True)

    async with asyncio.timeout(10):
        await lite(one_queue, handover_timeout_ms=100).run(work)
    assert cancelled == [True]
    assert one_queue.brokers[0].committed["g", "t", 0] == 4
    assert "work takes too long, messages come again count=1" in caplog.text


async def test_tasks_side_by_side_may_all_finish(one_queue: FakeCluster) -> None:
    """One waits in `poll` when it is told to end, another is at work and comes to poll later."""
    done: list[int] = []
    told = asyncio.Event()

    async def slow(consumer: LitePullConsumer) -> None:
        batch = await consumer.poll()
        await told.wait()
        tell_to_end()
        await asyncio.sleep(0.2)
        done.extend(message.queue_offset for message in batch)
        await consumer.poll()

    async def quick(consumer: LitePullConsumer) -> None:
        while True:
            batch = await consumer.poll(timeout_ms=50)
            done.extend(message.queue_offset for message in batch)
            if not batch:
                told.set()

    async def work(consumer: LitePullConsumer) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(slow(consumer))
            group.create_task(quick(consumer))

    async with asyncio.timeout(10):
        await lite(one_queue).run(work)
    assert sorted(done) == list(range(20))
    assert one_queue.brokers[0].committed["g", "t", 0] == 20


async def test_it_ends_while_it_starts() -> None:
    """Nameservers that say nothing hold nobody up."""
    async with SilentServer() as silent:
        patient = ClientSettings(api_timeout_ms=60_000)
        consumer = LitePullConsumer("g", namesrv=silent.address, client=patient)
        consumer.subscribe("t")
        worked: list[bool] = []

        async def work(consumer: LitePullConsumer) -> None:
            worked.append(True)

        running = asyncio.create_task(consumer.run(work))
        await until(lambda: silent.connections)
        tell_to_end()
        async with asyncio.timeout(20):
            await running
    assert not worked
    assert not consumer.client_id


async def test_in_another_thread_there_are_no_signals(one_queue: FakeCluster) -> None:
    """It serves all the same, until somebody closes it."""
    got: list[bytes] = []

    def serve() -> None:
        consumer = PushConsumer("g", namesrv=one_queue.namesrv, consume_from=ConsumeFrom.FIRST)

        async def handle(message: ReceivedMessage) -> None:
            got.append(message.body)
            if len(got) == 20:
                await consumer.close()

        consumer.subscribe("t", handle)
        asyncio.run(consumer.run())

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=serve)
    thread.start()
    await until(lambda: not thread.is_alive())
    assert len(got) == 20
    assert signal.getsignal(signal.SIGTERM) is before


async def test_consumers_side_by_side_share_the_signal(one_queue: FakeCluster) -> None:
    """`gather` of several runs ends with one signal, and the handlers are set as before."""
    before = signal.getsignal(signal.SIGTERM)
    push = PushConsumer("push", namesrv=one_queue.namesrv, consume_from=ConsumeFrom.FIRST)
    push.subscribe("t", lambda message: None)
    got: list[int] = []

    async def work(consumer: LitePullConsumer) -> None:
        async for message in consumer:
            got.append(message.queue_offset)

    running = asyncio.gather(push.run(), lite(one_queue).run(work))
    await until(lambda: len(got) == 20 and push.statistics().handlers.succeeded == 20)
    tell_to_end()
    async with asyncio.timeout(10):
        await running
    committed = one_queue.brokers[0].committed
    assert (committed["g", "t", 0], committed["push", "t", 0]) == (20, 20)
    assert signal.getsignal(signal.SIGTERM) is before
