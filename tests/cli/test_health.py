"""`aerobee health` beside servers that live, that are not of use, and that hang."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner, Result
from support.servers.live_broker import live_broker
from support.servers.tls_certs import CERTS

from aerobee.cli import main
from aerobee.cli.health import Place, usual_places
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings


async def health(*options: str, environ: dict[str, str] | None = None) -> Result:
    """Run the command beside the loop."""
    return await asyncio.to_thread(
        CliRunner().invoke, main.main, ["health", *options], env=environ or {}
    )


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of a process whose loop does not turn: the system accepts, nobody answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def test_a_broker_lives_though_it_is_of_no_use(tmp_path: Path) -> None:
    """Which a restart would not mend; `--ready` says what is missing."""
    async with live_broker(tmp_path, http_port=0, namesrv_addr="127.0.0.1:1") as live:
        http = f"127.0.0.1:{live.broker.http_port}"
        lives = await health("--http", http)
        assert (lives.exit_code, lives.stdout) == (0, "ok\n")
        ready = await health("--http", http, "--ready")
        assert ready.exit_code == 1
        assert "not registered with any nameserver" in ready.stderr
        by_environment = await health(environ={"AEROBEE_HTTP_PORT": str(live.broker.http_port)})
        assert (by_environment.exit_code, by_environment.stdout) == (0, "ok\n")
        asked = await health("--remoting", f"127.0.0.1:{live.broker.port}")
        assert (asked.exit_code, asked.stdout) == (0, "ok\n")
    gone = await health("--http", http)
    assert (gone.exit_code, gone.stderr) == (1, f"error: nobody listens at {http}\n")


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
async def test_a_nameserver_lives_whatever_it_answers(
    mode: Literal["permissive", "enforcing"], tmp_path: Path
) -> None:
    """One that speaks TLS alone hangs up, which it would not if it did not live."""
    server = NameServer(
        NamesrvSettings(
            bind_address="127.0.0.1",
            listen_port=0,
            kv_config_path=tmp_path / "kv.json",
            tls_server_mode=mode,
            tls_server_cert_path=str(CERTS / "server.pem"),
            tls_server_key_path=str(CERTS / "server.key"),
        )
    )
    await server.start()
    try:
        environ = {"AEROBEE_LISTEN_PORT": str(server.port), "AEROBEE_HTTP_PORT": "off"}
        found = await health(environ=environ)
        assert (found.exit_code, found.stdout) == (0, "ok\n"), found.output
    finally:
        await server.stop()


@pytest.mark.parametrize("option", ["--http", "--remoting"])
async def test_who_does_not_answer_does_not_live(option: str, deaf: str) -> None:
    """That the system takes a connection says nothing of the loop."""
    found = await health(option, deaf, "--timeout", "0.2")
    assert (found.exit_code, found.stdout) == (1, "")
    assert deaf in found.stderr and "timed out" in found.stderr


@pytest.mark.parametrize(
    ("settings", "places"),
    [
        ({}, [("127.0.0.1", 10913, True), ("127.0.0.1", 9876, False), ("127.0.0.1", 10911, False)]),
        (
            {"AEROBEE_LISTEN_PORT": "20911", "AEROBEE_HTTP_HOST": "0.0.0.0"},
            [("127.0.0.1", 20913, True), ("127.0.0.1", 20911, False)],
        ),
        (
            {"AEROBEE_HTTP_PORT": "8080", "AEROBEE_HTTP_HOST": "10.0.0.7"},
            [("10.0.0.7", 8080, True), ("127.0.0.1", 9876, False), ("127.0.0.1", 10911, False)],
        ),
        (
            {"AEROBEE_HTTP_PORT": "off", "AEROBEE_LISTEN_PORT": "9"},
            [("127.0.0.1", 9, False)],
        ),
    ],
)
def test_a_server_is_looked_for_where_its_environment_has_it(
    settings: dict[str, str], places: list[tuple[str, int, bool]]
) -> None:
    """As the servers take the same variables."""
    assert [*usual_places(settings)] == [Place(*place) for place in places]
