"""Java clients with useTLS=true (`-Dtls.enable=true`) meet servers that nobody set up for it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.interop import peers
from support.interop.aerobee_server import Aerobee
from support.interop.peers import Consumer, Content, Peer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

JAVA = [peer for peer in peers.ALL if peer.tool == "java"]
OFFERED = "a certificate of our own is shown to clients"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aerobee]:
    """Our servers as they come: no setting says anything of TLS."""
    with Aerobee(tmp_path_factory.mktemp("tls")) as cluster:
        yield cluster
        cluster.stop()


@pytest.mark.parametrize("client", JAVA, ids=str)
def test_usetls_works_on_the_first_try(cluster: Aerobee, client: Peer) -> None:
    """Nameserver and broker make a certificate when they are asked for TLS, as RocketMQ's do."""
    options = {"JAVA_TOOL_OPTIONS": "-Dtls.enable=true"}
    secret = replace(client, environment=lambda: options)
    topic = f"tls-{client.name.replace('.', '_')}"
    messages = [Content("TagA", f"key-{number}", b"x" * 2000) for number in range(8)]
    sent = secret.produce(cluster.namesrv, topic, messages)
    assert [report["status"] for report in sent] == ["SEND_OK"] * len(messages)
    with Consumer(secret, cluster.namesrv, topic, f"{topic}-group") as consumer:
        received = consumer.wait_for(len(messages))
    assert sorted(message.content for message in received) == sorted(messages)
    for role in ("namesrv", "broker"):
        assert OFFERED in (cluster.directory / f"{role}.log").read_text()
