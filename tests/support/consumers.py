"""What tests of consumers share: messages in a fake cluster, and a count of what was handled."""

from collections import Counter
from collections.abc import Awaitable, Callable

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    ConsumeResult,
    Later,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from support.stand_ins.fake_cluster import FakeCluster

QUICK = PushSettings(
    redeliver_delay_ms=20,
    handover_timeout_ms=2000,
    pull=PullSettings(error_delay_ms=20, suspended_delay_ms=10),
)
Handle = Callable[[ReceivedMessage], Awaitable[ConsumeResult | Later | None]]


class Seen:
    """Counts the messages that its handler got, by body."""

    def __init__(self) -> None:
        self.bodies: Counter[bytes] = Counter()
        self.messages: list[ReceivedMessage] = []

    async def handle(self, message: ReceivedMessage) -> None:
        """Handle a message."""
        self.bodies[message.body] += 1
        self.messages.append(message)


def fill(cluster: FakeCluster, topic: str, count: int, tags: str = "") -> None:
    """Store `count` messages over all the queues of a topic, bodies b"0", b"1", ..."""
    properties = f"TAGS\x01{tags}\x02".encode() if tags else b""
    for at in range(count):
        broker = cluster.brokers[at % len(cluster.brokers)]
        queue = at // len(cluster.brokers) % broker.topics[topic]
        broker.store(topic, queue, b"%d" % at, properties)


def consumer(
    cluster: FakeCluster,
    handle: Handle,
    *,
    group: str = "g",
    topic: str = "t",
    tags: str = "*",
    client: ClientSettings | None = None,
) -> PushConsumer:
    """Return a consumer from the first message on."""
    made = PushConsumer(
        group,
        namesrv=cluster.namesrv,
        client=client,
        settings=QUICK,
        consume_from=ConsumeFrom.FIRST,
    )
    made.subscribe(topic, handle, tags=tags)
    return made
