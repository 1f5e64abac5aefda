"""What nameservers say of a cluster, and what becomes of those that say nothing."""

import asyncio

import pytest
from support.fake_cluster import FakeCluster
from support.silent_server import SilentServer

from aerobee.client import BrokerRefused, ClientSettings, first_answer
from aerobee.client.cluster import Cluster
from aerobee.remoting.bodies import ClusterInfo
from aerobee.remoting.errors import Unavailable


async def test_silent_nameservers_hold_nobody_up(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is asked as well after a moment; what it refuses is said at once."""
    monkeypatch.setattr(first_answer, "PATIENCE_S", 0.01)
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
