"""Our client, against whatever speaks RocketMQ's protocol."""

import asyncio
import time
from collections import deque
from typing import Any, Final

from aerobee.client import (
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.client.settings import PullSettings
from benchmarks.clients.programs.meter import (
    SETTLE_S,
    Run,
    Taken,
    address,
    anonymous_bytes,
    in_tasks,
    one_by_one,
    round_trips,
    serve,
)

BLOCK_MESSAGES: Final = 512
BLOCKS_MAX: Final = 4
SECONDS_MAX: Final = 60.0
QUEUE_MESSAGES_MAX: Final = 65_535


def _message(run: Run, number: int) -> Message:
    return Message(run.order.topic, run.bodies.of(number), tags="tag", keys=f"key-{number}")


async def _warmed(run: Run, producer: Producer) -> None:
    for number in run.order.warm_numbers():
        await producer.send(_message(run, number))
        run.acked += 1


async def soon(run: Run) -> int:
    """`send_soon`, 2,048 at a time under way, the outcome of each looked at."""
    async with Producer("clients", namesrv=address()) as producer:
        await _warmed(run, producer)
        before = run.acked
        blocks: deque[list[Any]] = deque()
        block: list[Any] = []
        run.clock.begin()
        for number in run.order.numbers():
            block.append(producer.send_soon(_message(run, number)))
            if len(block) == BLOCK_MESSAGES:
                blocks.append(block)
                block = []
                if len(blocks) == BLOCKS_MAX:
                    await _looked_at(run, blocks.popleft())
        for each in (*blocks, block):
            await _looked_at(run, each)
        run.clock.end()
    return run.acked - before


async def _looked_at(run: Run, block: list[Any]) -> None:
    if block:
        await block[-1]
    for handle in block:
        if not handle.done:
            await handle
        if handle.error is None:
            run.acked += 1
        else:
            run.fail(handle.error)


async def awaited(run: Run) -> int:
    """`await send` in 64 tasks."""
    async with Producer("clients", namesrv=address()) as producer:
        await _warmed(run, producer)
        return await in_tasks(run, lambda number: producer.send(_message(run, number)))


async def lone(run: Run) -> int:
    """`await send`, one after the other."""
    async with Producer("clients", namesrv=address()) as producer:
        await _warmed(run, producer)
        return await one_by_one(run, lambda number: producer.send(_message(run, number)))


async def trip(run: Run) -> int:
    """`await send`, and a push consumer whose handler gets it."""
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def one(message: ReceivedMessage) -> None:
        arrived.put_nowait(message.body)

    consumer = PushConsumer(run.order.group, namesrv=address(), consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(run.order.topic, one)
    async with consumer, Producer("clients", namesrv=address()) as producer:
        return await round_trips(
            run, lambda number: producer.send(_message(run, number)), arrived.get
        )


async def batches(run: Run) -> int:
    """A push consumer whose handler gets the messages of a pull."""
    taken, done = Taken(run), asyncio.Event()

    async def some(messages: list[ReceivedMessage]) -> None:
        taken.add([message.body for message in messages])
        if taken.done:
            done.set()

    consumer = PushConsumer(run.order.group, namesrv=address(), consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(run.order.topic, some, batch=1_024)
    return await _until(consumer, taken, done)


async def singles(run: Run) -> int:
    """A push consumer whose handler gets one message."""
    taken, done = Taken(run), asyncio.Event()

    async def one(message: ReceivedMessage) -> None:
        taken.add_one(message.body)
        if taken.done:
            done.set()

    consumer = PushConsumer(run.order.group, namesrv=address(), consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(run.order.topic, one)
    return await _until(consumer, taken, done)


async def _until(consumer: PushConsumer, taken: Taken, done: asyncio.Event) -> int:
    async with consumer, asyncio.timeout(SECONDS_MAX):
        await done.wait()
        await asyncio.sleep(SETTLE_S)
    return taken.measured()


async def polled(run: Run) -> int:
    """A lite pull consumer, by `poll()`."""
    taken = Taken(run)
    consumer = LitePullConsumer(run.order.group, namesrv=address(), consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(run.order.topic)
    async with consumer, asyncio.timeout(SECONDS_MAX):
        while not taken.done:
            messages = await consumer.poll()
            if messages:
                taken.add([message.body for message in messages])
        if await consumer.poll(int(SETTLE_S * 1_000)):
            run.fail("more came than there was")
    return taken.measured()


async def ahead(run: Run) -> int:
    """Fetch ahead and hand out next to nothing."""
    pull = PullSettings(
        queue_messages_max=QUEUE_MESSAGES_MAX,
        queue_bytes_max=1 << 30,
        queue_span_max=QUEUE_MESSAGES_MAX,
    )
    settings = LitePullSettings(fetched_messages_max=1 << 30, fetched_bytes_max=1 << 40, pull=pull)
    consumer = LitePullConsumer(
        run.order.group, namesrv=address(), consume_from=ConsumeFrom.FIRST, settings=settings
    )
    consumer.subscribe(run.order.topic)
    before = anonymous_bytes()
    run.clock.begin()
    async with consumer:
        until = time.monotonic() + SECONDS_MAX
        while (held := _fetched(consumer)) < run.order.count:
            if time.monotonic() > until:
                run.fail(f"{held} fetched ahead of {run.order.count}")
                break
            await asyncio.sleep(0.01)
        run.clock.end()
        run.more["bytes_each"] = (anonymous_bytes() - before) / held
    return held


def _fetched(consumer: LitePullConsumer) -> int:
    return sum(each.messages for each in consumer.statistics().values())


if __name__ == "__main__":
    serve(
        {
            "send": soon,
            "send-64": awaited,
            "lone": lone,
            "trip": trip,
            "batches": batches,
            "polled": polled,
            "singles": singles,
            "ahead": ahead,
        }
    )
