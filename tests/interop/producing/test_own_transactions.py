"""Our client's transactions, times, recalls and searches: ours, and the real RocketMQ 5.5.0."""

from collections.abc import Awaitable, Callable, Iterator

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.own_features import CASES, SETTINGS
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java")]


@pytest.fixture(scope="module", params=[Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
def namesrv(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The nameserver of a cluster with one broker, which asks about half messages soon."""
    kind: type[Cluster] = request.param
    with kind(tmp_path_factory.mktemp("own-transactions"), settings=SETTINGS) as cluster:
        yield cluster.namesrv


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_the_promise_holds(namesrv: str, case: Callable[[str], Awaitable[None]]) -> None:
    """As the case says."""
    await case(namesrv)
