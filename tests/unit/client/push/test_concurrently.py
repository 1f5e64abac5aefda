"""Workers are few, fair and bounded."""

import asyncio
from collections.abc import Awaitable, Callable

from support.waiting import until

from aerobee.client.handlers import Handler
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.statistics import TopicCounters
from aerobee.client.push.concurrently import HandlerPool
from aerobee.client.push.failures import DropFailed
from aerobee.client.push.handling import HandlingTerms
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import PushSettings

QUEUE = MessageQueue("t", "broker-a", 0)


def batch(start: int, count: int) -> list[ReceivedMessage]:
    """Build messages of one queue."""
    return [
        ReceivedMessage(QUEUE, b"x", at, 0, 0, 0, 0, 0, 0, 1, b"", bytes(8), bytes(8))
        for at in range(start, start + count)
    ]


class Keep(DropFailed):
    """Takes nothing back."""

    async def give_back(
        self, messages: list[ReceivedMessage], delay_level: int = 0
    ) -> list[ReceivedMessage]:
        """Let all be handled again."""
        return messages


def pool_of(concurrency: int, redeliver_delay_ms: int = 1000) -> HandlerPool:
    """Return a pool that gives nothing back: what fails is handled again here."""
    settings = PushSettings(concurrency=concurrency, redeliver_delay_ms=redeliver_delay_ms)
    return HandlerPool(HandlingTerms("g", settings, Hooks()), Keep(settings))


def submit(
    pool: HandlerPool,
    process: ProcessQueue,
    handle: Callable[[ReceivedMessage], Awaitable[None]],
    messages: list[ReceivedMessage],
) -> None:
    """Put messages into a queue and let them be handled."""
    process.put(messages, messages[-1].queue_offset + 1)
    pool.submit(process, Handler(handle), TopicCounters(), messages)


async def settle(pool: HandlerPool) -> None:
    """Let the pool run until nothing waits or runs."""
    for _ in range(10_000):
        await asyncio.sleep(0)
        statistics = pool.statistics()
        if not statistics.waiting and not statistics.running:
            return
    raise AssertionError("the pool does not come to rest")


async def test_handlers_that_do_not_wait_need_few_workers() -> None:
    """However many messages come, there is no task for each."""
    pool, process, seen = pool_of(20, 1000), ProcessQueue(0), list[int]()

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.queue_offset)

    for start in range(0, 3200, 32):
        submit(pool, process, handle, batch(start, 32))
        await settle(pool)
    assert seen == list(range(3200))
    assert pool.statistics().workers <= 5
    assert process.committable == 3200
    await pool.close()


async def test_the_loop_gets_its_turn() -> None:
    """Handlers that never wait but take their time do not starve other tasks."""
    pool, process, done = pool_of(4, 1000), ProcessQueue(0), 0
    loop = asyncio.get_running_loop()

    async def handle(message: ReceivedMessage) -> None:
        nonlocal done
        busy_until = loop.time() + 0.001
        while loop.time() < busy_until:
            pass
        done += 1

    submit(pool, process, handle, batch(0, 100))
    turns = []
    while done < 100:
        turns.append(done)
        await asyncio.sleep(0)
    assert len(turns) > 10
    await pool.close()


async def test_messages_of_a_dropped_queue_are_not_begun() -> None:
    """What no handler has begun is left to the next owner."""
    pool, process, seen = pool_of(1, 1000), ProcessQueue(0), list[int]()
    go = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.queue_offset)
        await go.wait()

    submit(pool, process, handle, batch(0, 10))
    await asyncio.sleep(0.01)
    process.drop()
    go.set()
    await settle(pool)
    assert seen == [0]
    assert process.committable == 1
    await pool.close()


async def test_closing_cancels_what_runs() -> None:
    """No handler outlives the pool."""
    pool, process = pool_of(2, 1000), ProcessQueue(0)
    ended = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    submit(pool, process, handle, batch(0, 1))
    await asyncio.sleep(0.01)
    assert pool.statistics().running == 1
    await pool.close()
    assert ended.is_set()
    assert pool.statistics().running == 0


async def test_a_handler_that_is_cancelled_within_fails_alone() -> None:
    """Its message comes again; the worker goes on."""
    pool, process, times = pool_of(1, 1), ProcessQueue(0), 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal times
        times += 1
        if times == 1:
            raise asyncio.CancelledError

    submit(pool, process, handle, batch(0, 1))
    await until(lambda: pool.statistics().succeeded == 1)
    assert (times, process.committable) == (2, 1)
    await pool.close()
