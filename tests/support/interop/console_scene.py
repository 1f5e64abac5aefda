"""A cluster with something to see on every page of the console."""

import asyncio
import contextlib
import itertools
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    Later,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
)
from aerobee.client.received import ReceivedMessage
from aerobee.testing import EmbeddedCluster

QUICK: Final = ClientSettings(enable_trace=True, rebalance_gap_ms=20, offsets_interval_ms=200)
SETTINGS: Final = {"message_delay_level": " ".join(["1s"] * 18), "trace_topic_enable": True}
ORDERS: Final = 240
FAILING: Final = 3


class Scene:
    """What there is: messages by their numbers, and where the first of them lies."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.namesrv_addr = cluster.namesrv_addr
        self.message = ""
        """The address of the message that one group gave up."""


def order(number: int) -> Message:
    """Return a message as shops send them."""
    state = ("new", "paid", "shipped")[number % 3]
    body = {
        "order": 48_000 + number,
        "state": state,
        "customer": {"id": number % 17, "country": ("DE", "FR", "JP")[number % 3]},
        "total": f"{(number * 37) % 500 + 0.99:.2f}",
        "items": [{"sku": f"A-{number % 9}", "count": 1 + number % 4}],
    }
    return Message(
        "orders",
        json.dumps(body).encode(),
        tags=state,
        keys=f"order-{48_000 + number}",
        properties={"source": "shop-2", "trace": f"t{number:05}"},
    )


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """Two brokers, orders that three groups consume, each in its own way, and rates that move."""
    async with EmbeddedCluster(brokers=2, root=folder, broker_settings=SETTINGS) as cluster:
        found = Scene(cluster)
        for topic, queues in (("orders", 4), ("payments", 4), ("audit-log", 2), ("mails", 2)):
            await cluster.create_topic(topic, queues)
        given_up = asyncio.Event()

        def refuse(message: ReceivedMessage) -> Later | None:
            number = int(message.keys[0].removeprefix("order-")) - 48_000
            if number >= FAILING:
                return None
            if message.reconsume_times >= 1:
                given_up.set()
            return Later(delay_level=1)

        consumers = (
            _consumer(cluster, "billing", lambda message: None),
            _consumer(cluster, "shipping", lambda message: None, tags="paid || shipped"),
            _consumer(cluster, "invoices", refuse),
        )
        late = _consumer(cluster, "reports", lambda message: None)
        async with Producer("shop", namesrv=found.namesrv_addr, client=QUICK) as producer:
            async with late:
                sent = [await producer.send(order(number)) for number in range(20)]
            async with consumers[0], consumers[1], consumers[2]:
                for number in range(20, ORDERS):
                    await producer.send(order(number))
                for number in range(12):
                    await producer.send(Message("mails", b"later", delay_level=1 + number % 18))
                queue = sent[0].queue
                found.message = (
                    f"/messages/orders/{queue.broker_name}/{queue.queue_id}/{sent[0].queue_offset}"
                )
                async with asyncio.timeout(30):
                    await given_up.wait()
                traffic = asyncio.create_task(_traffic(producer))
                try:
                    yield found
                finally:
                    traffic.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await traffic


def _consumer(
    cluster: EmbeddedCluster, group: str, handler: object, tags: str = "*"
) -> PushConsumer:
    consumer = PushConsumer(
        group,
        namesrv=cluster.namesrv_addr,
        client=QUICK,
        consume_from=ConsumeFrom.FIRST,
        settings=PushSettings(max_reconsume_times=1),
    )
    consumer.subscribe("orders", handler, tags=tags)  # type: ignore[call-overload]
    return consumer


async def _traffic(producer: Producer) -> None:
    """Send more and fewer messages, by turns, so that rates have a shape."""
    number = ORDERS
    for turn in itertools.count():
        for _ in range(9 + int(8 * math.sin(turn / 40) * math.cos(turn / 17))):
            await producer.send(order(number))
            number += 1
        await asyncio.sleep(0.2)
