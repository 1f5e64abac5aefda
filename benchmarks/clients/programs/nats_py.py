"""nats-py on NATS JetStream: one stream in files, four subjects."""

import asyncio
from typing import Any, Final, Self

import nats
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig
from nats.js.errors import NotFoundError

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

SUBJECTS: Final = 4
UNDER_WAY_MAX: Final = 4_000
FETCH_MESSAGES: Final = 1_000
AHEAD_MESSAGES: Final = 10_000
SECONDS_MAX: Final = 60.0


class Stream:
    """A connection, and the stream of an order's topic."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.name = run.order.topic
        self._before = 0

    async def __aenter__(self) -> Self:
        self.connection: Any = await nats.connect(f"nats://{address()}")
        self.js: Any = self.connection.jetstream(publish_async_max_pending=UNDER_WAY_MAX)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def warm(self) -> None:
        """Send what comes before the clock."""
        self._before = await self.stored()
        for number in self.run.order.warm_numbers():
            await self.wait(number)
            self.run.acked += 1

    async def check(self) -> None:
        """Hold what is stored against what was acknowledged."""
        self.run.expect_stored(self._before, await self.stored())

    async def stored(self) -> int:
        """Return how many messages the stream has."""
        messages: int = (await self.js.stream_info(self.name)).state.messages
        return messages

    def subject(self, number: int) -> str:
        """Return where a message goes: it has a tag there, and one of four numbers."""
        return f"{self.name}.tag.{number % SUBJECTS}"

    async def wait(self, number: int) -> None:
        """Publish one and wait for its acknowledgement."""
        await self.js.publish(self.subject(number), self.run.bodies.of(number))


async def full(run: Run) -> int:
    """`publish_async`, up to 4,000 not yet acknowledged."""
    async with Stream(run) as stream:
        await stream.warm()
        before = run.acked

        def heard(future: asyncio.Future[Any]) -> None:
            if future.exception() is None:
                run.acked += 1
            else:
                run.fail(future.exception())

        publish, of = stream.js.publish_async, run.bodies.of
        sent = 0
        run.clock.begin()
        for number in run.order.numbers():
            future = await publish(stream.subject(number), of(number), wait_stall=SECONDS_MAX)
            future.add_done_callback(heard)
            sent += 1
        await asyncio.wait_for(stream.js.publish_async_completed(), SECONDS_MAX)
        while run.acked - before < sent and not run.errors:  # noqa: ASYNC110 - of the last ones
            await asyncio.sleep(0)
        run.clock.end()
        await stream.check()
        return sent


async def awaited(run: Run) -> int:
    """`publish` in 64 tasks."""
    async with Stream(run) as stream:
        await stream.warm()
        found = await in_tasks(run, stream.wait)
        await stream.check()
        return found


async def lone(run: Run) -> int:
    """`publish`, one after the other."""
    async with Stream(run) as stream:
        await stream.warm()
        found = await one_by_one(run, stream.wait)
        await stream.check()
        return found


async def trip(run: Run) -> int:
    """`publish`, and a push subscription's `next_msg`."""
    async with Stream(run) as stream:
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        pushed = await stream.js.subscribe(f"{stream.name}.>", stream=stream.name, config=config)

        async def arrives() -> bytes:
            body: bytes = (await pushed.next_msg(timeout=SECONDS_MAX)).data
            return body

        found = await round_trips(run, stream.wait, arrives)
        await stream.check()
        return found


async def batches(run: Run) -> int:
    """A pull consumer: `fetch` of 1,000, and an acknowledgement for all of them."""
    taken = Taken(run)
    async with Stream(run) as stream, asyncio.timeout(SECONDS_MAX):
        pulled = await stream.js.pull_subscribe(
            f"{stream.name}.>",
            durable=run.order.group,
            stream=stream.name,
            config=ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=100_000),
        )
        while not taken.done:
            messages = await pulled.fetch(FETCH_MESSAGES, timeout=5)
            taken.add([message.data for message in messages])
            await messages[-1].ack()
        try:
            if await pulled.fetch(1, timeout=SETTLE_S):
                run.fail("more came than there was")
        except (TimeoutError, nats.errors.TimeoutError):
            pass
        await stream.js.delete_consumer(stream.name, run.order.group)
    return taken.measured()


async def singles(run: Run) -> int:
    """A push consumer: a callback for each message, acknowledged when it returns."""
    taken, done = Taken(run), asyncio.Event()

    async def one(message: Any) -> None:
        taken.add_one(message.data)
        if taken.done:
            done.set()

    async with Stream(run) as stream, asyncio.timeout(SECONDS_MAX):
        pushed = await stream.js.subscribe(f"{stream.name}.>", stream=stream.name, cb=one)
        await done.wait()
        await asyncio.sleep(SETTLE_S)
        await pushed.unsubscribe()
    return taken.measured()


async def ahead(run: Run) -> int:
    """Fetches of 10,000, kept: a subscription's server ends a connection that lags by 64 MiB."""
    before = anonymous_bytes()
    held: list[Any] = []
    async with Stream(run) as stream, asyncio.timeout(SECONDS_MAX):
        pulled = await stream.js.pull_subscribe(
            f"{stream.name}.>",
            durable=run.order.group,
            stream=stream.name,
            config=ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=2 * run.order.count),
        )
        run.clock.begin()
        while (left := run.order.count - len(held)) > 0:
            held += await pulled.fetch(min(left, AHEAD_MESSAGES), timeout=5)
        run.clock.end()
        run.more["bytes_each"] = (anonymous_bytes() - before) / len(held)
        await stream.js.delete_consumer(stream.name, run.order.group)
    return len(held)


async def prepare(run: Run) -> int:
    """Make the stream, unless it is there."""
    async with Stream(run) as stream:
        try:
            await stream.stored()
        except NotFoundError:
            await stream.js.add_stream(
                StreamConfig(
                    name=stream.name, subjects=[f"{stream.name}.>"], storage=StorageType.FILE
                )
            )
    return 0


if __name__ == "__main__":
    serve(
        {
            "prepare": prepare,
            "send": full,
            "send-64": awaited,
            "lone": lone,
            "trip": trip,
            "batches": batches,
            "singles": singles,
            "ahead": ahead,
        }
    )
