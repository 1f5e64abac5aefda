"""Unmodified producers whose answers are lost send again, and each message is stored once."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from support.features.dedup import stored, watch
from support.interop import peers
from support.interop.aerobee_server import Aerobee
from support.interop.lossy_proxy import LossyProxy
from support.interop.peers import Content, Peer
from support.raw_peer import RawPeer

from aerobee.client.message import Message
from aerobee.client.sending.producer import Producer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

MESSAGES = 60
LOST = 0.2
PROXY, BROKER = "127.0.0.2", "127.0.0.1"


@pytest.mark.parametrize(
    "producer",
    [
        pytest.param(peers.JAVA_5, marks=pytest.mark.needs("java"), id="java"),
        pytest.param(peers.GO, marks=pytest.mark.needs("go"), id="go"),
        pytest.param(None, id="ours"),
    ],
)
@pytest.mark.parametrize("once", [True, False])
def test_what_is_sent_again_is_stored_once(
    tmp_path: Path, producer: Peer | None, once: bool
) -> None:
    """Every fifth answer is lost with its connection; without the attribute it shows."""
    cluster = Aerobee(tmp_path, settings={"bindAddress": BROKER})
    port = int(cluster.broker.rpartition(":")[2])
    cluster.broker = f"{PROXY}:{port}"  # what clients are told
    with LossyProxy((PROXY, port), (BROKER, port), LOST) as proxy, cluster:
        asyncio.run(_make(port, 600 if once else 0))
        messages = [Content("Tag", f"key-{i}", b"%d" % i) for i in range(MESSAGES)]
        if producer is None:
            asyncio.run(_produce(cluster.namesrv, messages))
        else:
            sent = producer.produce(cluster.namesrv, "T", messages)
            assert [answer["status"] for answer in sent] == ["SEND_OK"] * MESSAGES
        found = asyncio.run(_stored(port))
    assert proxy.dropped > MESSAGES * LOST / 2
    assert found.keys() == {b"%d" % i for i in range(MESSAGES)}
    assert found.total() == MESSAGES + (0 if once else proxy.dropped)


async def _make(port: int, seconds: int) -> None:
    async with await RawPeer.connect(port) as peer:
        await watch(peer, "T", seconds)


async def _produce(namesrv: str, messages: list[Content]) -> None:
    async with Producer("p", namesrv=namesrv) as producer:
        for message in messages:
            await producer.send(Message("T", message.body))


async def _stored(port: int) -> Counter[bytes]:
    async with await RawPeer.connect(port) as peer:
        return Counter(bytes(record.body) for record in await stored(peer))
