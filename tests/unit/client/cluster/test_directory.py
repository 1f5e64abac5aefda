"""What nameservers say of a cluster, and what becomes of those that say nothing."""

import asyncio
from typing import Any

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.silent_server import SilentServer

from aerobee.client import BrokerRefused, ClientSettings
from aerobee.client.cluster import nameservers
from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.directory import Cluster
from aerobee.remoting.bodies import ClusterInfo
from aerobee.remoting.command import Command
from aerobee.remoting.errors import Unavailable


async def test_silent_nameservers_hold_nobody_up(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is asked as well after a moment; what it refuses is said at once."""
    monkeypatch.setattr(nameservers, "PATIENCE_S", 0.01)
    async with SilentServer() as server:
        settings = ClientSettings(api_timeout_ms=60_000)
        async with Cluster([server.address, cluster.namesrv], settings=settings) as asking:
            async with asyncio.timeout(30):
                with pytest.raises(BrokerRefused):
                    await asking.ask(999, ClusterInfo)
        assert server.connections == 1


async def test_a_nameserver_that_is_silent_is_asked_on_another_connection() -> None:
    """A connection may be half open for minutes."""
    async with SilentServer() as server:
        settings = ClientSettings(api_timeout_ms=50)
        async with Cluster(server.address, settings=settings) as cluster:
            for _ in range(2):
                with pytest.raises(Unavailable, match="no reply"):
                    await cluster.brokers()
        assert server.connections == 2


async def test_who_answered_last_is_asked_first(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nameserver that is half open makes one question wait, not each."""
    monkeypatch.setattr(nameservers, "PATIENCE_S", 0.01)
    asked: list[str] = []
    request = Connections.request

    async def noted(self: Connections, address: str, *arguments: Any) -> Command:
        asked.append(address)
        return await request(self, address, *arguments)

    monkeypatch.setattr(Connections, "request", noted)
    async with SilentServer() as server:
        namesrv = [server.address, cluster.namesrv]
        settings = ClientSettings(api_timeout_ms=60_000)
        async with Cluster(namesrv, settings=settings) as asking:
            for first in (server.address, cluster.namesrv, cluster.namesrv):
                asked.clear()
                async with asyncio.timeout(30):
                    with pytest.raises(BrokerRefused):
                        await asking.ask(999, ClusterInfo)
                assert asked[0] == first
            asking.namesrv.clear()  # as an address server may name others
            asking.namesrv.extend([*namesrv[:1], "127.0.0.1:1", *namesrv[1:]])
            asked.clear()
            with pytest.raises(BrokerRefused):
                await asking.ask(999, ClusterInfo)
            assert asked[0] == cluster.namesrv
            asking.namesrv[:] = ["127.0.0.1:1"]
            with pytest.raises(Unavailable):
                await asking.ask(999, ClusterInfo)
