"""A cluster in memory for the tests of clients."""

from collections.abc import AsyncIterator

import pytest
from support.stand_ins.fake_cluster import FakeCluster


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """One nameserver and two brokers, "broker-a" and "broker-b", with topic TBW102 alone."""
    async with FakeCluster(brokers=2) as cluster:
        cluster.create("TBW102", 8)
        yield cluster
