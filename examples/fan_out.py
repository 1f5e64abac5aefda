"""Fan-out: every group gets every message, or the part that it filters by tags, at its own pace.

Run it beside a nameserver and a broker: `python examples/fan_out.py`.
"""

import asyncio
import os

from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
SALES = (("tea", "food"), ("lamp", "home"), ("bread", "food"), ("chair", "home"), ("cake", "food"))
GROUPS = {"warehouse": "*", "accounting": "*", "kitchen": "food", "garden": "plants || home"}

got: dict[str, list[str]] = {group: [] for group in GROUPS}


def subscriber(group: str, tags: str, everything: asyncio.Event) -> PushConsumer:
    """Make a service that wants the sales with one of these tags."""
    expected = sorted(article for article, kind in SALES if tags == "*" or kind in tags)

    async def handle(message: ReceivedMessage) -> None:
        got[group].append(message.body.decode())
        if sorted(got[group]) == expected:
            everything.set()

    consumer = PushConsumer(group, namesrv=NAMESRV, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("sales", handle, tags=tags)
    return consumer


async def serve(group: str, tags: str) -> None:
    """Be a service until it has what it waits for."""
    everything = asyncio.Event()
    async with subscriber(group, tags, everything):
        await everything.wait()
    print(f"  {group:10} ({tags}) got {', '.join(sorted(got[group]))}")


async def main() -> None:
    """Sell five things; four services hear of it, though they start later."""
    async with Producer(namesrv=NAMESRV) as producer:
        for article, kind in SALES:
            await producer.send(Message("sales", article.encode(), tags=kind))
    print(f"{len(SALES)} sales are stored once; each group reads them by itself")
    await asyncio.gather(*(serve(group, tags) for group, tags in GROUPS.items()))


if __name__ == "__main__":
    asyncio.run(main())
