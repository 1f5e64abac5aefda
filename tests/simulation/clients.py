"""Processes of clients: they come, leave gracefully, die and return."""

import asyncio
import contextlib
from collections.abc import Coroutine
from random import Random
from typing import TYPE_CHECKING, Any, Final

from aerobee.client import ClientSettings, Message, Producer
from aerobee.client.sending.outgoing import Outgoing
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import SCHEDULE_TOPIC
from simulation.judge.attempts import Place
from simulation.judge.causes import Cause
from simulation.judge.ledger import Ledger
from simulation.stage.process import Process, ProcessDied
from simulation.stage.world import World

if TYPE_CHECKING:
    from simulation.members import Member
    from simulation.producing.times import TimedSends

POISON: Final = b"poison"
DELAY_LEVELS: Final = (1, 1, 2, 3, 4)  # 1, 5, 10 and 30 s


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
    """A process with members of one or more consumer groups, which share a client instance.

    With `cancels` starts and closes of members are given up in the middle now and then; with
    `companion` there is a producer, too, so that the instance outlives its members.
    """

    members: list["Member"]
    cancels = False
    companion = False
    _producer: Producer
    _turn: asyncio.Lock

    async def start(self) -> None:
        """Begin a life: join all the groups."""
        process = self.begin_life()
        self._turn = asyncio.Lock()
        async with self._turn:
            if self.companion:
                self._producer = Producer(
                    f"{self.name}-companion", namesrv=self.namesrv, client=self.settings()
                )
                await process.call(self._producer.start(), "companion")
            for member in self.members:
                await process.call(self._join(member), "join")

    async def leave(self) -> None:
        """Leave the groups and end."""
        process = self.end_life()
        if process is not None:
            async with self._turn:
                self.world.trace.note(f"{process} leaves")
                for member in self.members:
                    if member.joined:
                        await process.call(member.close(), "leave")
                        member.joined = False
                if self.companion:
                    await process.call(self._producer.close(), "companion leaves")
            self.world.kill(process)
            self.ledger.give_up_all(self.name)

    async def bounce(self, member: "Member", away_s: float | None) -> None:
        """Let a member leave alone, perhaps in the middle of it, and come back (None: never)."""
        process, turn = self.process, self._turn
        async with turn:
            if process is None or self.process is not process or not member.joined:
                return
            self.world.trace.note(f"{process}: {'+'.join(member.groups)} leaves alone")
            member.joined = False
            if self.dice.random() < 0.7:
                await process.call(member.share_anew(), "share anew")  # the close comes into it
            closed = await process.call(self._cut_short(member.close()), "leave alone")
            if not closed:
                member.disturbed(Cause.CLOSE_CANCELLED)
        if away_s is None:
            return
        await asyncio.sleep(away_s)
        async with turn:
            if self.process is process:
                await process.call(self._join(member), "come back")

    async def come_back(self, member: "Member") -> None:
        """Let a member that left alone consume again."""
        assert self.process is not None
        async with self._turn:
            if not member.joined:
                await self.process.call(self._join(member), "come back")

    async def hurry(self, message: Message, timeout_ms: int) -> None:
        """Let the companion send with hardly any time for it."""
        process = self.process
        if process is not None:
            await process.call(self._hurry(message, timeout_ms), "hurry")

    async def _hurry(self, message: Message, timeout_ms: int) -> None:
        try:
            result = await self._producer.send(message, timeout_ms=timeout_ms)
        except AerobeeError as error:
            self.world.trace.note(f"{self.name} was too hasty: {type(error).__name__}")
            return
        queue = result.queue
        place = Place(queue.topic, queue.broker_name, queue.queue_id)
        self.ledger.acknowledge(message.body, place, result.queue_offset)

    def member_ids(self, group: str) -> list[str]:
        """Return the client id of each of its members in a group."""
        joined = [each for each in self.members if each.joined and group in each.groups]
        return [each.consumer.client_id for each in joined]

    async def _join(self, member: "Member") -> None:
        while self.cancels and self.dice.random() < 0.4:
            if await self._cut_short(member.join()):
                member.joined = True
                return
            self.world.trace.note(f"{self.name}: a start was cancelled")
            member.disturbed(Cause.START_CANCELLED)
        await member.join()
        member.joined = True

    async def _cut_short(self, work: Coroutine[Any, Any, None]) -> bool:
        """Give work up after some turns of the loop, or some time; True if it had ended."""
        task = asyncio.ensure_future(work)
        if self.dice.random() < 0.5:
            for _ in range(self.dice.randrange(1, 12)):
                await asyncio.sleep(0)
        else:
            await asyncio.wait([task], timeout=self.dice.choice((0.0005, 0.002, 0.02, 3.0)))
        task.cancel()
        await asyncio.wait([task])
        if task.cancelled():
            return False
        task.result()
        return True

    def die(self, silent_s: float) -> None:
        """End without a good-bye; see Network.kill."""
        process = self.end_life()
        if process is not None:
            self.ledger.disturb(self.name, Cause.MEMBER_DIED, silent_s)
            self.world.kill(process, silent_s=silent_s)
            self.ledger.give_up_all(self.name)
            for member in self.members:
                member.joined = False


class ProducerNode(ClientNode):
    """Sends numbered messages to its topics, `gap_s` apart, and notes what is acknowledged.

    The share `poison` of them says of its body that it is compressed, which it is not; the share
    `delays` is to be delivered later, and `times` at a time.
    """

    poison = delays = times = 0.0
    timed: "TimedSends"
    topics: tuple[str, ...]
    gap_s: float
    _sent = 0
    _sending = 0
    _stopping = False

    def start(self) -> None:
        """Begin: messages leave from now on."""
        self._delay_dice = Random(f"delays of {self.name} {self.world.seed}")
        self.begin_life().spawn(self._produce(), "produce")

    async def finish(self, timeout_s: float) -> bool:
        """Send no more; True when every send has its outcome."""
        self._stopping = True
        return await self.world.until(lambda: not self._sending, timeout_s)

    async def _produce(self) -> None:
        producer = Producer(self.name, namesrv=self.namesrv, client=self.settings())
        await producer.start()
        sends = Tasks()
        poisoner = Producer(f"{self.name}-poison", namesrv=self.namesrv, client=self.settings())
        if self.poison:
            await poisoner.start()
            poison(poisoner)
        while not self._stopping:
            await asyncio.sleep(self.dice.expovariate(1 / self.gap_s))
            if self.poison and self.dice.random() < self.poison:
                sends.start(self._send_poison(poisoner, self.dice.choice(self.topics)))
            if self._delay_dice.random() < self.delays:
                sends.start(self._send_delayed(producer, self._delay_dice.choice(self.topics)))
            if self.times and self.timed.dice.random() < self.times:
                sends.start(self._send_timed(producer))
            for _ in range(20 if self.dice.random() < 0.02 else 1):
                sends.start(self._send(producer, self.dice.choice(self.topics)))

    async def _send_poison(self, producer: Producer, topic: str) -> None:
        """Send a message that nobody can read; whether it is stored does not matter."""
        self._sent += 1
        with contextlib.suppress(AerobeeError):
            await producer.send(Message(topic, b"%s-%d" % (POISON, self._sent)))

    async def _send_delayed(self, producer: Producer, topic: str) -> None:
        """Send a message that waits first; its offset is that of the level's queue."""
        self._sent += 1
        body = b"%s-late-%d" % (self.name.encode(), self._sent)
        level = self._delay_dice.choice(DELAY_LEVELS)
        self._sending += 1
        try:
            result = await producer.send(Message(topic, body, delay_level=level))
        except AerobeeError as error:
            self.world.trace.note(f"{self.name} could not delay: {type(error).__name__}")
            return
        finally:
            self._sending -= 1
        place = Place(SCHEDULE_TOPIC, result.queue.broker_name, level - 1)
        self.ledger.wait(body, topic, place, result.queue_offset)

    async def _send_timed(self, producer: Producer) -> None:
        """Send a message that waits for its time, and perhaps take it back."""
        self._sending += 1
        try:
            await self.timed.send(producer, self.timed.dice.choice(self.topics))
        finally:
            self._sending -= 1

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


def poison(producer: Producer) -> None:
    """Let all messages of a producer have flags that do not fit their bodies."""
    packer = producer._packer
    pack = packer.pack

    def poisoned(
        message: Message, message_id: str | None = None, *, half: bool = False
    ) -> Outgoing:
        outgoing = pack(message, message_id, half=half)
        outgoing.sys_flag, outgoing.is_plain = SysFlag.COMPRESSED, False
        return outgoing

    packer.pack = poisoned  # type: ignore[method-assign]
    producer._sends = None  # which would pack by itself


async def unless_killed(life: Coroutine[Any, Any, None]) -> None:
    """Await something of a process; its death meanwhile is none of the caller's concern."""
    with contextlib.suppress(ProcessDied):
        await life
