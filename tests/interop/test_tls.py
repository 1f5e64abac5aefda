"""Java clients with useTLS=true (`-Dtls.enable=true`) meet servers of every kind."""

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.interop import peers
from support.interop.aerobee_server import Aerobee
from support.interop.peers import Consumer, Content, Peer, PeerFailed
from support.interop.sessions import Session, wait_until
from support.servers.tls_certs import Pair

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

JAVA = [peer for peer in peers.ALL if peer.tool == "java"]
OFFERED = "a certificate of our own is shown to clients"


def java(client: Peer, **keys: str) -> Peer:
    """Return a client with RocketMQ's `tls.KEY` set, `_` for the dots of a key."""
    words = [f"-Dtls.{key.replace('_', '.')}={value}" for key, value in keys.items()]
    return replace(client, environment=lambda: {"JAVA_TOOL_OPTIONS": " ".join(words)})


def verifying(trusted: Pair, shown: Pair | None) -> Peer:
    """Return a client that trusts one server, and shows a certificate of its own, if any."""
    own = {"client_certPath": str(shown.cert), "client_keyPath": str(shown.key)} if shown else {}
    keys = {"enable": "true", "test_mode_enable": "false", "client_authServer": "true"}
    return java(peers.JAVA_5, **keys, client_trustCertPath=str(trusted.cert), **own)


def enforcing_settings(server: Pair) -> dict[str, str]:
    """Return the settings of servers that take TLS alone and show a certificate."""
    return {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(server.cert),
        "tls.server.keyPath": str(server.key),
    }


def asking(shown: Pair | None = None) -> ssl.SSLContext:
    """Return what the tests ask servers with whether they serve."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


def refused(cluster: Aerobee, client: Peer) -> str:
    """Return what the nameserver says of a client that cannot send."""
    log = cluster.directory / "namesrv.log"
    before = len(log.read_text())
    with Session(client, cluster.namesrv) as session, pytest.raises(PeerFailed, match="failed"):
        session.send("never", Content("", "", b"x"))
    return log.read_text()[before:]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aerobee]:
    """Our servers as they come: no setting says anything of TLS."""
    with Aerobee(tmp_path_factory.mktemp("tls")) as cluster:
        yield cluster
        cluster.stop()


@pytest.mark.parametrize("client", JAVA, ids=str)
def test_usetls_works_on_the_first_try(cluster: Aerobee, client: Peer) -> None:
    """Nameserver and broker make a certificate when they are asked for TLS, as RocketMQ's do."""
    secret = java(client, enable="true")
    topic = f"tls-{client.name.replace('.', '_')}"
    messages = [Content("TagA", f"key-{number}", b"x" * 2000) for number in range(8)]
    sent = secret.produce(cluster.namesrv, topic, messages)
    assert [report["status"] for report in sent] == ["SEND_OK"] * len(messages)
    with Consumer(secret, cluster.namesrv, topic, f"{topic}-group") as consumer:
        received = consumer.wait_for(len(messages))
    assert sorted(message.content for message in received) == sorted(messages)
    for role in ("namesrv", "broker"):
        assert OFFERED in (cluster.directory / f"{role}.log").read_text()


@dataclass(frozen=True)
class Enforcing:
    """Servers that take TLS alone, and the certificates of who is let in and who is not."""

    cluster: Aerobee
    server: Pair
    member: Pair | None  # what clients show where they have to show something
    expired: Pair
    stranger: Pair


@pytest.fixture(scope="module", params=["server", "both"])
def enforcing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Enforcing]:
    """Nameserver and broker show a certificate; with `both` whoever calls them has to, too."""
    folder = tmp_path_factory.mktemp("enforcing")
    server, member, expired, stranger = (
        Pair(folder, name) for name in ("server", "member", "expired", "stranger")
    )
    for pair in (server, member, expired, stranger):
        pair.write(pair.cert.stem, expired=pair is expired)
    settings = enforcing_settings(server) | {
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": str(server.cert),
    }
    both = request.param == "both"
    if both:
        trusted = folder / "trusted.pem"
        trusted.write_bytes(member.cert.read_bytes() + expired.cert.read_bytes())
        settings |= {
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": str(trusted),
            "tls.client.certPath": str(member.cert),
            "tls.client.keyPath": str(member.key),
        }
    shown = member if both else None
    with Aerobee(folder, settings=settings, tls=asking(shown)) as cluster:
        yield Enforcing(cluster, server, shown, expired, stranger)
        cluster.stop()


def test_verified_clients_live_through_a_restart(enforcing: Enforcing) -> None:
    """Send, push and pull, the broker goes and comes, and all three go on by themselves."""
    cluster, topic = enforcing.cluster, "restart"
    bodies = [b"%d" % number for number in range(8)]
    with Session(verifying(enforcing.server, enforcing.member), cluster.namesrv) as session:
        session.send(topic, Content("", "", bodies[0]))  # makes the topic
        members = [session.open(kind, f"{topic}-{kind}", topic) for kind in ("push", "lite")]
        for body in bodies[1:4]:
            assert session.send(topic, Content("", "", body))["status"] == "SEND_OK"
        for member in members:
            member.wait_for(4)
        cluster.stop_broker()
        cluster.start()
        for body in bodies[4:]:
            assert session.send(topic, Content("", "", body))["status"] == "SEND_OK"
        wait_until(session, lambda: all(set(m.bodies()) == set(bodies) for m in members), 60)


def test_who_does_not_trust_the_server_sends_nothing(enforcing: Enforcing) -> None:
    """The client ends the handshake, and the server says whose wish that was."""
    told = refused(enforcing.cluster, verifying(enforcing.stranger, enforcing.member))
    assert re.search("handshake failed.*CERTIFICATE_UNKNOWN", told)


def test_a_plain_client_is_told_of(enforcing: Enforcing) -> None:
    """An enforcing port closes at the first byte, and its log says what was wanted."""
    told = refused(enforcing.cluster, peers.JAVA_5)
    assert "it speaks no TLS, and tls.server.mode is enforcing here" in told


@pytest.mark.parametrize("enforcing", ["both"], indirect=True)
@pytest.mark.parametrize(
    ("who", "why"),
    [
        ("nobody", "peer did not return a certificate"),
        ("expired", "certificate has expired"),
        ("stranger", "self-signed certificate"),
    ],
)
def test_clients_that_show_nothing_good_are_refused(
    enforcing: Enforcing, who: str, why: str
) -> None:
    """No certificate, one that has ended, one of somebody that nobody knows."""
    shown = None if who == "nobody" else getattr(enforcing, who)
    told = refused(enforcing.cluster, verifying(enforcing.server, shown))
    assert re.search(f"handshake failed.*{why}", told)


def test_a_server_s_certificate_that_has_ended(tmp_path: Path) -> None:
    """The servers warn of it, and go on serving those who do not verify."""
    server = Pair(tmp_path)
    server.write("server", expired=True)
    client = java(peers.JAVA_5, enable="true")
    with Aerobee(tmp_path, settings=enforcing_settings(server), tls=asking()) as cluster:
        for role in ("namesrv", "broker"):
            assert "certificate has expired" in (tmp_path / f"{role}.log").read_text()
        sent = client.produce(cluster.namesrv, "t", [Content("", "", b"x")])
        assert sent[0]["status"] == "SEND_OK"
        cluster.stop()
