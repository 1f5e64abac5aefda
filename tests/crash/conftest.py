"""No test of this folder leaves a broker behind, whatever it fails at."""

from collections.abc import Iterator

import pytest
from support.servers.killed_broker import KilledBroker


@pytest.fixture(autouse=True)
def nobody_left() -> Iterator[None]:
    """End what was started."""
    yield
    KilledBroker.end_all()
