"""redis-py's asyncio client with hiredis on a stream, whose entries have tag, key and body."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis

from benchmarks.clients.programs.meter import (
    Run,
    Taken,
    address,
    anonymous_bytes,
    in_tasks,
    one_by_one,
    round_trips,
    serve,
)

PIPELINE_MESSAGES: Final = 500
PIPELINES: Final = 2
READ_MESSAGES: Final = 1_000
SECONDS_MAX: Final = 60.0


def _client() -> Any:
    host, port = address().split(":")
    return Redis(host=host, port=int(port))


def _fields(run: Run, number: int) -> dict[str, Any]:
    return {"tag": "tag", "key": f"key-{number}", "body": run.bodies.of(number)}


@asynccontextmanager
async def _sending(run: Run) -> AsyncIterator[Any]:
    """A stream that begins empty, since it lies in memory, and is counted at the end."""
    async with _client() as client:
        if not run.order.count:
            await client.unlink(run.order.topic)
        for number in run.order.warm_numbers():
            await client.xadd(run.order.topic, _fields(run, number))
            run.acked += 1
        yield client
        run.expect_stored(0, await client.xlen(run.order.topic))
        if not run.order.count:
            await client.unlink(run.order.topic)


async def full(run: Run) -> int:
    """Two pipelines of 500 XADD in turns."""
    async with _sending(run) as client:
        before, numbers = run.acked, run.order.numbers()

        async def some() -> None:
            more = True
            while more:
                pipe = client.pipeline(transaction=False)
                for _ in range(PIPELINE_MESSAGES):
                    number = next(numbers, None)
                    if number is None:
                        more = False
                        break
                    pipe.xadd(run.order.topic, _fields(run, number))
                if len(pipe):
                    stored = await pipe.execute()
                    run.acked += len(stored)

        run.clock.begin()
        await asyncio.gather(*(some() for _ in range(PIPELINES)))
        run.clock.end()
        return run.acked - before


async def awaited(run: Run) -> int:
    """XADD in 64 tasks, which share the client and have 64 connections."""
    async with _sending(run) as client:
        topic = run.order.topic
        return await in_tasks(run, lambda number: client.xadd(topic, _fields(run, number)))


async def lone(run: Run) -> int:
    """XADD, one after the other."""
    async with _sending(run) as client:
        topic = run.order.topic
        return await one_by_one(run, lambda number: client.xadd(topic, _fields(run, number)))


async def trip(run: Run) -> int:
    """XADD, and XREAD BLOCK by another connection."""
    topic, last = run.order.topic, b"0"
    async with _client() as sending, _client() as reading:

        async def arrives() -> bytes:
            nonlocal last
            ((_, entries),) = await reading.xread({topic: last}, 1, block=10_000)
            last, fields = entries[0]
            body: bytes = fields[b"body"]
            return body

        found = await round_trips(
            run, lambda number: sending.xadd(topic, _fields(run, number)), arrives
        )
        run.expect_stored(0, await sending.xlen(topic))
        await sending.unlink(topic)
        return found


async def batches(run: Run) -> int:
    """XREADGROUP of 1,000, and an XACK of all of them."""
    taken, topic, group = Taken(run), run.order.topic, run.order.group
    async with _client() as client, asyncio.timeout(SECONDS_MAX):
        await client.xgroup_create(topic, group, id="0")
        while not taken.done:
            ((_, entries),) = await client.xreadgroup(group, "one", {topic: ">"}, READ_MESSAGES)
            taken.add([fields[b"body"] for _, fields in entries])
            await client.xack(topic, group, *(each for each, _ in entries))
        if await client.xreadgroup(group, "one", {topic: ">"}, 1):
            run.fail("more came than there was")
        await client.xgroup_destroy(topic, group)
    return taken.measured()


async def ahead(run: Run) -> int:
    """It fetches nothing ahead: what one XREAD of so many returns."""
    async with _client() as client, asyncio.timeout(SECONDS_MAX):
        await client.ping()
        before = anonymous_bytes()
        run.clock.begin()
        ((_, entries),) = await client.xread({run.order.topic: "0"}, run.order.count)
        run.clock.end()
        run.more["bytes_each"] = (anonymous_bytes() - before) / len(entries)
        return len(entries)


async def prepare(run: Run) -> int:
    """Nothing: a stream is made by its first entry."""
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
            "ahead": ahead,
        }
    )
