"""One of both kinds of server, for what is done over each in turn."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.interop import toolchain
from support.interop.cluster import Cluster
from support.interop.rocketmq_server import RocketMQ


@contextmanager
def running(kind: type[Cluster], folder: Path, settings: Mapping[str, str]) -> Iterator[Cluster]:
    """Run a cluster and have it stop well; skip RocketMQ's where no Java is wanted."""
    if kind is RocketMQ and "java" in toolchain.given_up():
        pytest.skip(f"left out by {toolchain.WITHOUT_VARIABLE}")
    with kind(folder, settings=dict(settings)) as cluster:
        yield cluster
        cluster.stop()
