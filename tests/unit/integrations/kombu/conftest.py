"""A cluster for a module, and connections of kombu to it."""

from collections.abc import Iterator

import pytest
from kombu.connection import Connection

import aerobee.integrations.kombu
from aerobee.testing import ClusterThread

__all__ = ["aerobee"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterThread]:
    """A nameserver and a broker."""
    with ClusterThread(root=tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def connection(cluster: ClusterThread) -> Iterator[Connection]:
    """A connection of a program that publishes and consumes."""
    with Connection(f"aerobee://{cluster.namesrv_addr}") as connection:
        yield connection


@pytest.fixture
def other(cluster: ClusterThread) -> Iterator[Connection]:
    """A connection as of another process: it shares nothing with the first one."""
    with Connection(f"aerobee://{cluster.namesrv_addr}") as connection:
        yield connection
