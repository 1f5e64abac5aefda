"""Replay: a topic is read once more, from its begin or from a time on, and nobody else notices.

Run it beside a nameserver and a broker: `python examples/replay.py`.
"""

import asyncio
import os
import time

from aerobee.client import ConsumeFrom, LitePullConsumer, Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def measure(producer: Producer, degrees: range) -> int:
    """Store some values; return when, in milliseconds since 1970, that began."""
    await asyncio.sleep(0.01)  # what came before has an earlier time
    began_ms = time.time_ns() // 1_000_000
    for value in degrees:
        await producer.send(Message("temperatures", b"%d" % value))
    return began_ms


async def read(consumer: LitePullConsumer) -> list[int]:
    """Return all values that are there from where the consumer stands."""
    values: list[int] = []
    while batch := await consumer.poll(timeout_ms=1_000):
        values += [int(message.body) for message in batch]
    return sorted(values)


async def main() -> None:
    """Store ten values, read them, and read them again."""
    async with Producer(namesrv=NAMESRV) as producer:
        before_ms = await measure(producer, range(10, 15))
        since_ms = await measure(producer, range(15, 20))
        queues = await producer.fetch_queues("temperatures")
    consumer = LitePullConsumer("charts", namesrv=NAMESRV, consume_from=ConsumeFrom.FIRST)
    async with consumer:
        await consumer.assign(queues)  # these, whoever else reads them; no group shares them
        for what, from_ms in (
            ("of this run", before_ms),
            ("of this run, again", before_ms),
            ("of its second half", since_ms),
        ):
            for queue in queues:
                await consumer.seek(queue, await consumer.offset_for_timestamp(queue, from_ms))
            print(f"{what}: {await read(consumer)}")
        for queue in queues:
            await consumer.seek_to_begin(queue)
        print(f"of all runs: {len(await read(consumer))} values")


if __name__ == "__main__":
    asyncio.run(main())
