"""A nameserver on a free port, and a connection to it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.asker import Asker, connect

from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "settings(**values): settings of the nameserver under test")


@pytest.fixture
async def server(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[NameServer]:
    """Start a nameserver; `@pytest.mark.settings(key=value)` on a test adds to its settings."""
    marker = request.node.get_closest_marker("settings")
    more: dict[str, Any] = dict(marker.kwargs) if marker else {}
    settings = NamesrvSettings(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=tmp_path / "kvConfig.json",
        **{"scan_interval_ms": 20} | more,
    )
    server = NameServer(settings)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def asker(server: NameServer) -> AsyncIterator[Asker]:
    """A connection to it."""
    async with await connect(server) as asker:
        yield asker
