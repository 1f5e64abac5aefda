"""Nameservers and brokers on the running event loop, with real sockets and real files."""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from aerobee.broker.app import Broker
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.testing.names import SEGMENT_BYTES, broker_name


class EmbeddedCluster:
    """Nameservers and brokers that live as long as the `async with` block, on free ports.

    `broker_settings` are attributes of BrokerSettings for every broker. With `root` the stores are
    kept there, and a later cluster with the same root goes on with them; without, they are
    temporary. All servers share the running loop: a blocking test blocks them too, which is what
    `ClusterThread` is for.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        nameservers: int = 1,
        root: Path | None = None,
        broker_settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._broker_count = brokers
        self._nameserver_count = nameservers
        self._broker_settings = dict(broker_settings or {})
        self._root = root
        self._made: Path | None = None
        self.nameservers: list[NameServer] = []
        self.brokers: list[Broker] = []

    def __repr__(self) -> str:
        """Show where it is reached: <EmbeddedCluster at 127.0.0.1:40001, 2 brokers>."""
        return f"<{type(self).__name__} {self.place}>"

    @property
    def place(self) -> str:
        """Where it is reached, in words."""
        if not self.nameservers:
            return "not started"
        count = len(self.brokers)
        return f"at {self.namesrv_addr}, {count} broker{'' if count == 1 else 's'}"

    @property
    def root(self) -> Path:
        """Where the stores are kept; a temporary folder is made when it is first needed."""
        if self._root is not None:
            return self._root
        if self._made is None:
            self._made = Path(tempfile.mkdtemp(prefix="aerobee-"))
        return self._made

    @property
    def namesrv_addr(self) -> str:
        """All nameservers as clients take them: `host:port`, joined by semicolons."""
        return ";".join(f"127.0.0.1:{server.port}" for server in self.nameservers)

    @property
    def broker_addrs(self) -> list[str]:
        """The `host:port` of every broker."""
        return [f"127.0.0.1:{broker.port}" for broker in self.brokers]

    def store_path(self, index: int = 0) -> Path:
        """Return the folder of one broker's store."""
        return self.root / broker_name(index)

    async def start(self) -> None:
        """Start the nameservers, then the brokers; all serve and are registered on return."""
        try:
            for index in range(self._nameserver_count):
                server = NameServer(self._namesrv_settings(index))
                await server.start()
                self.nameservers.append(server)
            for index in range(self._broker_count):
                self.brokers.append(await self._start_broker(index))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the brokers cleanly, then the nameservers; remove a temporary store.

        All of them are stopped, whatever one of them raises; that is raised afterwards.
        """
        brokers, nameservers = list(self.brokers), list(self.nameservers)
        failed: list[BaseException | None] = []
        self.brokers.clear()
        self.nameservers.clear()
        try:
            for servers in (brokers, nameservers):
                stopping = (server.stop() for server in servers)
                failed += await asyncio.gather(*stopping, return_exceptions=True)
        finally:
            if self._made is not None:
                shutil.rmtree(self._made, ignore_errors=True)
                self._made = None
        for failure in failed:
            if failure is not None:
                raise failure

    async def restart_broker(self, index: int = 0) -> None:
        """Stop one broker cleanly and start it again with its store and its port.

        One that does not stop or start well is in `brokers` no more.
        """
        broker = self.brokers.pop(index)
        port = broker.port
        await broker.stop()
        self.brokers.insert(index, await self._start_broker(index, port))

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Make a topic, or change its number of queues, on every broker.

        Clients find it when this returns. Raises BrokerRefused if a broker refuses.
        """
        # late: most tests need none, all would pay
        from aerobee.client.cluster.directory import Cluster

        async with Cluster(self.namesrv_addr) as cluster:
            await cluster.create_topic(topic, queues)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _namesrv_settings(self, index: int) -> NamesrvSettings:
        return NamesrvSettings(
            bind_address="127.0.0.1",
            listen_port=0,
            kv_config_path=self.root / f"namesrv-{index}" / "kvConfig.json",
        )

    async def _start_broker(self, index: int, port: int = 0) -> Broker:
        settings: dict[str, Any] = {
            "broker_name": broker_name(index),
            "broker_ip1": "127.0.0.1",
            "bind_address": "127.0.0.1",
            "listen_port": port,
            "http_port": -1,
            "namesrv_addr": self.namesrv_addr,
            "store_path_root_dir": self.store_path(index),
            "mapped_file_size_commit_log": SEGMENT_BYTES,
            "broker_fast_failure_enable": False,  # tests share the loop, and may block it
        }
        broker = Broker(BrokerSettings(**settings | self._broker_settings))
        await broker.start()
        return broker
