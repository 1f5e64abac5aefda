"""A cluster that speaks nothing but TLS, with certificates on both sides: everybody is in."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.servers.live_broker import small_settings
from support.servers.tls_certs import CERTS
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.cli import main
from aerobee.client import ClientSettings, Message, Producer, PushConsumer, TlsClientSettings
from aerobee.client.received import ReceivedMessage
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.net.tls import TlsError
from aerobee.spark.network.brokers import Network
from aerobee.spark.network.cluster import LoopThread
from aerobee.spark.network.reads import NetworkPiece, network_records
from aerobee.spark.options.query import parse_options
from aerobee.spark.records.selection import EVERYTHING
from aerobee.spark.topics import TopicChoice

SERVER: dict[str, Any] = {
    "tls_server_mode": "enforcing",
    "tls_server_cert_path": str(CERTS / "server.pem"),
    "tls_server_key_path": str(CERTS / "server.key"),
    "tls_server_auth_client": True,
    "tls_server_need_client_auth": "require",
    "tls_server_trust_cert_path": str(CERTS / "ca.pem"),
}
CALLS: dict[str, Any] = {
    "tls_client_auth_server": True,
    "tls_client_trust_cert_path": str(CERTS / "ca.pem"),
    "tls_client_cert_path": str(CERTS / "client.pem"),
    "tls_client_key_path": str(CERTS / "client.key"),
}
CLIENT = ClientSettings(
    tls=TlsClientSettings(
        cert_path=str(CERTS / "client.pem"),
        key_path=str(CERTS / "client.key"),
        verify_server=True,
        trust_cert_path=str(CERTS / "ca.pem"),
        check_hostname=True,
    )
)
OPTIONS = [
    "--tls-enable",
    "--tls-client-auth-server",
    *("--tls-client-trust-cert-path", str(CERTS / "ca.pem")),
    *("--tls-client-cert-path", str(CERTS / "client.pem")),
    *("--tls-client-key-path", str(CERTS / "client.key")),
]


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the nameserver, with which a broker has registered."""
    folder = tmp_path_factory.mktemp("tls")
    with LoopThread("tls") as loop:
        settings = NamesrvSettings(
            bind_address="127.0.0.1", listen_port=0, kv_config_path=folder / "kv.json", **SERVER
        )
        server = NameServer(settings)
        loop.run(server.start())
        address = f"127.0.0.1:{server.port}"
        broker = Broker(small_settings(folder, namesrv_addr=address, **SERVER, **CALLS))
        loop.run(broker.start())
        assert broker.context.cluster.registration.registered
        yield address
        loop.run(broker.stop())
        loop.run(server.stop())


def run(*words: str) -> Result:
    """Run a command of `aerobee`."""
    return CliRunner().invoke(main.main, list(words))


def test_commands(namesrv: str) -> None:
    """A topic is made and shown; who speaks plain, or has no certificate, is told in one line."""
    made = run("create-topic", "by-command", "-n", namesrv, *OPTIONS)
    assert made.exit_code == 0, made.output
    shown = run("status", "-n", namesrv, *OPTIONS)
    assert "by-command" in shown.stdout, shown.output
    for others in ([], ["--tls-enable"]):
        refused = run("status", "-n", namesrv, *others)
        assert refused.exit_code == 1
        assert refused.stderr.startswith(f"error: {namesrv}") or namesrv in refused.stderr
    wrong = run("status", "-n", namesrv, *OPTIONS[1:])
    assert (wrong.exit_code, "--tls-enable" in wrong.stderr) == (2, True)


async def test_a_broker_whose_certificate_is_missing_does_not_start(tmp_path: Path) -> None:
    """With the key and the path, before a client could come."""
    calls = {"tls_enable": True, "tls_client_cert_path": str(tmp_path / "nothing.pem")}
    broker = Broker(small_settings(tmp_path, **calls))
    with pytest.raises(TlsError, match=r"tls\.client\.certPath='.*nothing\.pem'"):
        await broker.start()


async def test_producers_and_consumers(namesrv: str) -> None:
    """What is sent arrives, over verified connections to nameserver and broker."""
    seen: list[bytes] = []

    async def handler(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with Producer(namesrv=namesrv, client=CLIENT) as producer:
        await asyncio.gather(
            *(producer.send(Message("by-client", str(n).encode())) for n in range(20))
        )
    consumer = PushConsumer("g", namesrv=namesrv, client=CLIENT)
    consumer.subscribe("by-client", handler)
    async with consumer:
        await until(lambda: len(seen) >= 20)
    assert sorted(seen) == sorted(str(n).encode() for n in range(20))


async def test_reads_of_spark(namesrv: str, tmp_path: Path) -> None:
    """Driver and tasks read over TLS, as its options say."""
    async with Producer(namesrv=namesrv, client=CLIENT) as producer:
        for number in range(5):
            await producer.send(Message("by-spark", str(number).encode()))
    given = {
        "namesrv": namesrv,
        "tls": "true",
        "tlsTrustCertPath": str(CERTS / "ca.pem"),
        "tlsCheckHostname": "true",
        "tlsCertPath": str(CERTS / "client.pem"),
        "tlsKeyPath": str(CERTS / "client.key"),
    }
    address = parse_options(given).network
    assert address is not None

    def count() -> int:
        with Network(address) as network:
            ranges = network.bounds(TopicChoice(names=frozenset({"by-spark"}))).values()
        piece = NetworkPiece(address, tuple(ranges))
        return sum(len(records) for _, records in network_records(piece, EVERYTHING))

    assert await asyncio.to_thread(count) == 5
