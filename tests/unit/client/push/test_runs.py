"""Messages are booked many at a time, and whoever looks sees each of them that is done."""

import asyncio
import random

import pytest

from aerobee.client.handlers import ConsumeResult, Handler
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
HOST = bytes(8)


class Pooled:
    """A pool with one queue; messages that fail are dropped."""

    def __init__(self, concurrency: int) -> None:
        settings = PushSettings(concurrency=concurrency)
        self.pool = HandlerPool(HandlingTerms("g", settings, Hooks()), DropFailed(settings))
        self.process = ProcessQueue(0)
        self.counters = TopicCounters()

    def submit(self, handler: Handler, count: int, step: int = 1) -> list[ReceivedMessage]:
        """Have messages handled that one pull has brought, from where the queue stands on."""
        first = self.process.next_offset
        messages = [
            ReceivedMessage(
                QUEUE, b"x", first + at * step, 0, 0, 0, 0, 0, 0, 1, b"", HOST, HOST, held_bytes=1
            )
            for at in range(count)
        ]
        self.process.put(messages, first + count * step)
        self.pool.submit(self.process, handler, self.counters, messages)
        return messages

    def look(self) -> tuple[int, int, int, int]:
        """Return what may be committed, what is left, and what succeeded, by each counter."""
        process = self.process
        assert process.bytes == process.count == process.statistics().messages
        succeeded = self.pool.statistics().succeeded
        assert self.counters.succeeded == succeeded
        return process.committable, process.count, succeeded, self.counters.calls

    async def rest(self) -> None:
        """Wait until nothing waits or runs."""
        for _ in range(10_000):
            await asyncio.sleep(0)
            statistics = self.pool.statistics()
            if not statistics.waiting and not statistics.running:
                return
        raise AssertionError("the pool does not come to rest")


async def test_a_handler_sees_that_those_before_it_are_done() -> None:
    """Though it has not waited, nor has any before it."""
    pooled, seen = Pooled(4), list[tuple[int, int, int, int]]()

    async def handle(message: ReceivedMessage) -> None:
        seen.append(pooled.look())

    pooled.submit(Handler(handle), 5, step=2)
    await pooled.rest()
    assert seen == [(2 * at, 5 - at, at, at) for at in range(5)]
    assert pooled.look() == (10, 0, 5, 5)
    assert pooled.process.running == 0
    await pooled.pool.close()


async def test_others_see_that_those_before_a_slow_one_are_done() -> None:
    """A slow handler holds up its own message, and no other of its pull."""
    pooled, go, handled = Pooled(2), asyncio.Event(), list[int]()

    async def handle(message: ReceivedMessage) -> None:
        if message.queue_offset in (3, 5):
            await go.wait()
        handled.append(message.queue_offset)

    pooled.submit(Handler(handle), 8)
    for _ in range(10):
        await asyncio.sleep(0)
    assert handled == [0, 1, 2, 4]
    assert pooled.look() == (3, 4, 4, 4)
    assert pooled.process.running == 2
    held = [pooled.process.holds(message) for message in pooled.pool.running[0].messages]
    assert held == [True]
    go.set()
    await pooled.rest()
    assert sorted(handled) == list(range(8))
    assert pooled.look() == (8, 0, 8, 8)
    await pooled.pool.close()


@pytest.mark.parametrize("answer", [ConsumeResult.SUCCESS, False, 0, "done"])
async def test_any_answer_but_later_is_a_success(answer: object) -> None:
    """And the messages behind it belong to the same run."""
    pooled = Pooled(1)

    async def handle(message: ReceivedMessage) -> object:
        return answer

    pooled.submit(Handler(handle), 5)
    await pooled.rest()
    assert pooled.look() == (5, 0, 5, 5)
    await pooled.pool.close()


async def test_what_fails_in_the_middle_is_the_only_one_that_does() -> None:
    """An error, and a wish for later: those before and behind are done."""
    pooled = Pooled(1)

    async def handle(message: ReceivedMessage) -> object:
        if message.queue_offset == 2:
            raise ValueError("no")
        return ConsumeResult.LATER if message.queue_offset == 4 else None

    pooled.submit(Handler(handle), 6)
    await pooled.rest()
    assert pooled.look() == (6, 0, 4, 6)
    assert (pooled.pool.statistics().failed, pooled.counters.failed) == (2, 2)
    await pooled.pool.close()


async def test_a_worker_that_is_stopped_leaves_its_message_alone_undone() -> None:
    """The handler is cancelled by the close: those before it stay done."""
    pooled = Pooled(1)

    async def handle(message: ReceivedMessage) -> None:
        if message.queue_offset == 3:
            await asyncio.Event().wait()

    pooled.submit(Handler(handle), 6)
    for _ in range(5):
        await asyncio.sleep(0)
    await pooled.pool.close()
    assert pooled.look() == (3, 3, 3, 3)
    assert pooled.process.running == 0


async def test_a_handler_may_do_with_its_list_what_it_likes() -> None:
    """What is done is what it got, and not what it left."""
    pooled = Pooled(1)

    async def handle(messages: list[ReceivedMessage]) -> None:
        while messages:
            messages.pop()

    pooled.submit(Handler(handle, batch=4), 10)
    await pooled.rest()
    assert pooled.look() == (10, 0, 10, 3)
    await pooled.pool.close()


async def test_a_batch_is_what_one_pull_has_brought() -> None:
    """Cut only where it is larger."""
    pooled, got = Pooled(1), list[int]()

    async def handle(messages: list[ReceivedMessage]) -> None:
        got.append(len(messages))

    for count in (3, 32, 100):
        pooled.submit(Handler(handle, batch=32), count)
    await pooled.rest()
    assert got == [3, 32, 32, 32, 32, 4]
    await pooled.pool.close()


async def test_any_mix_of_handlers_books_each_message_once() -> None:
    """Some wait, some fail, some look, over pulls with gaps; at the end all is done."""
    seed = random.randrange(1 << 32)
    print(f"seed={seed}")
    choose = random.Random(seed)
    for _ in range(30):
        pooled, done, count = Pooled(choose.randrange(1, 5)), set[int](), 0

        async def handle(
            message: ReceivedMessage, pooled: Pooled = pooled, done: set[int] = done
        ) -> object:
            for _ in range(choose.choice([0, 0, 0, 1, 3])):
                await asyncio.sleep(0)
            if choose.random() < 0.2:
                committable, _, succeeded, _ = pooled.look()
                assert done.issuperset(range(0, committable, 2))
                assert succeeded + pooled.pool.statistics().failed <= len(done)
            done.add(message.queue_offset)
            return choose.choice([None, None, None, ConsumeResult.SUCCESS, ConsumeResult.LATER])

        for _ in range(choose.randrange(1, 8)):
            count += len(pooled.submit(Handler(handle), choose.randrange(1, 20), step=2))
        await pooled.rest()
        offset, left, succeeded, calls = pooled.look()
        assert (offset, left, calls, len(done)) == (2 * count, 0, count, count)
        assert succeeded + pooled.pool.statistics().failed == count
        await pooled.pool.close()
