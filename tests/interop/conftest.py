"""The servers that the peers meet: ours by default, the real one to check the tests themselves."""

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.interop import peers, toolchain
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.meeting import SETTINGS, Meeting, is_all_foreign
from support.interop.peers import Peer
from support.interop.rocketmq_server import RocketMQ

PEERS: dict[str, list[Peer]] = {
    "peer": list(peers.ALL),
    "batching_peer": [peer for peer in peers.ALL if peer.batches],
    "creating_peer": [peer for peer in peers.ALL if peer.creates_topics],
}
SERVERS: dict[str, type[Cluster]] = {"aerobee": Aerobee, "rocketmq": RocketMQ}


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark that names the tools a test needs beside its `peer`."""
    config.addinivalue_line("markers", "needs(*tools): left out with AEROBEE_INTEROP_WITHOUT")


def chosen_servers() -> list[str]:
    """The servers that AEROBEE_INTEROP_SERVER names."""
    return os.environ.get("AEROBEE_INTEROP_SERVER", "aerobee").split(",")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what takes a `server` against each chosen one, and what takes a peer with each."""
    if "server_kind" in metafunc.fixturenames:
        metafunc.parametrize("server_kind", chosen_servers(), scope="session")
    for argument, choice in PEERS.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, choice, ids=str)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a foreign client that meets a foreign broker try twice, and nothing else.

    Such a pair only shows that the test itself is right. On a busy machine it loses a message
    between themselves now and then, in which nothing of ours takes part and which says nothing of
    ours; the summary of the run counts what was tried again.
    """
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and is_all_foreign(callspec.params):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Leave a test out whose tools cannot be had, where this machine is told that some may lack."""
    with _if_there(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Likewise of tools that a test fetches itself."""
    with _if_there(item):
        return (yield)


@contextmanager
def _if_there(item: pytest.Item) -> Iterator[None]:
    try:
        yield
    except (toolchain.ToolMissing, toolchain.BuildFailed) as error:
        marker = item.get_closest_marker("needs")
        if marker is None or not toolchain.optional().issuperset(marker.args):
            raise
        pytest.skip(f"{', '.join(marker.args)} cannot be had here: {error}")


@pytest.fixture(autouse=True)
def _knowingly_without(request: pytest.FixtureRequest) -> None:
    """Skip a peer that this machine is told to do without; anything else that lacks must fail."""
    without = toolchain.given_up()
    callspec = getattr(request.node, "callspec", None)
    for argument in callspec.params.values() if callspec is not None else ():
        if isinstance(argument, Peer) and argument.tool in without:
            pytest.skip(f"{argument} is left out by {toolchain.WITHOUT_VARIABLE}")
    marker = request.node.get_closest_marker("needs")
    if marker is not None and without.intersection(marker.args):
        pytest.skip(f"left out by {toolchain.WITHOUT_VARIABLE}")


@pytest.fixture(scope="session")
def server(server_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A serving nameserver and broker, shared by all tests of the run."""
    cluster = SERVERS[server_kind](tmp_path_factory.mktemp(server_kind))
    try:
        with cluster:
            yield cluster
            cluster.stop()
    finally:
        for log in sorted(Path(cluster.directory).glob("*.log")):
            sys.stderr.write(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}\n")


@pytest.fixture(scope="session", params=["rocketmq", "aerobee"])
def meeting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Meeting]:
    """Each server in turn with SQL92 and short delays, and the peer programs that met it."""
    if request.param == "rocketmq" and "java" in toolchain.given_up():
        pytest.skip(f"java is left out by {toolchain.WITHOUT_VARIABLE}")
    directory = tmp_path_factory.mktemp(f"meeting-{request.param}")
    with SERVERS[request.param](directory, settings=SETTINGS) as cluster:
        with Meeting(cluster) as meeting:
            yield meeting
        cluster.stop()
