"""What goes wrong while a run is active, as far as its plan allows."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Final

from aerobee.client import Message
from simulation.clients import HostNode, unless_killed
from simulation.disk.troubles import DiskTroubles
from simulation.judge.causes import Cause
from simulation.judge.ledger import Kind
from simulation.plan import Trouble
from simulation.servers import BrokerNode, NamesrvNode, ServerNode

if TYPE_CHECKING:
    from simulation.scenario import Scenario

GAP_S: Final = 9.0  # between two troubles, on average
DOWN_S: Final = (0.5, 20.0)
GREETED_WITHIN_S: Final = 6.0  # a pull that failed is tried again within half of that
HALF_OPEN_S: Final = (1.0, 90.0)
CUT_OFF_S: Final = (0.5, 12.0)
AWAY_S: Final = (0.5, 10.0)
CHANGED_S: Final = (0.0, 12.0)
WAITS_MS: Final = (0, 0, 300, 1500)
FROZEN_S: Final = (1.0, 20.0)  # a lock that was renewed before the last renewal outlives it

LOST_REPLIES_S: Final = (0.2, 1.0)


class Troubles:
    """Disturbs servers and connections until `ends_s`; tells the ledger whom."""

    def __init__(self, scenario: "Scenario", ends_s: float) -> None:
        self._scenario = scenario
        self._world = scenario.world
        self._ledger = scenario.ledger
        self._ends_s = ends_s
        self._hurried = 0
        self._dice = Random(f"troubles {scenario.world.seed}")
        ways: dict[Trouble, Callable[[], Awaitable[None]]] = {
            Trouble.BROKERS_DIE: self._kill_broker,
            Trouble.BROKERS_RESTART: self._restart_broker,
            Trouble.NAMESERVERS_DIE: self._kill_nameserver,
            Trouble.RESETS: self._reset,
            Trouble.HALF_OPEN: self._half_open,
            Trouble.DELAYS: self._cut_off,
            Trouble.FREEZES: self._freeze,
            Trouble.CANCELS: self._bounce,
            Trouble.HURRY: self._hurry,
            Trouble.MOVES: self._move_broker,
            Trouble.SETTINGS: self._change_waits,
            Trouble.LOST_REPLIES: self._lose_replies,
        }
        self._ways = [ways[each] for each in Trouble if each in scenario.plan.troubles & set(ways)]
        self._disks = DiskTroubles(self, scenario)
        if scenario.plan.disk:
            self._ways += self._disks.ways

    async def run(self) -> None:
        """Make trouble until the time is over, and end it."""
        loop = self._world.loop
        watching = asyncio.create_task(self._disks.watch())
        while self._ways:
            gap_s = self._dice.expovariate(1 / GAP_S)
            if loop.time() + gap_s > self._ends_s:
                break
            await asyncio.sleep(gap_s)
            await self._disks.restart_refusing()
            await self._dice.choice(self._ways)()
        await asyncio.sleep(self._ends_s - loop.time())
        watching.cancel()

    async def _kill_broker(self) -> None:
        node = self._dice.choice(self._scenario.brokers)
        if node.up:
            down_s = self._dice.uniform(*DOWN_S)
            self._ledger.down(node.name, Cause.BROKER_DIED)
            await node.die(self._dice.choice((0.0, 0.0, down_s)))
            await self.bring_back(node, down_s)

    async def _restart_broker(self) -> None:
        node = self._dice.choice(self._scenario.brokers)
        if node.up:
            down_s = self._dice.uniform(*DOWN_S)
            self._ledger.down(node.name, Cause.BROKER_STOPPED)
            await unless_killed(node.stop())
            await self.bring_back(node, down_s)

    async def _move_broker(self) -> None:
        node = self._dice.choice(self._scenario.brokers)
        if node.up:
            down_s = self._dice.uniform(*DOWN_S)
            self._ledger.down(node.name, Cause.BROKER_STOPPED)
            await unless_killed(node.stop())
            node.move()
            await self.bring_back(node, down_s)

    async def _change_waits(self) -> None:
        """Let a running broker wait for owners less, or not at all, and again as before."""
        node = self._dice.choice(self._scenario.brokers)
        seconds = self._dice.uniform(*CHANGED_S)
        waits = {
            "handover_wait_millis": self._dice.choice(WAITS_MS),
            "handover_drain_millis": self._dice.choice(WAITS_MS),
        }
        if node.up:
            self._blame_broker(node, Cause.WAITS_CHANGED, seconds)
            live = node.broker.live
            before = {name: getattr(live.current, name) for name in waits}
            assert node.process is not None
            run = node.process.context.copy().run  # timers that follow settings are its own
            run(live.change, live.current.model_copy(update=waits))
            await asyncio.sleep(seconds)
            before_that = live.current.model_copy(update=before)  # if it has died, of its last life
            run(live.change, before_that)

    def _blame_broker(self, node: BrokerNode, cause: Cause, seconds: float) -> None:
        self._world.trace.note(f"{node.name}: {cause} {seconds:.1f} s")
        self._ledger.disturb(node.name, cause, seconds)

    async def _bounce(self) -> None:
        """Let one member of a process leave in the middle of that, and the others stay."""
        hosts = [host for host in self._scenario.hosts if host.up and host.cancels]
        if hosts:
            host = self._dice.choice(hosts)
            for _ in range(3):
                if host.up:
                    member = self._dice.choice(host.members)
                    away_s = self._dice.choice((None, 0.0, self._dice.uniform(*AWAY_S)))
                    await unless_killed(host.bounce(member, away_s))

    async def _hurry(self) -> None:
        """Cut a process off its brokers, and send at once with hardly any time for it."""
        hosts = [host for host in self._scenario.hosts if host.up and host.companion]
        if not hosts:
            return
        host = self._dice.choice(hosts)
        assert host.process is not None
        process = host.process
        self._ledger.disturb(host.name, Cause.RESET)
        began_s = self._world.loop.time()
        cut = set()  # who it was connected to
        self._world.trace.note(f"{process.name}: its connections are reset, and it hurries")
        for wire in list(self._world.network.wires):
            if wire.client.process is host.process and self._dice.random() < 0.8:
                cut.add(wire.server.process)
                self._world.network.cut(wire)
        await asyncio.sleep(self._dice.choice((0.0, 0.002, 0.01, 0.05)))
        for _ in range(4):
            self._hurried += 1
            message = Message(
                self._dice.choice(list(self._scenario.plan.topics)), b"hurry-%d" % self._hurried
            )
            await unless_killed(host.hurry(message, self._dice.choice((1, 2, 3, 5))))
        await asyncio.sleep(GREETED_WITHIN_S)
        if host.process is process:
            for broker in self._scenario.brokers:
                if broker.process in cut:
                    self._check_known(host, broker, began_s)

    def _check_known(self, host: HostNode, broker: BrokerNode, since_s: float) -> None:
        """A broker knows the members that have connected anew, unless something came between."""
        for group in self._scenario.plan.groups:
            subjects = {host.name, f"{host.name} in {group.name}", broker.name}
            if self._ledger.disturbed_since(subjects, since_s):
                continue
            known = broker.broker.context.consumers.members.client_ids(group.name)
            for client_id in host.member_ids(group.name):
                if client_id not in known:
                    what = f"{broker.name} does not know {client_id}, which has connected anew"
                    self._ledger.broke(Kind.OWNERS, what)

    async def _kill_nameserver(self) -> None:
        nodes = [each for each in self._scenario.servers if isinstance(each, NamesrvNode)]
        node = self._dice.choice(nodes)
        if node.up:
            node.kill()
            await self.bring_back(node, self._dice.uniform(*DOWN_S))

    async def bring_back(self, node: ServerNode, after_s: float) -> None:
        """Start a server again after a while."""
        await asyncio.sleep(after_s)
        await node.start()

    async def _reset(self) -> None:
        wires = list(self._world.network.wires)
        if wires:
            wire = self._dice.choice(wires)
            self._blame(wire.client.process.name, Cause.RESET)
            self._world.network.cut(wire)

    async def _half_open(self) -> None:
        wires = list(self._world.network.wires)
        if wires:
            wire = self._dice.choice(wires)
            alive = self._dice.choice((wire.server, wire.server, wire.client))
            seconds = self._dice.uniform(*HALF_OPEN_S)
            self._blame(wire.client.process.name, Cause.HALF_OPEN, seconds)
            self._world.network.leave_half_open(
                wire, alive, seconds, black_hole=self._dice.random() < 0.5
            )

    async def _lose_replies(self) -> None:
        """Let producers hear nothing more on their connections: what they said has arrived."""
        names = {each.name for each in (*self._scenario.producers, *self._scenario.deciders)}
        for wire in list(self._world.network.wires):
            process = wire.client.process
            if process.name.rpartition(".")[0] in names and self._dice.random() < 0.7:
                self._world.trace.note(f"{process}: replies are lost")
                wire.lose_replies()
        await asyncio.sleep(self._dice.uniform(*LOST_REPLIES_S))
        for wire in list(self._world.network.wires):
            if wire.deaf:
                self._world.network.cut(wire)

    async def _cut_off(self) -> None:
        """Let nothing get through between a client and a server for a while."""
        processes = [host.process for host in self._scenario.hosts if host.process is not None]
        if processes:
            process = self._dice.choice(processes)
            server = self._dice.choice(self._scenario.servers)
            seconds = self._dice.uniform(*CUT_OFF_S)
            self._blame(process.name, Cause.CUT_OFF, seconds)
            self._world.network.part(process.ip, server.ip, seconds)

    async def _freeze(self) -> None:
        nodes: list[HostNode | BrokerNode] = [*self._scenario.hosts, *self._scenario.brokers]
        processes = [node.process for node in nodes if node.process is not None]
        process = self._dice.choice(processes) if processes else None
        if process is not None and process.frozen is None:
            seconds = self._dice.uniform(*FROZEN_S)
            self._blame(process.name, Cause.FROZEN, seconds)
            self._world.loop.freeze(process, seconds)

    def _blame(self, process: str, cause: Cause, seconds: float = 0.0) -> None:
        """Tell the ledger of what befalls a process."""
        self._world.trace.note(f"{process}: {cause} {seconds:.1f} s")
        self._ledger.disturb(process.rpartition(".")[0], cause, seconds)
