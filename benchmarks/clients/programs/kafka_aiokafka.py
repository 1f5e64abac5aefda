"""aiokafka: Kafka's protocol on asyncio."""

import asyncio
from collections import deque
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

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

PARTITIONS: Final = 4
UNDER_WAY_MAX: Final = 10_000
BLOCK_MESSAGES: Final = 500
GETMANY_MESSAGES: Final = 1_000
STEADY_LOOKS: Final = 15  # at memory that does not grow: everything is there
SECONDS_MAX: Final = 60.0
THROUGHPUT: Final = {"linger_ms": 5, "max_batch_size": 131_072, "acks": "all"}
AT_ONCE: Final = {"linger_ms": 0, "acks": "all"}
FETCHED_BYTES: Final = 64 << 20


class Sending:
    """A producer, from the first message to what is stored at the end."""

    def __init__(self, run: Run, settings: dict[str, Any], *, is_warm: bool = False) -> None:
        self.run = run
        self._is_warm = is_warm
        self.producer = AIOKafkaProducer(bootstrap_servers=address(), **settings)
        self._before = 0

    async def __aenter__(self) -> Self:
        self._before = await _stored(self.run.order.topic)
        await self.producer.start()
        for number in () if self._is_warm else self.run.order.warm_numbers():
            await self.wait(number)
            self.run.acked += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.producer.stop()
        self.run.expect_stored(self._before, await _stored(self.run.order.topic))

    async def send(self, number: int) -> asyncio.Future[Any]:
        """Hand one over; return the future of its outcome."""
        body, key = self.run.bodies.of(number), b"key-%d" % number
        future: asyncio.Future[Any] = await self.producer.send(self.run.order.topic, body, key)
        return future

    async def wait(self, number: int) -> None:
        """Send one and wait for its outcome."""
        body, key = self.run.bodies.of(number), b"key-%d" % number
        await self.producer.send_and_wait(self.run.order.topic, body, key)


async def full(run: Run) -> int:
    """`send`, up to 10,000 futures not yet done."""
    async with Sending(run, THROUGHPUT) as sending:
        before = run.acked
        blocks: deque[list[asyncio.Future[Any]]] = deque()
        block: list[asyncio.Future[Any]] = []
        run.clock.begin()
        for number in run.order.numbers():
            block.append(await sending.send(number))
            if len(block) == BLOCK_MESSAGES:
                blocks.append(block)
                block = []
                if len(blocks) == UNDER_WAY_MAX // BLOCK_MESSAGES:
                    stored = await asyncio.gather(*blocks.popleft())
                    run.acked += len(stored)
        for each in (*blocks, block):
            stored = await asyncio.gather(*each)
            run.acked += len(stored)
        run.clock.end()
        return run.acked - before


async def awaited(run: Run) -> int:
    """`send_and_wait` in 64 tasks."""
    async with Sending(run, AT_ONCE) as sending:
        return await in_tasks(run, sending.wait)


async def lone(run: Run) -> int:
    """`send_and_wait`, one after the other."""
    async with Sending(run, AT_ONCE) as sending:
        return await one_by_one(run, sending.wait)


async def trip(run: Run) -> int:
    """`send_and_wait`, and `getone`."""
    async with _consumer(run) as consumer, Sending(run, AT_ONCE, is_warm=True) as sending:

        async def arrives() -> bytes:
            body: bytes = (await consumer.getone()).value
            return body

        return await round_trips(run, sending.wait, arrives)


def _consumer(run: Run, **more: Any) -> Any:
    return AIOKafkaConsumer(
        run.order.topic,
        bootstrap_servers=address(),
        group_id=run.order.group,
        auto_offset_reset="earliest",
        **more,
    )


async def batches(run: Run) -> int:
    """`getmany`, up to 1,000 at a time."""
    taken = Taken(run)
    async with _consumer(run) as consumer, asyncio.timeout(SECONDS_MAX):
        while not taken.done:
            found = await consumer.getmany(timeout_ms=100, max_records=GETMANY_MESSAGES)
            for records in found.values():
                taken.add([record.value for record in records])
        if await consumer.getmany(timeout_ms=int(SETTLE_S * 1_000)):
            run.fail("more came than there was")
    return taken.measured()


async def singles(run: Run) -> int:
    """`async for`."""
    taken = Taken(run)
    async with _consumer(run) as consumer, asyncio.timeout(SECONDS_MAX):
        async for record in consumer:
            taken.add_one(record.value)
            if taken.done:
                break
        if await consumer.getmany(timeout_ms=int(SETTLE_S * 1_000)):
            run.fail("more came than there was")
    return taken.measured()


async def ahead(run: Run) -> int:
    """One fetch of each partition, as large as a partition; counted when memory grows no more."""
    before = anonymous_bytes()
    sizes = {"max_partition_fetch_bytes": FETCHED_BYTES, "fetch_max_bytes": 4 * FETCHED_BYTES}
    async with _consumer(run, **sizes) as consumer, asyncio.timeout(SECONDS_MAX):
        run.clock.begin()
        grown, steady = 0, 0
        while steady < STEADY_LOOKS:
            await asyncio.sleep(0.1)
            now = anonymous_bytes() - before
            steady = steady + 1 if now == grown else 0
            grown = now
        run.clock.end()
        held = 0
        while found := await consumer.getmany(timeout_ms=200):
            held += sum(len(records) for records in found.values())
    run.more["bytes_each"] = grown / held
    if held != run.order.count:
        run.fail(f"{held} were held of {run.order.count}")
    return held


async def _stored(topic: str) -> int:
    async with AIOKafkaConsumer(bootstrap_servers=address()) as consumer:
        places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        ends = await consumer.end_offsets(places)
        return sum(ends.values())


if __name__ == "__main__":
    serve(
        {
            "send": full,
            "send-64": awaited,
            "lone": lone,
            "trip": trip,
            "batches": batches,
            "singles": singles,
            "ahead": ahead,
        }
    )
