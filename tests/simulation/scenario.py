"""One run from its seed to its verdict: a cluster comes up, lives through its plan, gets quiet.

While it is active, every member has a life of its own (`_come_and_go`) and `Troubles` disturbs
whom it may. Then everything heals and returns, what was sent must get consumed, and the ledger
and the owners of the queues are judged.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from aerobee.admin.client import AdminClient
from aerobee.client import ClientSettings
from aerobee.remoting.errors import AerobeeError
from simulation.clients import HostNode, ProducerNode, unless_killed
from simulation.disk.broker import DiskBrokerNode
from simulation.java_member import JavaMember
from simulation.judge import ledger as book
from simulation.judge.attempts import Place
from simulation.judge.causes import AWAY_S
from simulation.judge.ledger import Group, Ledger, Violation
from simulation.members import LiteMember, Member, OrderlyMember, PushMember
from simulation.plan import EDGES, Kind, Plan, Trouble, draw
from simulation.producing.delays import check_delays
from simulation.producing.judging import check_waits
from simulation.producing.times import TimedSends
from simulation.producing.transactions import TransactionNode
from simulation.servers import BrokerNode, NamesrvNode, ServerNode
from simulation.stage.world import World
from simulation.troubles import Troubles

JOIN_WITHIN_S: Final = 15.0
CONSUMED_WITHIN_S: Final = 300.0  # of quiet; failed messages may take turns of their own
SETTLED_AFTER_S: Final = 70.0  # two heartbeats or route refreshes and a round of rebalancing
FAILING_SHARE: Final = 0.02
TOO_LONG_SHARE: Final = 0.003
POISON_SHARE: Final = 0.03
DELAY_SHARE: Final = 0.15
TIMED_SHARE: Final = 0.2

MEMBERS: Final[dict[Kind, tuple[type[Member], ...]]] = {  # in turn
    Kind.PUSH: (PushMember,),
    Kind.LITE: (LiteMember,),
    Kind.ORDERLY: (OrderlyMember,),
    Kind.MIXED: (JavaMember, PushMember),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended. Two runs of one seed have the same `digest`."""

    seed: int
    plan: Plan
    violations: list[Violation]
    digest: str
    events: int
    turns: int
    virtual_s: float
    acknowledged: int
    duplicates: int
    lines: list[str]


def simulate(seed: int, folder: Path, echo: Any = None) -> Verdict:
    """Run a seed; its files go into `folder`, `echo` gets every line of the trace."""
    world = World(seed, folder, echo)
    ledger = Ledger(world.loop.time, world.trace)
    plan = draw(seed)
    scenario = Scenario(world, ledger, plan)
    world.trace.note(str(plan))
    try:
        world.run(scenario.run())
    finally:
        scenario.close()
    for error in world.unexpected:
        ledger.broken.append(Violation(book.Kind.ERROR, error))
    return Verdict(
        seed=seed,
        plan=plan,
        violations=ledger.violations(),
        digest=world.trace.digest(),
        events=world.trace.events,
        turns=world.loop.turns,
        virtual_s=world.loop.time(),
        acknowledged=len(ledger.acknowledged),
        duplicates=len(ledger.duplicates),
        lines=list(world.trace.lines),
    )


class Scenario:
    """A plan in the making."""

    def __init__(self, world: World, ledger: Ledger, plan: Plan) -> None:
        self.world = world
        self.ledger = ledger
        self.plan = plan
        self.dice = Random(f"actions {world.seed}")
        self._queues = dict(plan.topics)
        self._attributes = {"aerobee.dedup.seconds": "3000"} if plan.once else None
        ledger.once = plan.once
        namesrvs = [
            NamesrvNode(world, f"namesrv-{number}", f"10.0.0.{number + 1}")
            for number in range(plan.nameservers)
        ]
        self.namesrv = ";".join(node.address for node in namesrvs)
        self.brokers = [
            self._make_broker(f"broker-{letter}", f"10.0.1.{at + 1}")
            for at, letter in enumerate("ab"[: plan.brokers])
        ]
        self.servers: list[ServerNode] = [*namesrvs, *self.brokers]
        for group in plan.groups:
            ledger.groups[group.name] = Group(
                group.name,
                group.topics,
                orderly=group.kind is Kind.ORDERLY,
                foreign=group.kind is Kind.MIXED,
            )
        self.hosts = self._make_hosts()
        self.producers = [self._make_producer(number) for number in range(plan.producers)]
        self.deciders = [self._make_decider()] if plan.transactions else []

    def _make_broker(self, name: str, ip: str) -> BrokerNode:
        """Make a broker, with a disk of its own that may fail if the plan says so."""
        world, flush = self.world, self.plan.flush
        kind = DiskBrokerNode if self.plan.disk else BrokerNode
        node = kind(world, self.ledger, name, ip, self.namesrv, flush)
        node.set(timer_wheel_enable=self.plan.times, transaction_enable=self.plan.transactions)
        return node

    def close(self) -> None:
        """Let go of the files of the machines, of which each seed leaves hundreds."""
        for broker in self.brokers:
            if isinstance(broker, DiskBrokerNode):
                broker.machine.close()

    def _make_hosts(self) -> list[HostNode]:
        """Make a process for every member, or for each number one that is in all groups."""
        groups: dict[tuple[str, type[Member]], list[str]] = {}
        for group in self.plan.groups:
            for number in range(group.members):
                kinds = MEMBERS[group.kind]
                kind = kinds[number % len(kinds)]
                java = "java-" if kind is JavaMember else ""
                name = f"{java}all-{number}" if self.plan.shared else f"{group.name}-{number}"
                groups.setdefault((name, kind), []).append(group.name)
        hosts: dict[str, HostNode] = {}
        for (name, kind), names in groups.items():
            if name not in hosts:
                ip = f"10.0.2.{len(hosts) + 1}"
                hosts[name] = HostNode(self.world, self.ledger, name, ip, self.namesrv)
                hosts[name].members = []
            members = [kind(hosts[name], *names)] if kind is JavaMember else []
            hosts[name].members += members or [kind(hosts[name], each) for each in names]
        for host in hosts.values():
            for member in host.members:
                if Trouble.FAILING_HANDLERS in self.plan.troubles:
                    member.failing = FAILING_SHARE
                if Trouble.SLOW_HANDLERS in self.plan.troubles:
                    member.too_long = TOO_LONG_SHARE
            ours = not any(isinstance(member, JavaMember) for member in host.members)
            host.cancels = ours and Trouble.CANCELS in self.plan.troubles
            host.companion = ours and bool({*EDGES} & self.plan.troubles)
        return list(hosts.values())

    def _make_producer(self, number: int) -> ProducerNode:
        ip = f"10.0.9.{number + 1}"
        producer = ProducerNode(self.world, self.ledger, f"p{number}", ip, self.namesrv)
        producer.topics, producer.gap_s = tuple(self.plan.topics), self.plan.gap_s
        if self.plan.delays:
            producer.delays = DELAY_SHARE
        if self.plan.times:
            producer.times = TIMED_SHARE
            producer.timed = TimedSends(self.world, self.ledger, self.brokers, producer.name)
        if Trouble.POISON in self.plan.troubles:
            self.ledger.poison, producer.poison = True, POISON_SHARE
        return producer

    def _senders(self) -> list[ProducerNode | TransactionNode]:
        return [*self.producers, *self.deciders]

    def _make_decider(self) -> TransactionNode:
        node = TransactionNode(self.world, self.ledger, "x0", "10.0.9.9", self.namesrv)
        node.topics, node.gap_s = tuple(self.plan.topics), 4 * self.plan.gap_s
        node.dies = Trouble.CLIENTS_DIE in self.plan.troubles
        return node

    async def run(self) -> None:
        """Live through the plan."""
        for server in self.servers:
            await server.start()
        await self._admin(self._make_topics())
        for sender in self._senders():
            sender.start()
        ends_s = self.world.loop.time() + self.plan.active_s
        lives = [asyncio.create_task(self._come_and_go(host, ends_s)) for host in self.hosts]
        troubles = Troubles(self, ends_s)
        lives += [asyncio.create_task(node.live(ends_s)) for node in self.deciders]
        work = [*lives, asyncio.create_task(troubles.run())]
        if self.plan.grows:
            work.append(asyncio.create_task(self._grow(ends_s)))
        await asyncio.gather(*work)
        self.world.trace.note("quiet")
        await self._end()

    # --- the active time ---

    async def _come_and_go(self, host: HostNode, ends_s: float) -> None:
        loop, dice = self.world.loop, host.dice
        await asyncio.sleep(dice.uniform(0, JOIN_WITHIN_S))
        while True:
            if not host.up:
                await unless_killed(host.start())
            stays_s = dice.expovariate(1 / self.plan.stay_s)
            if loop.time() + stays_s >= ends_s:
                return
            await asyncio.sleep(stays_s)
            if Trouble.CLIENTS_DIE in self.plan.troubles and dice.random() < 0.5:
                host.die(dice.choice((0.0, 0.0, dice.uniform(1, 30))))
            else:
                await unless_killed(host.leave())
            if loop.time() >= ends_s:
                return
            await asyncio.sleep(dice.uniform(*AWAY_S))

    async def _grow(self, ends_s: float) -> None:
        """Give a topic more queues, once."""
        left_s = ends_s - self.world.loop.time()
        await asyncio.sleep(self.dice.uniform(0.2, 0.6) * left_s)
        topic = self.dice.choice(list(self._queues))
        self._queues[topic] += self.dice.choice((1, 2))
        self.world.trace.note(f"{topic} gets {self._queues[topic]} queues")
        await self._admin(self._make_topics())

    async def _admin(self, work: Coroutine[Any, Any, None]) -> None:
        process = self.world.process("admin", "10.0.8.1")
        await process.call(work, "admin")
        self.world.kill(process)

    async def _make_topics(self) -> None:
        settings = ClientSettings(client_ip="10.0.8.1", instance_name="admin")
        async with AdminClient(self.namesrv, settings=settings) as admin:
            missing = list(self._queues)
            while True:
                with contextlib.suppress(AerobeeError):  # a server is down at the moment
                    while missing:
                        made = await admin.create_topic(
                            missing[0], self._queues[missing[0]], attributes=self._attributes
                        )
                        if len(made) < len(self.brokers):
                            break  # one that is down is not even asked
                        missing.pop(0)
                    else:
                        return
                await asyncio.sleep(2.0)

    # --- the quiet time ---

    async def _end(self) -> None:
        world = self.world
        world.network.heal()
        for server in self.servers:
            await server.heal()
        for host in self.hosts:
            for member in host.members:
                member.failing = member.too_long = 0.0
        for group in self.plan.groups:
            mine = self._members(group.name)
            if not any(host.up and member.joined for host, member in mine):
                host, member = next((each for each in mine if each[0].up), mine[0])
                await (host.come_back(member) if host.up else host.start())
        sent = [await each.finish(60.0) for each in self._senders()]
        for broker in self.brokers:
            if isinstance(broker, DiskBrokerNode):
                broker.check_end()
        await check_delays(world, self.ledger, self.brokers)
        if self.plan.times or self.plan.transactions:
            await check_waits(world, self.ledger, self.brokers)
        await world.until(self._all_handled, CONSUMED_WITHIN_S)
        await asyncio.sleep(SETTLED_AFTER_S)
        if not all(sent):
            self.ledger.broke(book.Kind.ERROR, "a send has no outcome")
        self._check_owners()
        for server in reversed(self.servers):
            await server.stop()

    def _members(self, group: str) -> list[tuple[HostNode, Member]]:
        members = [(host, member) for host in self.hosts for member in host.members]
        return [(host, member) for host, member in members if group in member.groups]

    def _all_handled(self) -> bool:
        return not any(self.ledger.unhandled(group) for group in self.ledger.groups.values())

    def _check_owners(self) -> None:
        """Every queue of every group has exactly one owner."""
        for group in self.plan.groups:
            owners: Counter[Place] = Counter()
            for host, member in self._members(group.name):
                if host.up:
                    owners.update(member.owned(group.name))
            for topic in group.topics:
                for broker in self.brokers:
                    for queue_id in range(self._queues[topic]):
                        place = Place(topic, broker.name, queue_id)
                        if owners[place] != 1:
                            what = f"{place} of {group.name} has {owners[place]} owners"
                            self.ledger.broke(book.Kind.OWNERS, what)
