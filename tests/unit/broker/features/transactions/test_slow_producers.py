"""Questions to producers that read slowly, or not at all: they get what they can take."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from io import StringIO
from pathlib import Path

import pytest
from support.features.transactions import HALF, begin, producer_beat, records, transactions
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.transactions import asking
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.net.logs.server_log import LIKE_MAX, ServerLog

HALVES = 120
BODY = bytes(100 << 10)
UNSENT_MAX = 1 << 20
SETTINGS = {
    "transactionTimeOut": "600000",
    "transactionCheckInterval": "600000",
    "writeBytesMax": str(UNSENT_MAX),
    "mappedFileSizeCommitLog": str(64 << 20),
}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that asks about everything when it is told to."""
    async with running_broker(tmp_path, **SETTINGS) as running:
        yield running


@pytest.fixture
def peer_log() -> Iterator[StringIO]:
    """What a server's log has of questions."""
    log, text = logging.getLogger(asking.__name__), StringIO()
    handler, level = ServerLog(text), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield text
    log.setLevel(level)
    log.removeHandler(handler)


async def make_due(port: int) -> None:
    """Let all that is open be asked about now, at once."""
    async with await RawPeer.connect(port) as tool:
        code = RequestCode.UPDATE_BROKER_CONFIG
        command = Command(code, {}, b"transactionTimeOut=1\n", opaque=next_opaque())
        assert (await tool.request(command)).code == 0


async def asked(peer: RawPeer, count: int) -> Counter[str]:
    """Read questions, each about which message."""
    return Counter([(await peer.read(30)).ext["transactionId"] for _ in range(count)])


async def test_who_reads_is_asked_about_everything(broker: Broker) -> None:
    """More than a connection may have unsent is due at once: none is cut, and none left out."""
    async with (
        await RawPeer.connect(broker.port) as peer,
        await RawPeer.connect(broker.port) as other,
    ):
        assert (await peer.request(producer_beat())).code == 0
        for number in range(HALVES):
            await begin(other, BODY, key=f"K{number}")
        reading = asyncio.create_task(asked(peer, HALVES))
        await make_due(broker.port)
        assert await reading == {f"K{number}": 1 for number in range(HALVES)}


async def test_who_reads_nothing_is_not_asked_for_more(broker: Broker) -> None:
    """What waits for it is bounded and not counted as asked; others are; later it gets the rest."""
    async with (
        await RawPeer.connect(broker.port) as silent,
        await RawPeer.connect(broker.port) as other,
    ):
        assert (await silent.request(producer_beat())).code == 0
        for number in range(HALVES):
            await begin(other, BODY, key=f"K{number}")
        await begin(other, b"small", key="SMALL", group="pg2")
        assert (await other.request(producer_beat("pg2", "c2"))).code == 0
        await make_due(broker.port)
        assert (await other.read(30)).ext["transactionId"] == "SMALL"
        (connection,) = broker.context.consumers.members.producers_of("pg", "t")
        await until(lambda: not connection.takes_more, what="it has enough")
        await asyncio.sleep(0.5)  # several looks
        assert connection.transport.get_write_buffer_size() < UNSENT_MAX
        checks = transactions(broker).shown()["transactions"]["checks"]
        assert checks < HALVES, "who cannot be asked was not"
        assert len(records(broker, HALF)) == HALVES + 1 + checks
        assert await asked(silent, HALVES) == {f"K{number}": 1 for number in range(HALVES)}


async def test_who_is_not_there_fills_no_log(broker: Broker, peer_log: StringIO) -> None:
    """Whoever begins transactions and goes leaves a line for some of them, and how many more."""
    count = 3 * LIKE_MAX
    async with await RawPeer.connect(broker.port) as peer:
        for number in range(count):
            await begin(peer, b"%d" % number)
    await make_due(broker.port)
    await until(lambda: len(records(broker, HALF)) == 2 * count, what="all are looked at")
    assert 0 < peer_log.getvalue().count("nobody_to_ask") <= LIKE_MAX
