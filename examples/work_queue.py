"""A work queue: each job goes to one of three workers, and one that fails comes again.

Run it beside a nameserver and a broker: `python examples/work_queue.py`.
"""

import asyncio
import os
from collections import Counter

from aerobee.client import ConsumeFrom, Later, Message, Producer, PushConsumer, ReceivedMessage
from aerobee.client import PushSettings as Settings

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
JOBS = 40

done = Counter[str]()
all_done = asyncio.Event()


def worker(name: str) -> PushConsumer:
    """Make a member of the group; in real life each is a process of its own."""

    async def work(message: ReceivedMessage) -> Later | None:
        number = message.json()["job"]
        await asyncio.sleep(0.05)  # what the job takes
        if number == 7 and message.reconsume_times == 0:
            print(f"  {name} failed at job 7: it comes again in a second")
            return Later(delay_level=1)
        print(f"  {name} did job {number}")
        done[name] += 1
        if done.total() == JOBS:
            all_done.set()
        return None

    consumer = PushConsumer(
        "resizers",
        namesrv=NAMESRV,
        consume_from=ConsumeFrom.FIRST,
        settings=Settings(concurrency=1),
    )
    consumer.subscribe("resize", work)
    return consumer


async def main() -> None:
    """Send the jobs, let three workers do them, and count."""
    async with Producer(namesrv=NAMESRV) as producer:
        for number in range(JOBS):
            await producer.send(Message("resize", json={"job": number}))
    print(f"{JOBS} jobs are stored; three workers start")
    async with worker("anna"), worker("ben"), worker("cleo"):
        await all_done.wait()
    print("each job was done once:", ", ".join(f"{who} {n}" for who, n in sorted(done.items())))


if __name__ == "__main__":
    asyncio.run(main())
