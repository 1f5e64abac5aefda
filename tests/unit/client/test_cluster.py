"""What nameservers say of a cluster, and what becomes of those that say nothing."""

import pytest
from support.silent_server import SilentServer

from aerobee.client import ClientSettings
from aerobee.client.cluster import Cluster
from aerobee.remoting.errors import Unavailable


async def test_a_nameserver_that_is_silent_is_asked_on_another_connection() -> None:
    """A connection may be half open for minutes."""
    async with SilentServer() as server:
        settings = ClientSettings(api_timeout_ms=50)
        async with Cluster(server.address, settings=settings) as cluster:
            for _ in range(2):
                with pytest.raises(Unavailable, match="no reply"):
                    await cluster.brokers()
        assert server.connections == 2
