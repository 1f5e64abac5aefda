"""A cluster for brokers of FastStream."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aerobee.testing import EmbeddedCluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """Give a cluster with topics t and u, on which all delays are a second."""
    delays = {"message_delay_level": " ".join(["1s"] * 18)}
    async with EmbeddedCluster(root=tmp_path, broker_settings=delays) as cluster:
        for topic in ("t", "u"):
            await cluster.create_topic(topic, 2)
        yield cluster
