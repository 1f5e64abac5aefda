"""Single sends are tested with the compiled code and with the Python."""

import pytest
from support.stand_ins.fake_cluster import FakeCluster

from aerobee.client.sending import fast, handles, lanes, offers, rings, soon


@pytest.fixture(params=["compiled", "python"])
def lane_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with the compiled code and with the Python."""
    if request.param == "compiled" and not fast.is_compiled:
        pytest.skip("built without a C compiler")
    if request.param == "python":
        monkeypatch.setattr(lanes, "Ring", rings.Ring)
        for name in ("Head", "Heads", "Sender"):
            monkeypatch.setattr(soon, name, getattr(offers, name))
        monkeypatch.setattr(soon, "Handle", handles.Handle)
    return str(request.param)


@pytest.fixture
def topic(cluster: FakeCluster) -> None:
    """Topic "t" has two queues on each broker."""
    cluster.create("t", 2)
