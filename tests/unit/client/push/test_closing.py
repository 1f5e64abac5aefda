"""The close of a push consumer: from inside a handler, cancelled, with handlers that go on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import ConsumeFrom, MessageHandler, PushConsumer, PushSettings, ReceivedMessage

Close = Callable[[PushConsumer], Awaitable[None]]


def started() -> set[str]:
    """Return the names of the client's tasks that run."""
    names = {task.get_name() for task in asyncio.all_tasks()}
    return {name for name in names if not name.startswith(("Task-", "test"))}


@pytest.fixture
async def one_queue(cluster: FakeCluster) -> AsyncIterator[FakeCluster]:
    """Four messages in the only queue of t; no task of a client is left when the test is over."""
    before = started()
    cluster.create("t", 1)
    cluster.brokers.pop()
    for at in range(4):
        cluster.brokers[0].store("t", 0, b"%d" % at)
    yield cluster
    await until(lambda: started() == before)


def consumer(
    cluster: FakeCluster,
    handle: MessageHandler,
    *,
    handover_timeout_ms: int = 60_000,
    ordered: bool = False,
) -> PushConsumer:
    """Return a consumer that waits very long for its handlers."""
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(concurrency=1, handover_timeout_ms=handover_timeout_ms),
        consume_from=ConsumeFrom.FIRST,
        ordered=ordered,
    )
    member.subscribe("t", handle)
    return member


async def at_once(member: PushConsumer) -> None:
    """Close in the handler's task."""
    await member.close()


async def in_another_task(member: PushConsumer) -> None:
    """Close in a task of the handler's."""
    await asyncio.create_task(member.close())


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("close", [at_once, in_another_task])
async def test_a_handler_may_close_its_consumer(
    one_queue: FakeCluster, close: Close, ordered: bool
) -> None:
    """Nobody waits for it; its message is not done, and it is the last one."""
    calls: list[bytes] = []
    closed = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        calls.append(message.body)
        if message.body == b"2":
            await close(member)
            closed.set()

    member = consumer(one_queue, handle, ordered=ordered)
    await member.start()
    async with asyncio.timeout(5):
        await closed.wait()
    assert one_queue.brokers[0].committed["g", "t", 0] == 2
    await until(lambda: "handler" not in started())
    assert calls == [b"0", b"1", b"2"]
    assert not one_queue.brokers[0].members["g"]


async def test_a_plain_function_may_close_its_consumer(one_queue: FakeCluster) -> None:
    """From its thread, through the loop."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def handle(message: ReceivedMessage) -> None:
        asyncio.run_coroutine_threadsafe(member.close(), loop).result(10)
        loop.call_soon_threadsafe(closed.set)

    member = consumer(one_queue, handle)
    await member.start()
    async with asyncio.timeout(5):
        await closed.wait()
    assert one_queue.brokers[0].committed["g", "t", 0] == 0


async def test_a_task_that_a_handler_has_started_waits_for_the_others(
    one_queue: FakeCluster,
) -> None:
    """It closes the consumer when its own handler has long ended: the one that runs may end."""
    closing: list[asyncio.Task[None]] = []
    go = asyncio.Event()

    async def close_later() -> None:
        await until(lambda: member.statistics().handlers.succeeded == 1)
        await until(lambda: member.statistics().handlers.running == 1)
        asyncio.get_running_loop().call_later(0.02, go.set)
        await member.close()

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"0":
            closing.append(asyncio.create_task(close_later()))
        elif message.body == b"1":
            await go.wait()

    member = consumer(one_queue, handle)
    await member.start()
    await until(lambda: bool(closing) and closing[0].done())
    closing[0].result()
    assert one_queue.brokers[0].committed["g", "t", 0] == 2


async def test_a_swallowed_cancellation_does_not_hold_up_the_close(one_queue: FakeCluster) -> None:
    """The handler ends as if nothing was; the worker sees that it is over."""
    begun: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        begun.append(message.body)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    member = consumer(one_queue, handle, handover_timeout_ms=20)
    await member.start()
    await until(lambda: bool(begun))
    async with asyncio.timeout(5):
        await member.close()
    assert begun == [b"0"]


async def test_a_close_that_is_cancelled_leaves_nothing_behind(one_queue: FakeCluster) -> None:
    """Neither while it waits for handlers, nor while it ends them."""
    begun, cancelled, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            await go.wait()

    member = consumer(one_queue, handle)
    await member.start()
    await begun.wait()
    closing = asyncio.create_task(member.close())
    await until(lambda: not member.queues())
    closing.cancel()
    await cancelled.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert started() == {"handler"}
    go.set()
    await member.close()
    assert member.client_id == ""
