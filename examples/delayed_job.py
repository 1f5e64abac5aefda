"""Delayed jobs: each message arrives at its time, to the millisecond, and one is called back.

Run it beside a nameserver and a broker: `python examples/delayed_job.py`; to call back, start the
broker with `--recall-message-enable true`.
"""

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta

from aerobee.client import BrokerRefused, ConsumeFrom, Message, Producer, PushConsumer
from aerobee.client import ReceivedMessage as Received

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

arrived = asyncio.Event()


async def remind(message: Received) -> None:
    """Print how late it is."""
    text, due = message.body.decode(), float(message.properties["due"])
    print(f"  {text}: {(time.time() - due) * 1000:+.0f} ms from its time", flush=True)
    if text == "close the shop":
        arrived.set()


def job(text: str, due: datetime) -> Message:
    """Make a message that knows when it is due."""
    return Message("reminders", text.encode(), properties={"due": str(due.timestamp())})


async def main() -> None:
    """Send in one order, get in the other."""
    consumer = PushConsumer("desk", namesrv=NAMESRV, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("reminders", remind)
    async with Producer(namesrv=NAMESRV) as producer:
        now = datetime.now(UTC)
        two, three = now + timedelta(seconds=2), now + timedelta(seconds=3)
        await producer.send(job("close the shop", three), deliver_at=three)
        await producer.send(job("feed the cat", two), deliver_at=two)
        dunning = await producer.send(job("dun the customer", two), delay=timedelta(seconds=2))
        print("three jobs wait in the broker; the customer pays meanwhile")
        try:
            await producer.recall(dunning)  # by what the send returned, or its text from a database
            print("  the dunning letter was called back")
        except BrokerRefused as refused:
            print("  this broker calls nothing back:", refused)
        async with consumer:
            await arrived.wait()


if __name__ == "__main__":
    asyncio.run(main())
