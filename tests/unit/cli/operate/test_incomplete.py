"""A broker that has registered and does not answer: what is shown, said, and refused."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.servers.commands import Commands

from aerobee.admin import AdminClient
from aerobee.remoting.bodies import RegisterBrokerBody, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.registration import RegisterBrokerRequest
from aerobee.testing import EmbeddedCluster


@pytest.fixture
async def commands(tmp_path: Path) -> AsyncIterator[Commands]:
    """Run commands over a broker that is well, with a topic, and one that is away."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    header = RegisterBrokerRequest(
        broker_name="broker-away",
        broker_addr=address,
        cluster_name="DefaultCluster",
        ha_server_addr=address,
        broker_id=0,
    )
    body = encode_body(RegisterBrokerBody())
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("orders", 2)
        async with AdminClient(cluster.namesrv_addr) as away:  # whose connection keeps it there
            namesrv = cluster.namesrv_addr
            await away.connections.request(namesrv, RequestCode.REGISTER_BROKER, header, body)
            yield Commands(namesrv)


@pytest.mark.parametrize("words", [("topic", "list"), ("group", "list"), ("broker", "list")])
async def test_a_listing_shows_what_it_has_and_ends_with_4(
    commands: Commands, words: tuple[str, ...]
) -> None:
    """The broker that says nothing is named on standard error."""
    result = await asyncio.to_thread(lambda: commands(*words, code=4))
    assert "broker-a" in result.stdout or words == ("group", "list")
    assert result.stderr.startswith("warning: nothing from broker-away: ")
    assert "broker-away" not in result.stdout


async def test_what_would_mislead_by_halves_fails(commands: Commands, tmp_path: Path) -> None:
    """A file of half a cluster would delete the rest; a topic is made everywhere or nowhere."""
    file = tmp_path / "cluster.json"

    def work() -> None:
        commands("config", "export", "-f", str(file), code=1)
        commands("topic", "create", "nowhere", code=1)
        assert commands.json("topic", "list", "--like", "nowhere", "-b", "broker-a") == []
        commands("topic", "create", "somewhere", "-b", "broker-a")

    await asyncio.to_thread(work)
    assert not file.exists()


async def test_the_doctor_names_it(commands: Commands) -> None:
    """With what to do."""
    rows = await asyncio.to_thread(lambda: commands.json("doctor", "--topic", "orders", code=1))
    assert rows[0]["where"].startswith("broker-away (")
    assert "is not reached at the address that it tells clients" in rows[0]["what"]
    assert "brokerIP1" in rows[0]["do"]
