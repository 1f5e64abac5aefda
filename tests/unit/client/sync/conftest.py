"""A cluster in a thread of its own, as the tests of what blocks need it."""

from collections.abc import Iterator

import pytest

from aerobee.testing import ClusterThread

SETTINGS = {
    "recall_message_enable": True,
    "message_delay_level": " ".join(["1s"] * 18),
    "transaction_time_out": 1000,
    "transaction_check_interval": 300,
}


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The nameserver of one broker, that the tests of a module share."""
    root = tmp_path_factory.mktemp("cluster")
    with ClusterThread(root=root, broker_settings=SETTINGS) as cluster:
        yield cluster.namesrv_addr
