"""Pytest fixtures that give any test a running cluster; the only module here that knows pytest."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from aerobee.testing.thread import ClusterThread


@pytest.fixture(scope="session")
def rocketmq() -> "Iterator[ClusterThread]":
    """A nameserver and a broker in a thread of their own, shared by the tests of the session.

    Tests keep apart by using topics and groups of their own names. The store is temporary and gone
    at the end.
    """
    # imported late: every pytest run loads this plugin, and most ask for no cluster
    from aerobee.remoting.extras import ExtraMissing, need

    try:
        need("broker", "the fixture rocketmq")
    except ExtraMissing as error:
        pytest.fail(str(error), pytrace=False)
    from aerobee.testing.thread import ClusterThread

    with ClusterThread() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def rocketmq_namesrv_addr(rocketmq: "ClusterThread") -> str:
    """The `host:port` that a client of the `rocketmq` cluster is given as its nameserver."""
    return rocketmq.namesrv_addr
