"""Exports without a Spark session, and each way of going through records."""

from __future__ import annotations

import pytest
from support.lake.exports import Inline

from aerobee.spark.records import loops as passes
from aerobee.spark.records.numpy_loops import NumpyLoops


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> Inline:
    """Tasks run here, one after the other."""
    return Inline().use(monkeypatch)


@pytest.fixture(params=["compiled", "numpy"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiled loops and without them."""
    if request.param == "numpy":
        monkeypatch.setattr(passes, "chosen", NumpyLoops())
    elif type(passes.chosen) is NumpyLoops:
        pytest.skip("built without a C compiler")
