"""Processes of clients: they come, leave gracefully, die and return."""

import asyncio
import contextlib
from collections.abc import Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from aerobee.client import ClientSettings, Message, Producer
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks
from simulation.ledger import Ledger, Place
from simulation.process import Process, ProcessDied
from simulation.world import World

if TYPE_CHECKING:
    from simulation.members import Member


class ClientNode:
    """A client that has a name and an address for good, and a process while it runs."""

    def __init__(self, world: World, ledger: Ledger, name: str, ip: str, namesrv: str) -> None:
        self.world = world
        self.ledger = ledger
        self.name = name
        self.ip = ip
        self.namesrv = namesrv
        self.dice = Random(f"{name} {world.seed}")
        self.lives = 0
        self.process: Process | None = None

    @property
    def up(self) -> bool:
        """Whether it runs."""
        return self.process is not None

    def settings(self) -> ClientSettings:
        """Return settings that are shared within this life of this client alone."""
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


class HostNode(ClientNode):
    """A process with members of one or more consumer groups."""

    members: list["Member"]

    async def start(self) -> None:
        """Begin a life: join all the groups."""
        process = self.begin_life()
        for member in self.members:
            await process.call(member.join(), "join")

    async def leave(self) -> None:
        """Leave the groups and end."""
        process = self.end_life()
        if process is not None:
            self.world.trace.note(f"{process} leaves")
            for member in self.members:
                await process.call(member.close(), "leave")
            self.world.kill(process)
            self.ledger.give_up_all(self.name)

    def die(self, silent_s: float) -> None:
        """End without a good-bye; see Network.kill."""
        process = self.end_life()
        if process is not None:
            self.ledger.disturb(self.name, "died", silent_s)
            self.world.kill(process, silent_s=silent_s)
            self.ledger.give_up_all(self.name)


class ProducerNode(ClientNode):
    """Sends numbered messages to its topics, `gap_s` apart, and notes what is acknowledged."""

    topics: tuple[str, ...]
    gap_s: float
    _sent = 0
    _sending = 0
    _stopping = False

    def start(self) -> None:
        """Begin: messages leave from now on."""
        self.begin_life().spawn(self._produce(), "produce")

    async def finish(self, timeout_s: float) -> bool:
        """Send no more; True when every send has its outcome."""
        self._stopping = True
        return await self.world.until(lambda: not self._sending, timeout_s)

    async def _produce(self) -> None:
        producer = Producer(self.name, namesrv=self.namesrv, client=self.settings())
        await producer.start()
        sends = Tasks()
        while not self._stopping:
            await asyncio.sleep(self.dice.expovariate(1 / self.gap_s))
            for _ in range(20 if self.dice.random() < 0.02 else 1):
                sends.start(self._send(producer, self.dice.choice(self.topics)))

    async def _send(self, producer: Producer, topic: str) -> None:
        messages = []
        for _ in range(3 if self.dice.random() < 0.1 else 1):
            self._sent += 1
            messages.append(Message(topic, b"%s-%d" % (self.name.encode(), self._sent)))
        self._sending += 1
        try:
            if len(messages) == 1:
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


async def unless_killed(life: Coroutine[Any, Any, None]) -> None:
    """Await something of a process; its death meanwhile is none of the caller's concern."""
    with contextlib.suppress(ProcessDied):
        await life
