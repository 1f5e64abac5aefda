"""Commands against the cluster of the session."""

import pytest
from support.servers.commands import Commands

from aerobee.testing import ClusterThread


@pytest.fixture
def commands(rocketmq: ClusterThread) -> Commands:
    """Run commands over a nameserver and a broker."""
    return Commands(rocketmq.namesrv_addr)
