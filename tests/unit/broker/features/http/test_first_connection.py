"""The HTTP side listens from the start on; what answers is imported when somebody comes."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from support.servers.live_broker import live_broker

IDLE: Final = """
import asyncio, sys
from pathlib import Path

from support.servers.live_broker import live_broker

async def main(folder):
    async with live_broker(folder, http_port=0) as live:
        assert live.broker.http_port
        print("aiohttp" in sys.modules, "prometheus_client" in sys.modules)
        print((await live.get("/healthz"))[1].strip(), "aiohttp" in sys.modules)

asyncio.run(main(Path(sys.argv[1])))
"""


def test_nothing_is_imported_before_somebody_asks(tmp_path: Path) -> None:
    """A broker at rest has neither server nor exposition in its memory."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
    command = [sys.executable, "-c", IDLE, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["False False", "ok True"], done.stderr


async def test_a_taken_port_keeps_no_broker_from_serving(tmp_path: Path) -> None:
    """It goes on without, and says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with live_broker(tmp_path, http_port=port) as live:
            assert live.broker.http_port is None


async def test_who_waits_while_the_broker_stops_hears_the_end(tmp_path: Path) -> None:
    """A connection that nobody has served yet ends with the port."""
    async with live_broker(tmp_path, http_port=0) as live:
        port = live.broker.http_port
        assert port is not None
        client = socket.create_connection(("127.0.0.1", port), timeout=10)
    with client, suppress(ConnectionError):
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)
