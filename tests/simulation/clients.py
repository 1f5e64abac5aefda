"""Producers and consumers of ours as processes that come, leave, die and return."""

import asyncio
import contextlib
from collections.abc import Coroutine
from random import Random
from typing import Any, Final

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks
from simulation.ledger import Attempt, Ledger, Outcome, Place
from simulation.process import Process, ProcessDied
from simulation.world import HandlerFails, World

QUICK_S: Final = 0.05  # most handlers take at most so long
LONG_S: Final = (1.0, 6.0)
TOO_LONG_S: Final = (11.0, 14.0)  # more than a hand-over waits for


class ClientNode:
    """A client that has a name and an address for good, and a process while it runs."""

    def __init__(self, world: World, ledger: Ledger, name: str, ip: str, namesrv: str) -> None:
        self.world = world
        self.ledger = ledger
        self.name = name
        self.ip = ip
        self.namesrv = namesrv
        self.lives = 0
        self.process: Process | None = None

    @property
    def up(self) -> bool:
        """Whether it runs."""
        return self.process is not None

    def settings(self) -> ClientSettings:
        """Return settings that no other life of any client shares."""
        return ClientSettings(client_ip=self.ip, instance_name=f"{self.lives}")

    def begin_life(self) -> Process:
        """Make a new process."""
        self.lives += 1
        self.process = self.world.process(f"{self.name}.{self.lives}", self.ip)
        self.world.trace.note(f"{self.process} starts")
        return self.process

    def end_life(self) -> Process | None:
        """Have no process any more; the caller ends it."""
        process, self.process = self.process, None
        return process

    def die(self, silent_s: float) -> None:
        """End without a good-bye; see Network.kill."""
        process = self.end_life()
        if process is not None:
            self.ledger.disturb(self.name, "died", silent_s)
            self.world.kill(process, silent_s=silent_s)
            self.ledger.give_up_all(self.name)


class ProducerNode(ClientNode):
    """Sends numbered messages to its topics, and notes what is acknowledged."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        name: str,
        ip: str,
        namesrv: str,
        *,
        topics: tuple[str, ...],
        gap_s: float,
    ) -> None:
        super().__init__(world, ledger, name, ip, namesrv)
        self._topics = topics
        self._gap_s = gap_s
        self._dice = Random(f"{name} {world.seed}")
        self._sent = 0
        self._sending = 0
        self._stopping = False

    async def start(self) -> None:
        """Begin a life: messages leave from now on."""
        self._sending, self._stopping = 0, False
        process = self.begin_life()
        process.spawn(self._produce(), "produce")

    async def finish(self, timeout_s: float) -> bool:
        """Send no more; True when every send has its outcome."""
        self._stopping = True
        return await self.world.until(lambda: not self._sending, timeout_s)

    async def _produce(self) -> None:
        producer = Producer(self.name, namesrv=self.namesrv, client=self.settings())
        await producer.start()
        sends = Tasks()
        while not self._stopping:
            await asyncio.sleep(self._dice.expovariate(1 / self._gap_s))
            for _ in range(20 if self._dice.random() < 0.02 else 1):
                topic = self._dice.choice(self._topics)
                sends.start(self._send(producer, topic))

    async def _send(self, producer: Producer, topic: str) -> None:
        count = 3 if self._dice.random() < 0.1 else 1
        messages = []
        for _ in range(count):
            self._sent += 1
            messages.append(Message(topic, b"%s-%d" % (self.name.encode(), self._sent)))
        self._sending += 1
        try:
            if count == 1:
                result = await producer.send(messages[0])
            else:
                result = await producer.send_many(messages)
        except AerobeeError as error:
            self.world.trace.note(f"{self.name} could not send: {type(error).__name__}")
            return
        finally:
            self._sending -= 1
        queue = result.queue
        place = Place(queue.topic, queue.broker_name, queue.queue_id)
        for at, message in enumerate(messages):
            self.ledger.acknowledge(message.body, place, result.queue_offset + at)


class MemberNode(ClientNode):
    """A member of a consumer group. `failing` and `too_long` are shares of its handlers' calls."""

    def __init__(
        self, world: World, ledger: Ledger, group: str, number: int, ip: str, namesrv: str
    ) -> None:
        super().__init__(world, ledger, f"{group}-{number}", ip, namesrv)
        self.group = group
        self.topics = ledger.groups[group].topics
        self.failing = self.too_long = 0.0
        self.dice = Random(f"{self.name} {world.seed}")

    async def start(self) -> None:
        """Begin a life: join the group."""
        process = self.begin_life()
        await process.call(self.join(), "join")

    async def leave(self) -> None:
        """Leave the group and end."""
        process = self.end_life()
        if process is not None:
            self.world.trace.note(f"{process} leaves")
            await process.call(self.close(), "leave")
            self.world.kill(process)
            self.ledger.give_up_all(self.name)

    def join(self) -> Coroutine[Any, Any, None]:
        """Start the consumer, in its process."""
        raise NotImplementedError

    def close(self) -> Coroutine[Any, Any, None]:
        """Close the consumer, in its process."""
        raise NotImplementedError

    def owned(self) -> list[Place]:
        """Return the queues that it owns."""
        raise NotImplementedError

    def attempt(self, message: ReceivedMessage) -> Attempt:
        """Note that a handler begins with a message."""
        queue = message.queue
        place = Place(queue.topic, queue.broker_name, queue.queue_id)
        return self.ledger.begin(
            self.group, self.name, place, message.queue_offset, bytes(message.body)
        )

    def work_s(self) -> float:
        """Draw how long a handler takes."""
        dice = self.dice.random()
        if dice < self.too_long:
            self.ledger.disturb(self.name, "a handler takes too long", TOO_LONG_S[1])
            return self.dice.uniform(*TOO_LONG_S)
        if dice > 0.995:
            return self.dice.uniform(*LONG_S)
        return self.dice.uniform(0, QUICK_S)


class PushNode(MemberNode):
    """A push consumer."""

    consumer: PushConsumer

    async def join(self) -> None:
        """Subscribe and start."""
        self.consumer = PushConsumer(
            self.group,
            namesrv=self.namesrv,
            client=self.settings(),
            consume_from=ConsumeFrom.FIRST,
        )
        for topic in self.topics:
            self.consumer.subscribe(topic, self.handle)
        await self.consumer.start()

    async def close(self) -> None:
        """Close."""
        await self.consumer.close()

    def owned(self) -> list[Place]:
        """Return the queues that it owns."""
        return [
            Place(queue.topic, queue.broker_name, queue.queue_id)
            for queue in self.consumer.queues()
            if queue.topic in self.topics
        ]

    async def handle(self, message: ReceivedMessage) -> None:
        """Handle a message: take some time, fail now and then."""
        attempt = self.attempt(message)
        try:
            await asyncio.sleep(self.work_s())
        except asyncio.CancelledError:
            self.ledger.disturb(self.name, "a handler was cancelled")
            self.ledger.end(attempt, Outcome.GIVEN_UP)
            raise
        if self.dice.random() < self.failing:
            self.ledger.end(attempt, Outcome.FAILED)
            raise HandlerFails
        self.ledger.end(attempt, Outcome.DONE)


class LiteNode(MemberNode):
    """A lite pull consumer and the program that polls it."""

    consumer: LitePullConsumer
    _polling: "asyncio.Task[None]"

    async def join(self) -> None:
        """Subscribe, start, poll."""
        self._leaving = False
        self.consumer = LitePullConsumer(
            self.group,
            namesrv=self.namesrv,
            client=self.settings(),
            consume_from=ConsumeFrom.FIRST,
        )
        for topic in self.topics:
            self.consumer.subscribe(topic)
        await self.consumer.start()
        self._polling = asyncio.ensure_future(self._poll())

    async def close(self) -> None:
        """Finish the batch at hand, then close."""
        self._leaving = True
        await self._polling
        await self.consumer.close()

    def owned(self) -> list[Place]:
        """Return the queues that it owns."""
        return [
            Place(queue.topic, queue.broker_name, queue.queue_id)
            for queue in self.consumer.assignment()
            if queue.topic in self.topics
        ]

    async def _poll(self) -> None:
        while not self._leaving:
            batch = [self.attempt(message) for message in await self.consumer.poll(1000)]
            await asyncio.sleep(sum(self.work_s() for _ in batch) / 2)
            for attempt in batch:
                self.ledger.end(attempt, Outcome.DONE)


async def unless_killed(life: Coroutine[Any, Any, None]) -> None:
    """Await something of a process; its death meanwhile is none of the caller's concern."""
    with contextlib.suppress(ProcessDied):
        await life
