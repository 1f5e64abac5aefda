"""A console's connections: none holds its place without asking, or without reading."""

import asyncio
import socket

import pytest
from support.waiting import until

from aerobee.console import serving
from aerobee.console.serving import ConsoleServer
from aerobee.console.settings import ConsoleSettings


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
async def test_who_asks_for_nothing_loses_his_place(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some hundred of them would keep everybody else out, with half a request each."""
    monkeypatch.setattr(serving, "IDLE_S", 0.2)
    server = ConsoleServer(ConsoleSettings(namesrv_addr="127.0.0.1:1", console_port=0))
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
    finally:
        await server.stop()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="a system without it")
async def test_who_reads_nothing_loses_his_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """He asks for much and leaves it there; his place is free again by the system's doing."""
    monkeypatch.setattr(serving, "UNREAD_S", 1)
    server = ConsoleServer(ConsoleSettings(namesrv_addr="127.0.0.1:1", console_port=0))
    await server.start()
    url = server._console.assets.url("htmx.min.js")
    asked = f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect(("127.0.0.1", server.port))
        silent.settimeout(10)
        silent.sendall(asked * 200)
        runner = server._runner
        assert runner is not None and runner.server is not None
        connections = runner.server
        await until(lambda: connections.connections, 20)
        await until(lambda: not connections.connections, 20)
    await server.stop()
