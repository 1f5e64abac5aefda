"""Nameservers and brokers as processes that stop, die and return with their files."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Literal

from aerobee.broker.app import Broker
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.tables.committed import OffsetTable
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from simulation.judge.attempts import Place
from simulation.judge.ledger import Ledger
from simulation.stage.process import Process
from simulation.stage.world import World

NAMESRV_PORT: Final = 9876
BROKER_PORT: Final = 10911

Flush = Literal["ASYNC_FLUSH", "SYNC_FLUSH"]


class ServerNode(ABC):
    """One server that has an address and a folder for good, and a process while it runs.

    `equip` gives a process what its code does not make itself.
    """

    equip: Callable[[Process], None] | None = None

    def __init__(self, world: World, name: str, ip: str) -> None:
        self.world = world
        self.name = name
        self.ip = ip
        self.lives = 0
        self.process: Process | None = None

    @property
    def up(self) -> bool:
        """Whether it runs."""
        return self.process is not None

    async def start(self) -> None:
        """Begin a life; serving on return."""
        self.lives += 1
        self.process = process = self.world.process(f"{self.name}.{self.lives}", self.ip)
        if self.equip is not None:
            self.equip(process)
        self.world.trace.note(f"{process} starts")
        await process.call(self._serve(), "start")

    async def heal(self) -> None:
        """See to it that it runs, and takes what is sent to it."""
        if not self.up:
            await self.start()

    async def stop(self) -> None:
        """End as an operator would end it."""
        process = self.process
        if process is None:
            return
        self.world.trace.note(f"{process} stops")
        await process.call(self._leave(), "stop")
        self.kill()

    def kill(self, *, silent_s: float = 0.0) -> None:
        """End it without a good-bye; see Network.kill."""
        process, self.process = self.process, None
        if process is not None:
            self.world.kill(process, silent_s=silent_s)

    @abstractmethod
    async def _serve(self) -> None: ...

    @abstractmethod
    async def _leave(self) -> None: ...


class NamesrvNode(ServerNode):
    """A nameserver."""

    server: NameServer

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{self.ip}:{NAMESRV_PORT}"

    async def _serve(self) -> None:
        settings = NamesrvSettings(
            listen_port=NAMESRV_PORT,
            tls_server_mode="disabled",  # its sockets have no first byte to look at
            kv_config_path=self.world.folder / self.name / "kv.json",
        )
        self.server = NameServer(settings)
        await self.server.start()

    async def _leave(self) -> None:
        await self.server.stop()


class BrokerNode(ServerNode):
    """A broker; what it commits for groups is entered into the ledger."""

    broker: Broker

    def __init__(
        self, world: World, ledger: Ledger, name: str, ip: str, namesrv: str, flush: Flush
    ) -> None:
        super().__init__(world, name, ip)
        self._ledger = ledger
        self._settings = BrokerSettings(
            broker_name=name,
            broker_ip1=ip,
            listen_port=BROKER_PORT,
            tls_server_mode="disabled",
            namesrv_addr=namesrv,
            http_port=-1,
            store_path_root_dir=world.folder / name,
            mapped_file_size_commit_log=256 << 10,
            mapped_file_size_consume_queue=4000,
            prepared_bytes=64 << 10,
            helper_process=False,
            flush_disk_type=flush,
            auto_create_topic_enable=False,
            timer_wheel_enable=False,
            mapped_file_size_timer_log=4096,
            timer_roll_window_slot=12,  # seconds
            recall_message_enable=True,
            transaction_time_out=3000,
            transaction_check_interval=5000,
            transaction_check_max=1000,
            message_index_enable=False,  # a thread of its own follows no virtual time
        )

    def set(self, **settings: Any) -> None:
        """Give it other settings, from its next start on."""
        self._settings = BrokerSettings(**(self._settings.model_dump() | settings))

    def kill(self, *, silent_s: float = 0.0) -> None:
        """End it as kill -9 does: what the kernel has of its files stays."""
        process = self.process
        super().kill(silent_s=silent_s)
        if process is not None:
            process.context.copy().run(self.broker.store.abandon)  # what it calls is dead, too

    def move(self) -> None:
        """Come back at another port."""
        port = self._settings.listen_port + 1
        self._settings = self._settings.model_copy(update={"listen_port": port})

    async def start(self) -> None:
        """Begin a life; what befell the one before is over then."""
        await super().start()
        self._ledger.back(self.name)

    async def die(self, silent_s: float) -> None:
        """Kill it, and expect that it comes back with the offsets that it had saved."""
        self._ledger.forget_commits(self.name)
        self.kill(silent_s=silent_s)

    async def _serve(self) -> None:
        self.broker = Broker(self._settings)
        await self.broker.start()
        self._observe(self.broker.context.tables.offsets)

    async def _leave(self) -> None:
        await self.broker.stop()

    def _observe(self, offsets: OffsetTable) -> None:
        commit = offsets.commit

        def observed(group: str, topic: str, queue_id: int, offset: int, remote: str = "") -> bool:
            kept = commit(group, topic, queue_id, offset, remote)
            now = offsets.committed(group, topic, queue_id)
            if now is not None and group in self._ledger.groups:
                self._ledger.commit(group, Place(topic, self.name, queue_id), now, remote)
            return kept

        offsets.commit = observed  # type: ignore[method-assign]


async def start_all(nodes: list[ServerNode]) -> None:
    """Start servers one after the other."""
    for node in nodes:
        await node.start()
        await asyncio.sleep(0)
