"""The course of the demonstration: two consumers share, a third joins, the first leaves."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aerobee.cli.demo.features import FeatureStory
from aerobee.cli.demo.screen import Screen, Stopwatch
from aerobee.cli.demo.tally import ConsumerRow, Snapshot, Tally
from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.remoting.errors import AerobeeError, Unavailable
from aerobee.testing.cluster import EmbeddedCluster

TOPICS: Final = ("DemoOrders", "DemoPayments")
QUEUES: Final = 4  # of each topic
GROUP: Final = "demo-group"
TAGS: Final = ("new", "paid", "shipped")
BODY_BYTES: Final = 200
SENDERS: Final = 128  # sends under way at a time
OFFSETS_INTERVAL_MS: Final = 200  # what is not committed when a queue moves may come again
SHOW_INTERVAL_S: Final = 0.1
SHARE_TIMEOUT_S: Final = 15.0
SILENCE_TIMEOUT_S: Final = 10.0  # nothing new for so long at the end: what is missing is lost


class Story:
    """Runs the cluster, the producer and the consumers on the running loop."""

    def __init__(self, messages: int, root: Path, screen: Screen) -> None:
        self.tally = Tally(messages)
        self.send_seconds = 0.0
        self.seconds = 0.0
        self.facts: list[tuple[str, str]] = []  # of features, what and how it went
        self._screen = screen
        self._cluster = EmbeddedCluster(root=root)
        self._consumers: dict[str, PushConsumer] = {}
        self._left: set[str] = set()
        self._event = "starting a nameserver and a broker"
        self._over = False  # what follows is only good-bye, and the last view stays
        self._watch = Stopwatch()
        self._work = self._watch  # from the first message on

    @property
    def store(self) -> Path:
        """The folder of the broker's store."""
        return self._cluster.store_path()

    async def run(self) -> None:
        """Play it from start to end; the servers are stopped when this returns."""
        showing = asyncio.create_task(self._show())
        try:
            async with self._cluster as cluster:
                for topic in TOPICS:
                    await cluster.create_topic(topic, QUEUES)
                await self._play(cluster.namesrv_addr)
                features = FeatureStory(cluster, self._tell)
                await features.run()
                self.facts = features.facts
                self._over = True
        finally:
            showing.cancel()

    async def _play(self, namesrv: str) -> None:
        sending: asyncio.Task[None] | None = None
        try:
            await self._join("consumer-1", namesrv)
            await self._join("consumer-2", namesrv)
            self._tell("two consumers share the queues")
            await self._until(lambda: self._shared(2), "the queues are not shared")
            self._work = Stopwatch()
            sending = asyncio.create_task(self._send(namesrv))
            third = self.tally.total // 3
            await self._until(lambda: self.tally.consumed >= third or sending.done(), "no messages")
            self._tell("consumer-3 joins")
            await self._join("consumer-3", namesrv)
            await self._until(
                lambda: self.tally.consumed >= 2 * third or sending.done(), "no messages"
            )
            self._tell("consumer-1 leaves")
            await self._leave("consumer-1")
            await sending
            await self._drain()
            self._tell("everything sent has been consumed")
        finally:
            if sending is not None:
                sending.cancel()
            for name in sorted(set(self._consumers) - self._left):
                await self._leave(name)

    def _tell(self, event: str) -> None:
        """Show what happens when it happens: the next look may come after the next event."""
        self._event = event
        self._screen.show(self.snapshot())

    async def _join(self, name: str, namesrv: str) -> None:
        """Let a new member consume."""

        async def handle(message: ReceivedMessage) -> None:
            self.tally.deliver(name, int(message.body[:8]))

        consumer = PushConsumer(
            GROUP,
            namesrv=namesrv,
            settings=PushSettings(concurrency=64),
            client=ClientSettings(offsets_interval_ms=OFFSETS_INTERVAL_MS),
            consume_from=ConsumeFrom.FIRST,
        )
        for topic in TOPICS:
            consumer.subscribe(topic, handle)
        self._consumers[name] = consumer
        await consumer.start()

    async def _leave(self, name: str) -> None:
        """Take a member away; its handlers end and its offsets are kept."""
        self._left.add(name)
        await self._consumers[name].close()

    async def _send(self, namesrv: str) -> None:
        """Send every message once, many at a time, and note what the broker acknowledged."""
        numbers = itertools.count()
        filler = b"." * (BODY_BYTES - 8)
        async with Producer("demo-producer", namesrv=namesrv) as producer:

            async def send_some() -> None:
                while (number := next(numbers)) < self.tally.total:
                    await producer.send(
                        Message(
                            TOPICS[number % len(TOPICS)],
                            b"%08d%s" % (number, filler),
                            tags=TAGS[number % len(TAGS)],
                            keys=f"order-{number}",
                        )
                    )
                    self.tally.acknowledge()

            watch = Stopwatch()
            try:
                async with asyncio.TaskGroup() as senders:
                    for _ in range(SENDERS):
                        senders.create_task(send_some())
            except* AerobeeError as failed:
                raise failed.exceptions[0] from None  # one reason is enough
            self.send_seconds = watch.elapsed_s

    async def _drain(self) -> None:
        """Wait for the last message, or for a silence that says it will not come."""
        last, silent = self.tally.consumed, Stopwatch()
        while self.tally.consumed < self.tally.sent and silent.elapsed_s < SILENCE_TIMEOUT_S:
            await asyncio.sleep(SHOW_INTERVAL_S)
            if self.tally.consumed != last:
                last, silent = self.tally.consumed, Stopwatch()
        self.seconds = self._work.elapsed_s - silent.elapsed_s

    async def _until(self, reached: Callable[[], bool], complaint: str) -> None:
        """Wait for a condition; raise Unavailable with the complaint if it does not come."""
        watch = Stopwatch()
        while not reached():
            if watch.elapsed_s > SHARE_TIMEOUT_S:
                raise Unavailable(f"{complaint} after {SHARE_TIMEOUT_S:g} s")
            await asyncio.sleep(0.02)

    def _shared(self, members: int) -> bool:
        """Whether every queue has an owner and every member has some."""
        shares = [len(consumer.queues()) for consumer in self._consumers.values()]
        return sum(shares) == QUEUES * len(TOPICS) and sum(map(bool, shares)) == members

    async def _show(self) -> None:
        """Keep the screen up to date."""
        while not self._over:
            self._screen.show(self.snapshot())
            await asyncio.sleep(SHOW_INTERVAL_S)

    def snapshot(self) -> Snapshot:
        """Look at everything at once."""
        tally = self.tally
        rows = []
        for name, consumer in self._consumers.items():
            queues: dict[str, tuple[int, ...]] = {}
            for queue in consumer.queues() if name not in self._left else ():
                queues[queue.topic] = (*queues.get(queue.topic, ()), queue.queue_id)
            rows.append(ConsumerRow(name, queues, tally.took[name], name not in self._left))
        return Snapshot(
            self._watch.elapsed_s, tally.total, tally.sent, tally.consumed, self._event, tuple(rows)
        )
