"""A broker of the simulated cluster whose store lies on a disk that forgets and fails."""

import asyncio
import contextlib
from contextvars import Context
from random import Random
from typing import Final

from aerobee.storage.disk.lock import _held
from aerobee.storage.errors import StoreError
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.store import MessageStore
from simulation.disk.door import Door
from simulation.disk.kernel import SimulatedKernel
from simulation.disk.machine import Died, Machine
from simulation.judge.attempts import Place
from simulation.judge.causes import Cause
from simulation.judge.ledger import Kind, Ledger
from simulation.servers import BrokerNode, Flush
from simulation.stage.process import Process, ProcessDied
from simulation.stage.world import World

STARTS_MAX: Final = 20


class DiskBrokerNode(BrokerNode):
    """A broker on a machine of its own, which may lose its power."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        name: str,
        ip: str,
        namesrv: str,
        flush: Flush,
    ) -> None:
        super().__init__(world, ledger, name, ip, namesrv, flush)
        self.machine = Machine(
            world.folder / name, f"{world.seed} {name}", world.clocks.make(world.loop)
        )
        self.dice = Random(f"disk of {name} {world.seed}")
        self._kernel: SimulatedKernel | None = None
        self._flush = flush
        self._promised: set[bytes] = set()  # what has to outlive a loss of power
        self.lost_power = False  # ever
        self._flushed = 0  # of the log, when its last process ended
        self._unflushed: dict[Place, range] = {}  # offsets that only a power cut can take

    async def start(self) -> None:
        """Begin a life; again where the disk ends it before it serves."""
        for _ in range(STARTS_MAX):
            try:
                await super().start()
            except (ProcessDied, StoreError, OSError) as error:
                self.world.trace.note(f"{self.name} does not start: {type(error).__name__}")
                self.kill()
                self.machine.weather.clear_up()
                self.machine.fuse = -1
                await asyncio.sleep(1.0)
            else:
                break
        if self.lost_power:
            self.forgive_what_was_lost()

    async def heal(self) -> None:
        """Let the disk be well; a broker that takes nothing more is started again."""
        self.machine.weather.clear_up()
        self.machine.fuse = -1
        if self.up and self.broker.store.commit_log.refusal is not None:
            self._ledger.down(self.name, Cause.BROKER_STOPPED)
            await self.stop()
        await super().heal()

    async def _leave(self) -> None:
        try:
            await super()._leave()
        except OSError as error:  # what it could not save it has in the log
            self.world.trace.note(f"{self.name} has not saved everything: {error}")

    def equip(self, process: Process) -> None:
        """Give a process its door to the disk."""
        door = Door(self.machine)
        self._kernel = SimulatedKernel(door)
        door.on_death = lambda: self._died(process)
        process.files = door

    def _died(self, process: Process) -> None:
        """The fuse has burnt down within an operation of the process: nothing more of it runs."""
        self._ledger.forget_commits(self.name)
        self._ledger.down(self.name, Cause.BROKER_DIED)
        if self.process is process:
            self.process = None
        self.world.kill(process)
        self.world.loop.call_soon(self._bury, process, context=Context())  # not as the dead one

    def _bury(self, process: Process) -> None:
        """Let go of what a dead process had open."""
        door, kernel = process.files, self._kernel
        assert isinstance(door, Door)
        self._note_promises()
        door.dead = True
        with contextlib.suppress(Died, AttributeError):  # it may have died before it had a store
            process.context.copy().run(self.broker.store.abandon)
        _held.discard(self.machine.root.resolve())
        if kernel is not None:
            kernel.bury()
        door.bury()

    def kill(self, *, silent_s: float = 0.0) -> None:
        """End it as kill -9 does."""
        process, self.process = self.process, None
        if process is not None:
            self.world.kill(process, silent_s=silent_s)
            self._bury(process)

    def lose_power(self) -> None:
        """End the machine, and the broker on it; what was not synced may be gone."""
        self._ledger.forget_commits(self.name)
        self.kill()
        if self._flush == "ASYNC_FLUSH":
            self._ledger.waits.power_lost(self.name, self._flushed)
        self.machine.lose_power()
        self.machine.weather.clear_up()
        self.lost_power = True
        self._ledger.powerless.add(self.name)
        if self._flush == "ASYNC_FLUSH":
            self._ledger.shortened.add(self.name)
            for place, offsets in self._unflushed.items():
                self._ledger.doubted[place].append(offsets)
        self._unflushed = {}
        self._ledger.down(self.name, Cause.BROKER_LOST_POWER)
        self.world.trace.note(f"{self.name} loses power: {self.machine.digest()}")

    def _note_promises(self) -> None:
        """Remember which messages have to be there after a loss of power, and which offsets not."""
        if not hasattr(self, "broker"):
            return
        store = self.broker.store
        self._flushed = flushed = store.commit_log.flushed_position
        with self.machine.looked_at():
            self._unflushed |= self._unflushed_of(store, flushed)
            for body, (place, offset) in self._ledger.acknowledged.items():
                queue = store.find_queue(place.topic, place.queue_id)
                if place.broker == self.name and queue and _ends_before(queue, offset, flushed):
                    self._promised.add(body)

    def _unflushed_of(self, store: MessageStore, flushed: int) -> dict[Place, range]:
        offsets = {}
        for topic, numbers in store.topics().items():
            for queue_id in numbers:
                queue = store.find_queue(topic, queue_id)
                assert queue is not None
                begin = end = queue.max_offset
                while begin > queue.min_offset and not _ends_before(queue, begin - 1, flushed):
                    begin -= 1
                if begin < end:
                    offsets[Place(topic, self.name, queue_id)] = range(begin, end)
        return offsets

    def forgive_what_was_lost(self) -> None:
        """After a loss of power demand no more of what nothing promised and the disk has not."""
        with self.machine.looked_at():
            for body, (place, offset) in list(self._ledger.acknowledged.items()):
                if place.broker != self.name or self._has(place, offset, body):
                    continue
                if self._flush == "SYNC_FLUSH" or body in self._promised:
                    what = f"{place} {offset} was promised, and the disk has lost it"
                    self._ledger.broke(Kind.LOST, what)
                del self._ledger.acknowledged[body]

    def check_end(self) -> None:
        """Forgive acknowledgements that were on their way while the power went, if it ever did."""
        if self.lost_power:
            self.forgive_what_was_lost()

    def _has(self, place: Place, offset: int, body: bytes) -> bool:
        queue = self.broker.store.find_queue(place.topic, place.queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return False
        data = self.broker.store.record_at(queue.entry(offset)[0])
        return data is not None and body in bytes(data)


def _ends_before(queue: ConsumeQueue, offset: int, position: int) -> bool:
    if not queue.min_offset <= offset < queue.max_offset:
        return False
    begin, size, _ = queue.entry(offset)
    return begin + size <= position
