"""Ordered per key: the events of each order are handled in their order, even where one fails.

Run it beside a nameserver and a broker: `python examples/ordered_per_key.py`.
"""

import asyncio
import os

from aerobee.client import ConsumeFrom, Later, Message, Producer, PushConsumer, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
STEPS = ("placed", "paid", "packed", "shipped")
ORDERS = [f"order-{number}" for number in range(1, 7)]

seen: dict[str, list[str]] = {order: [] for order in ORDERS}
all_seen = asyncio.Event()
card_declined = True


async def handle(message: ReceivedMessage) -> Later | None:
    """Take the next step of an order; orders of other queues go on at the same time."""
    global card_declined
    order, step = message.keys[0], message.body.decode()
    if (order, step) == ("order-3", "paid") and card_declined:
        card_declined = False
        print("  order-3 could not be paid: what is behind it in its queue waits")
        return Later(suspend_ms=200)
    print(f"  {order} {step}")
    seen[order].append(step)
    if sum(map(len, seen.values())) == len(ORDERS) * len(STEPS):
        all_seen.set()
    return None


async def main() -> None:
    """Send the steps of six orders, mixed, and handle them queue by queue."""
    consumer = PushConsumer(
        "fulfilment", namesrv=NAMESRV, consume_from=ConsumeFrom.FIRST, ordered=True
    )
    consumer.subscribe("order-steps", handle)
    async with Producer(namesrv=NAMESRV) as producer:
        for step in STEPS:
            for order in ORDERS:  # equal keys share a queue, and a queue keeps its order
                event = Message("order-steps", step.encode(), keys=order)
                await producer.send(event, key=order)
    async with consumer:
        await all_seen.wait()
    for order, steps in seen.items():
        print(f"{order}: {' > '.join(steps)}")


if __name__ == "__main__":
    asyncio.run(main())
