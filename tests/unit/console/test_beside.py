"""A console in a nameserver's process: there where it is asked for, and not loaded elsewhere."""

import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from aerobee.console.serving import ConsoleServer
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings


async def test_it_serves_beside_a_nameserver_and_ends_with_it(tmp_path: Path) -> None:
    """`consoleEnabled=true` is all that it takes."""
    server = NameServer(_settings(tmp_path, console_enabled=True))
    await server.start()
    try:
        assert server.console is not None
        url = server.console.url
        async with aiohttp.ClientSession() as session, session.get(url) as reply:
            assert reply.status == 200 and "Overview" in await reply.text()
    finally:
        await server.stop()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2].strip("/")))) != 0


async def test_a_port_that_is_taken_leaves_the_nameserver_alone(tmp_path: Path) -> None:
    """Clients need it more than somebody needs a console."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = NameServer(_settings(tmp_path, console_enabled=True, console_port=port))
        await server.start()
        try:
            assert server.console is None and server.port
        finally:
            await server.stop()


async def test_a_console_that_does_not_stop_lets_the_nameserver_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What clients have registered is written and their connections are closed all the same."""
    server = NameServer(_settings(tmp_path, console_enabled=True))
    await server.start()
    stop = ConsoleServer.stop

    async def failing(console: ConsoleServer) -> None:
        await stop(console)
        raise ValueError("a fault of the console")

    monkeypatch.setattr(ConsoleServer, "stop", failing)
    port = server.port
    await server.stop()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_it_is_not_loaded_where_it_is_off() -> None:
    """Neither aiohttp nor Jinja2 come with a nameserver."""
    program = (
        "import asyncio, sys, tempfile, pathlib\n"
        "from aerobee.namesrv.app import NameServer\n"
        "from aerobee.namesrv.settings import NamesrvSettings\n"
        "async def main():\n"
        "    path = pathlib.Path(tempfile.mkdtemp()) / 'kv.json'\n"
        "    server = NameServer(NamesrvSettings(bind_address='127.0.0.1', listen_port=0,"
        " kv_config_path=path))\n"
        "    await server.start()\n"
        "    await server.stop()\n"
        "asyncio.run(main())\n"
        "print([m for m in sys.modules if m in ('aiohttp', 'jinja2', 'aerobee.console.app')])\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def _settings(tmp_path: Path, **more: object) -> NamesrvSettings:
    values = {"console_port": 0, **more}
    return NamesrvSettings(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=tmp_path / "kv.json",
        **values,  # type: ignore[arg-type]
    )
