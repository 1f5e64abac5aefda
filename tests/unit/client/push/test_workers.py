"""Workers outlive what handlers do, and end when they are told to."""

import asyncio
import itertools
from collections.abc import Callable

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import ConsumeFrom, InvalidUse, Later, PushConsumer, ReceivedMessage
from aerobee.client.handlers import Handler
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.statistics import TopicCounters
from aerobee.client.push import workers
from aerobee.client.push.concurrently import HandlerPool
from aerobee.client.push.failures import DropFailed
from aerobee.client.push.handling import HandlingTerms
from aerobee.client.push.orderly import OrderlyPool
from aerobee.client.settings import PushSettings

QUEUE = MessageQueue("t", "broker-a", 0)
Pool = HandlerPool | OrderlyPool


class Taker(DropFailed):
    """Takes failed messages, but not while it is out of order; the pools give them to it."""

    def __init__(self) -> None:
        super().__init__(PushSettings(max_reconsume_times=0))
        self.fails = 0
        self.taken: list[int] = []

    async def give_back(
        self, messages: list[ReceivedMessage], delay_level: int = 0
    ) -> list[ReceivedMessage]:
        """Take messages."""
        if self.fails:
            self.fails -= 1
            raise RuntimeError("out of order")
        self.taken += [message.queue_offset for message in messages]
        return []

    async def give_up(self, message: ReceivedMessage) -> bool:
        """Take a message of an ordered queue."""
        return not await self.give_back([message])

    def pool(self, *, ordered: bool, concurrency: int = 1) -> Pool:
        """Return a pool whose messages may fail once in an ordered queue."""
        settings = PushSettings(concurrency=concurrency, redeliver_delay_ms=10, suspend_ms=10)
        terms = HandlingTerms("g", settings, Hooks(), ordered)
        return OrderlyPool(terms, self, lambda queue: True) if ordered else HandlerPool(terms, self)


def submit(pool: Pool, handle: Callable[[ReceivedMessage], object], count: int) -> ProcessQueue:
    """Let messages of a new process queue be handled; return that."""
    messages = [
        ReceivedMessage(QUEUE, b"x", at, 0, 0, 0, 0, 0, 0, 1, b"", bytes(8), bytes(8))
        for at in range(count)
    ]
    process = ProcessQueue(0)
    process.put(messages, count)
    pool.submit(process, Handler(handle), TopicCounters(), messages)  # type: ignore[arg-type]
    return process


class Odd(BaseException):
    """What no program should raise, and some library does."""


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("error", [GeneratorExit, StopAsyncIteration, Odd, asyncio.CancelledError])
async def test_whatever_a_handler_raises_means_later(
    ordered: bool, error: type[BaseException]
) -> None:
    """The message is given back, the worker goes on with the next."""
    taker = Taker()
    pool = taker.pool(ordered=ordered)

    async def handle(message: ReceivedMessage) -> None:
        if message.queue_offset == 1:
            raise error

    process = submit(pool, handle, 4)
    await until(lambda: process.committable == 4)
    assert taker.taken == [1]
    statistics = pool.statistics()
    assert (statistics.succeeded, statistics.failed, statistics.workers) == (3, 1, 1)
    await pool.close()


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_message_that_cannot_be_settled_is_handled_again(
    ordered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Something breaks on its way back: that is logged, and the queue goes on."""
    taker = Taker()
    taker.fails = 1
    pool = taker.pool(ordered=ordered)
    calls: list[int] = []

    async def handle(message: ReceivedMessage) -> Later | None:
        calls.append(message.queue_offset)
        return Later() if message.queue_offset == 1 else None

    process = submit(pool, handle, 3)
    await until(lambda: process.committable == 3)
    assert sorted(calls) == [0, 1, 1, 2]
    assert taker.taken == [1]
    assert caplog.text.count("settling what a handler answered failed") == 1
    await pool.close()


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("swallowed", [False, True])
async def test_a_worker_that_is_ended_is_replaced(ordered: bool, swallowed: bool) -> None:
    """A handler cancels its own task: another worker goes on, with this message if need be."""
    pool = Taker().pool(ordered=ordered)
    calls: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        calls.append(message.queue_offset)
        if message.queue_offset == 1 and calls.count(1) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not swallowed:
                    raise

    process = submit(pool, handle, 4)
    await until(lambda: process.committable == 4)
    assert calls.count(1) == (1 if swallowed else 2)
    assert (pool.statistics().workers, len(pool.running)) == (1, 1)
    await pool.close()
    assert (pool.statistics().workers, len(pool.running)) == (0, 0)


async def test_a_parked_worker_that_is_cancelled_is_not_woken() -> None:
    """What comes next finds the other one."""
    pool = Taker().pool(ordered=False, concurrency=2)
    done: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        done.append(message.queue_offset)
        await asyncio.sleep(0)

    submit(pool, handle, 10)
    await until(lambda: len(done) == 10 and pool.statistics().workers == 2)
    pool.running[-1].task.cancel()
    await until(lambda: pool.statistics().workers == 1)
    submit(pool, handle, 10)
    await until(lambda: len(done) == 20)
    await pool.close()


@pytest.mark.parametrize("ordered", [False, True])
async def test_closing_ends_handlers_that_swallow_their_cancellation(ordered: bool) -> None:
    """They are cancelled once, and their worker begins nothing further."""
    pool = Taker().pool(ordered=ordered)
    calls: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        calls.append(message.queue_offset)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    submit(pool, handle, 3)
    await until(lambda: bool(calls))
    async with asyncio.timeout(5):
        await pool.close()
    assert calls == [0]
    assert pool.statistics().workers == 0


async def test_closing_does_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that minds nothing is left alone, and the log says so."""
    monkeypatch.setattr(workers, "CANCELLED_S", 0.05)
    pool = Taker().pool(ordered=False)
    go, begun = asyncio.Event(), asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        begun.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    submit(pool, handle, 3)
    await begun.wait()
    async with asyncio.timeout(5):
        await pool.close()
    assert "task does not end though it is cancelled name=handler" in caplog.text
    go.set()
    await until(lambda: pool.statistics().workers == 0)


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_plain_function_may_raise_stop_iteration(
    cluster: FakeCluster, ordered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a `next` without default: no future can hold that, its message comes later."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    for at in range(3):
        cluster.brokers[0].store("t", 0, b"%d" % at)
    calls = itertools.count()

    def handle(message: ReceivedMessage) -> None:
        if next(calls) == 1:
            next(iter(()))

    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(concurrency=1, suspend_ms=10),
        consume_from=ConsumeFrom.FIRST,
        ordered=ordered,
    )
    member.subscribe("t", handle)
    async with member:
        await until(lambda: member.statistics().handlers.succeeded >= 3)
        assert member.statistics().handlers.failed == 1
    assert "handler raised StopIteration" in caplog.text


@pytest.mark.parametrize(
    ("field", "value"),
    [("suspend_ms", "100"), ("succeeded", None), ("delay_level", 1.5), ("delay_level", -2)],
)
def test_an_answer_that_means_nothing_is_refused_where_it_is_made(
    field: str, value: object
) -> None:
    """The handler fails, where its author sees it."""
    with pytest.raises(InvalidUse, match=rf"Later\({field}="):
        Later(**{field: value})  # type: ignore[arg-type]
