"""What befalls the disks of a cluster's brokers, and the machines that they are in."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Final

from simulation.clients import unless_killed
from simulation.disk.broker import DiskBrokerNode
from simulation.judge.causes import Cause
from simulation.plan import Trouble

if TYPE_CHECKING:
    from simulation.scenario import Scenario
    from simulation.troubles import Troubles

DOWN_S: Final = (0.5, 12.0)
LOOK_S: Final = 0.5
OPERATIONS: Final = 150  # of the door, within which a process dies


class DiskTroubles:
    """Ways to disturb one broker's disk; each tells the ledger what it excuses."""

    def __init__(self, troubles: "Troubles", scenario: "Scenario") -> None:
        self._troubles = troubles
        self._ledger = scenario.ledger
        self._trace = scenario.world.trace
        self._dice = Random(f"disk troubles {scenario.world.seed}")
        self._nodes = [each for each in scenario.brokers if isinstance(each, DiskBrokerNode)]
        self._sends_back = bool({Trouble.POISON, Trouble.FAILING_HANDLERS} & scenario.plan.troubles)
        self._refusing: dict[DiskBrokerNode, None] = {}
        self.ways: list[Callable[[], Awaitable[None]]] = [
            self._lose_power,
            self._lose_power,
            self._die_at_a_step,
            self._fail_a_sync,
            self._slow_down,
            self._fill_up,
        ]

    async def watch(self) -> None:
        """Tell the ledger of brokers that take nothing, as long as they do."""
        while True:
            for node in self._nodes:
                refuses = node.up and node.broker.store.commit_log.refusal is not None
                if refuses and node not in self._refusing:
                    self._refusing[node] = None
                    self._ledger.down(node.name, Cause.BROKER_REFUSES)
                elif not refuses and node in self._refusing:
                    del self._refusing[node]
                    if node.up:
                        self._ledger.back(node.name)
            await asyncio.sleep(LOOK_S)

    async def restart_refusing(self) -> None:
        """Do what an operator does who is told that a broker takes nothing."""
        for node in list(self._refusing):
            if node.up and node.broker.store.commit_log.refusal is not None:
                await self._restart(node)

    async def _restart(self, node: DiskBrokerNode) -> None:
        self._ledger.down(node.name, Cause.BROKER_STOPPED)
        node.machine.weather.clear_up()
        await unless_killed(node.stop())
        await self._troubles.bring_back(node, self._dice.uniform(*DOWN_S))

    def _node(self, what: str) -> DiskBrokerNode:
        node = self._dice.choice(self._nodes)
        self._trace.note(f"{node.name}: {what}")
        return node

    async def _lose_power(self) -> None:
        node = self._node("power goes")
        if node.up:
            node.lose_power()
            await self._troubles.bring_back(node, self._dice.uniform(*DOWN_S))

    async def _die_at_a_step(self) -> None:
        """Let the process die between two operations, and in a part of the starts after that."""
        node = self._node("its process will die")
        node.machine.fuse = self._dice.randint(0, OPERATIONS)
        await asyncio.sleep(self._dice.uniform(1, 5))
        node.machine.fuse = -1
        if not node.up:
            if self._dice.random() < 0.5:
                node.lose_power()
            if self._dice.random() < 0.3:
                node.machine.fuse = self._dice.randint(0, OPERATIONS)
            await self._troubles.bring_back(node, self._dice.uniform(*DOWN_S))
            node.machine.fuse = -1

    async def _fail_a_sync(self) -> None:
        """Let syncs fail; whoever runs the broker sees that it takes nothing and restarts it."""
        node = self._node("a sync fails")
        where = self._dice.choice(("", "commitlog", "consumequeue"))
        node.machine.weather.fail_syncs(self._dice.choice((1, 3)), where)
        await asyncio.sleep(self._dice.uniform(1, 4))
        if node.up and node.broker.store.commit_log.refusal is not None:
            await self._restart(node)

    async def _slow_down(self) -> None:
        node = self._node("syncs take long")
        seconds = self._dice.uniform(0.5, 10)
        node.machine.weather.slow_until_s = node.machine.clock.monotonic() + seconds

    async def _fill_up(self) -> None:
        node = self._node("no space")
        seconds = self._dice.uniform(0.5, 10)
        self._ledger.starve(node.name, seconds)
        if self._sends_back:
            self._ledger.disturb(node.name, Cause.BROKER_REFUSES, seconds)
        node.machine.weather.no_space_until_s = node.machine.clock.monotonic() + seconds
