"""Every test here runs on plain asyncio and on uvloop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from support.servers.net_servers import Servers


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Name the event loops that each asynchronous test runs on."""
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def start_server() -> AsyncIterator[Servers]:
    """Let a test start servers: `server = await start_server(handler, limits=...)`."""
    async with Servers() as servers:
        yield servers
