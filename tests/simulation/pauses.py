"""What a hand-over costs groups of Java clients: how long queues rest, and what comes twice.

On the simulation's time, so that it says the same on a busy machine. Members come and leave while
messages are sent, as in `benchmarks/handovers/`. A queue rests from the last message that its old
owner began to the first one of the new owner; not before that was stored, nor as long as a member
that leaves waits for its own handlers. By hand, for limits in ms:

    PYTHONPATH=tests python -m simulation.pauses 0 500 1500 10000
"""

import asyncio
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import cycle, product
from pathlib import Path
from random import Random
from typing import Final

from aerobee.admin.client import AdminClient
from aerobee.client import Message, Producer
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.bodies import ConsumerRunningInfo, ProcessQueueInfo, encode_body
from aerobee.remoting.bodies import QueueBody as BodyQueue
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.tasks import Tasks
from simulation.clients import ClientNode, HostNode
from simulation.java_member import JavaMember, OwnedQueue
from simulation.judge.ledger import Group, Ledger
from simulation.servers import BrokerNode, NamesrvNode, start_all
from simulation.stage.world import World

GROUP: Final = "g"
TOPIC: Final = "t"
QUEUES: Final = 16
MEMBERS: Final = 4
GAP_S: Final = 5.0
STEPS: Final = (  # who joins, or leaves; two are there before
    (2, True), (3, True), (0, False), (1, False), (0, True), (2, False), (1, True), (3, False),
)  # fmt: skip
THREADS: Final = 100  # of one consumer: enough for what comes, when two are there
FETCHED_MAX: Final = 1000  # pullThresholdForQueue
SHARING_GAP_S: Final = 1.0  # between two sharings (RebalanceService.minInterval)
LEAVES_AFTER_S: Final = 10.0  # awaitTerminationMillisWhenShutdown
CONSUMED_WITHIN_S: Final = 200.0


@dataclass(frozen=True, slots=True)
class Handlers:
    """How long handlers take, in seconds, and how many messages come in a second."""

    name: str
    quick_s: float
    slow_s: float = 0.0
    slow_share: float = 0.0
    rate: float = 100.0

    def draw(self, dice: Random) -> float:
        """Draw the time of one."""
        if dice.random() < self.slow_share:
            return dice.uniform(0, self.slow_s)
        return dice.uniform(0, self.quick_s)


QUICK: Final = Handlers("up to 50 ms", 0.05)
SECOND: Final = Handlers("up to 1 s", 1.0, rate=80.0)
SLOW: Final = Handlers("up to 50 ms, one of 20 up to 5 s", 0.05, 5.0, 0.05)
ALL_SLOW: Final = Handlers("up to 5 s", 5.0, rate=30.0)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is sent while nobody is there, in seconds; when the second member joins the first."""

    sent_s: float
    join_after_s: float


def share(pauses: list[float], of: float) -> float:
    """Return the pause that a share of some, shortest first, do not exceed (ms)."""
    return pauses[int(len(pauses) * of)]


@dataclass(frozen=True, slots=True)
class Cost:
    """What hand-overs cost; pauses are in ms, sorted, one for each time that a queue moved."""

    delivered: int
    twice: int
    lost: int
    pauses: list[float]

    def pause_ms(self, share_of: float) -> float:
        """The pause that a share of the moves do not exceed."""
        return share(self.pauses, share_of)


@dataclass(slots=True)
class Notes:
    """Who began with which message when, and when each was stored; times in ms."""

    began: list[tuple[float, str, int, int, int]] = field(default_factory=list)
    stored_ms: dict[int, float] = field(default_factory=dict)
    numbers: set[int] = field(default_factory=set)
    left_ms: dict[str, float] = field(default_factory=dict)  # members whose last handler has ended

    def begin(self, member: str, message: ReceivedMessage) -> None:
        """A handler begins with a message."""
        at_ms = asyncio.get_running_loop().time() * 1000
        number = int(message.body)
        self.numbers.add(number)
        queue = message.queue.queue_id
        self.began.append((at_ms, member, queue, message.queue_offset, number))

    def cost(self) -> Cost:
        """Count."""
        seen: set[tuple[int, int]] = set()
        last: dict[int, tuple[float, str]] = {}
        pauses = []
        for at_ms, member, queue, offset, number in self.began:
            if (queue, offset) in seen:
                continue
            seen.add((queue, offset))
            before_ms, before = last.get(queue, (at_ms, member))
            if before != member:
                stored_ms = self.stored_ms.setdefault(
                    number, at_ms
                )  # a moment before its sender knows
                since_ms = max(before_ms, stored_ms, self.left_ms.get(before, 0))
                pauses.append(max(0.0, at_ms - since_ms))
            last[queue] = at_ms, member
        lost = len(self.stored_ms.keys() - self.numbers)
        return Cost(len(self.began), len(self.began) - len(seen), lost, sorted(pauses))


class ThreadedMember(JavaMember):
    """A Java consumer with threads of its own, which its queues share, and a backlog for them."""

    def __init__(self, host: HostNode, notes: Notes, handlers: Handlers) -> None:
        super().__init__(host, GROUP)
        self._notes = notes
        self._handlers = handlers
        self._running = 0
        self._under_way: dict[OwnedQueue, set[int]] = {}

    async def join(self) -> None:
        """Join with idle threads."""
        self._threads = asyncio.Semaphore(THREADS)
        self._shared_s = 0.0
        self._leaving = False
        self._under_way.clear()
        await super().join()

    @property
    def _life(self) -> str:
        return f"{self.host.name}.{self.host.lives}"

    async def close(self) -> None:
        """Let handlers end, then leave (DefaultMQPushConsumerImpl.shutdown)."""
        loop = asyncio.get_running_loop()
        self._leaving = True
        ends_s = loop.time() + LEAVES_AFTER_S
        while self._running and loop.time() < ends_s:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self._notes.left_ms[self._life] = loop.time() * 1000
        await super().close()

    def _asked(self, connection: Connection, command: Command) -> None:
        """Say how many messages are held, and for how many threads (consumerRunningInfo)."""
        if command.code != RequestCode.GET_CONSUMER_RUNNING_INFO:
            super()._asked(connection, command)
            return
        held = {
            BodyQueue(
                topic=owned.queue.topic,
                broker_name=owned.queue.broker_name,
                queue_id=owned.queue.queue_id,
            ): ProcessQueueInfo(cached_msg_count=len(self._under_way.get(owned, ())))
            for owned in self._queues.values()
        }
        info = ConsumerRunningInfo(
            properties={
                "PROP_CONSUMEORDERLY": "false",
                "PROP_THREADPOOL_CORE_SIZE": str(THREADS),
            },
            mq_table=held,
        )
        connection.send(command.reply(ResponseCode.SUCCESS, body=encode_body(info, strict=False)))

    async def _share(self, group: str, topic: str) -> None:
        loop = asyncio.get_running_loop()
        if topic == TOPIC:
            await asyncio.sleep(max(0.0, self._shared_s + SHARING_GAP_S - loop.time()))
            self._shared_s = loop.time()
        await super()._share(group, topic)

    async def _handle(self, owned: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        under_way = self._under_way.setdefault(owned, set())
        for message in messages:
            under_way.add(message.queue_offset)
            if not self._leaving:
                self._tasks.start(self._work(owned, message))
        while len(under_way) > FETCHED_MAX and not owned.dropped:  # noqa: ASYNC110 - as Java does
            await asyncio.sleep(0.05)

    async def _work(self, owned: OwnedQueue, message: ReceivedMessage) -> None:
        self._running += 1
        try:
            async with self._threads:
                if owned.dropped:
                    return
                self._notes.begin(self._life, message)
                await asyncio.sleep(self._handlers.draw(self.dice))
        finally:
            self._running -= 1
        under_way = self._under_way[owned]
        under_way.discard(message.queue_offset)
        owned.done_before = min(under_way, default=max(owned.next_offset, owned.done_before))


def measure(
    handlers: Handlers, limit_ms: int, folder: Path, *, seed: int = 1, changes: int = 20
) -> Cost:
    """Let members come and leave, one every GAP_S seconds; return what became of the messages."""
    world = World(seed, folder)
    return world.run(_measure(world, handlers, limit_ms, changes))


def measure_backlog(
    handlers: Handlers, limit_ms: int, folder: Path, *, backlog_s: float, join_after_s: float
) -> Cost:
    """Let a group come back to what was sent in so many seconds, a second member join soon after,
    and others come and leave when messages are sent again."""
    world = World(1, folder)
    before = Backlog(backlog_s, join_after_s)
    return world.run(_measure(world, handlers, limit_ms, len(STEPS), before))


async def _measure(
    world: World,
    handlers: Handlers,
    limit_ms: int,
    changes: int,
    backlog: Backlog | None = None,
) -> Cost:
    notes, ledger = Notes(), Ledger(world.loop.time, world.trace)
    ledger.groups[GROUP] = Group(GROUP, (TOPIC,), foreign=True)
    namesrv = NamesrvNode(world, "namesrv", "10.0.0.1")
    broker = BrokerNode(world, ledger, "broker-a", "10.0.1.1", namesrv.address, "ASYNC_FLUSH")
    broker.set(handover_drain_millis=limit_ms)
    await start_all([namesrv, broker])
    sender = SenderNode(world, ledger, "sender", "10.0.3.1", namesrv.address)
    sender.notes = notes
    await sender.begin_life().call(sender.create_topic(), "create topic")
    hosts = []
    for at in range(MEMBERS):
        host = HostNode(world, ledger, f"member-{at}", f"10.0.2.{at + 1}", namesrv.address)
        host.members = [ThreadedMember(host, notes, handlers)]
        hosts.append(host)
    if backlog is not None:
        await _leave_backlog(sender, hosts[0], handlers.rate, backlog)
    for host in hosts[:2]:
        await host.start()
        if backlog is not None:
            await asyncio.sleep(backlog.join_after_s)
    if backlog is not None:
        await asyncio.sleep(GAP_S)
    sender.start(handlers.rate)
    await asyncio.sleep(GAP_S)
    for (at, joins), _ in zip(cycle(STEPS), range(changes), strict=False):
        await (hosts[at].start() if joins else hosts[at].leave())
        await asyncio.sleep(GAP_S)
    await sender.finish()
    await world.until(lambda: notes.numbers >= notes.stored_ms.keys(), CONSUMED_WITHIN_S)
    for host in hosts:
        if host.up:
            await host.leave()
    await broker.stop()
    await namesrv.stop()
    return notes.cost()


async def _leave_backlog(sender: "SenderNode", host: HostNode, rate: float, it: Backlog) -> None:
    """Let a group begin and leave; what is sent then lies for a minute."""
    await host.start()
    sender.start(rate)
    await asyncio.sleep(2 * GAP_S)
    await host.leave()
    await asyncio.sleep(it.sent_s)
    await sender.finish()
    await asyncio.sleep(60)


class SenderNode(ClientNode):
    """Sends numbered messages to the queues of the topic, in turn."""

    notes: Notes
    _stopping = False
    _number = 0

    async def create_topic(self) -> None:
        """Make the topic."""
        async with AdminClient(self.namesrv, settings=self.settings()) as admin:
            await admin.create_topic(TOPIC, QUEUES)

    def start(self, rate: float) -> None:
        """Send so many a second from now on."""
        assert self.process is not None
        self._stopping = False
        self.process.spawn(self._send_on(rate), "send")

    async def finish(self) -> None:
        """Send no more."""
        self._stopping = True
        await asyncio.sleep(1)

    async def _send_on(self, rate: float) -> None:
        sends = Tasks()
        async with Producer(self.name, namesrv=self.namesrv, client=self.settings()) as producer:
            while not self._stopping:
                await asyncio.sleep(self.dice.expovariate(rate))
                sends.start(self._send(producer, self._number))
                self._number += 1

    async def _send(self, producer: Producer, number: int) -> None:
        await producer.send(Message(TOPIC, b"%d" % number))
        self.notes.stored_ms.setdefault(number, asyncio.get_running_loop().time() * 1000)


def main() -> None:
    """Print a line for each kind of handlers and each limit that the command line names."""
    seeds = [int(word[1:]) for word in sys.argv[1:] if word.startswith("s")] or [1]
    limits = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    for seed, handlers in product(seeds, (QUICK, SECOND, SLOW, ALL_SLOW)):
        for limit_ms in limits:
            with tempfile.TemporaryDirectory(prefix="pauses-") as folder:
                it = measure(handlers, limit_ms, Path(folder), seed=seed)
            p50_ms, p99_ms = it.pause_ms(0.5), it.pause_ms(0.99)
            print(
                f"handlers {handlers.name}, limit {limit_ms} ms: {it.delivered} delivered,"
                f" {it.twice} twice, {it.lost} lost, {len(it.pauses)} moves, pause p50"
                f" {p50_ms:.0f}, p99 {p99_ms:.0f}, max {it.pauses[-1]:.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
