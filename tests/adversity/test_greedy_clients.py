"""Clients that take what they can get, against a broker process: memory stays bounded.

Beside each of them a well-behaved client goes on; it must be answered all the time.
"""

import asyncio
import struct
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, send_command
from support.servers.child_broker import ChildBroker, child_broker
from support.waiting import until

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import encode_frame

MIB = 1 << 20
ANSWERED_WITHIN_S = 3.0  # on a machine that does other work; what is looked for takes far longer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    """A broker process of its own for every test."""
    with child_broker(tmp_path) as started:
        yield started


@asynccontextmanager
async def neighbour(broker: ChildBroker) -> AsyncIterator[list[float]]:
    """Send small messages all the time; the seconds that each took, all of them stored."""
    times: list[float] = []

    async def send() -> None:
        async with await RawPeer.connect(broker.port) as peer:
            while True:
                begun = time.monotonic()
                await peer.send(encode_frame(send_command(topic="NEIGHBOUR")))
                reply = await peer.read(60)
                assert reply.code == ResponseCode.SUCCESS, reply.remark
                times.append(time.monotonic() - begun)
                await asyncio.sleep(0.01)

    sending = asyncio.create_task(send())
    await until(lambda: len(times) > 5 or sending.done())
    times.clear()
    try:
        yield times
        seen = len(times)
        await until(lambda: len(times) > seen + 5 or sending.done(), 60)
        assert max(times) < ANSWERED_WITHIN_S
    finally:
        sending.cancel()
        await asyncio.wait([sending])
    assert sending.cancelled() or sending.exception() is None


async def store_large(broker: ChildBroker, topic: str, count: int) -> None:
    """Store messages as large as they may be."""
    async with await RawPeer.connect(broker.port) as peer:
        for _ in range(count):
            assert (await peer.request(send_command(bytes(4 * MIB), topic=topic))).code == 0


async def test_pulls_that_nobody_reads_cost_little(broker: ChildBroker) -> None:
    """2 GiB of replies are asked for in half a megabyte, and none is taken."""
    await store_large(broker, "LARGE", 1)
    before_mb = broker.peak_mb
    asked = b"".join(encode_frame(pull_command(topic="LARGE")) for _ in range(500))
    async with neighbour(broker) as times, await RawPeer.connect(broker.port) as peer:
        await peer.send(asked)
        await until(lambda: len(times) > 40, 60)
        assert broker.peak_mb - before_mb < 64


async def test_a_crowd_of_waiting_pulls_that_nobody_reads(broker: ChildBroker) -> None:
    """One large message wakes a thousand pulls of a peer that reads nothing."""
    async with await RawPeer.connect(broker.port) as producer:
        await producer.request(send_command(topic="CROWD"))
        before_mb = broker.peak_mb
        asked = encode_frame(pull_command(1, topic="CROWD", suspend_ms=60_000)) * 1000
        async with neighbour(broker) as times, await RawPeer.connect(broker.port) as peer:
            await peer.send(asked)
            await until(lambda: len(times) > 10, 60)  # they wait in the broker
            await producer.send(encode_frame(send_command(bytes(4 * MIB), topic="CROWD")))
            assert (await producer.read(60)).code == ResponseCode.SUCCESS
            assert await peer.closed(60), "cut off as a slow reader"
        assert broker.peak_mb - before_mb < 256


async def test_pulls_held_by_one_client_leave_room_for_others(tmp_path: Path) -> None:
    """One connection gets its share of the places; what it held is free when it leaves."""
    limits = {"heldPullsMax": 50, "heldPullsPerConnectionMax": 40}
    with child_broker(tmp_path, **limits) as broker:
        async with await RawPeer.connect(broker.port) as producer:
            await producer.request(send_command())
            for _ in range(5):
                async with await RawPeer.connect(broker.port) as greedy:
                    pulls = [pull_command(1, suspend_ms=600_000) for _ in range(41)]
                    await greedy.send(b"".join(map(encode_frame, pulls)))
                    reply = await greedy.read()
                    assert (reply.code, reply.opaque) == (
                        ResponseCode.SYSTEM_BUSY,
                        pulls[-1].opaque,
                    )
                    assert (await producer.request(pull_command(1, suspend_ms=1))).code == (
                        ResponseCode.PULL_NOT_FOUND
                    )


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":310,"x":' + b"[" * 100_000,
        b'{"code":11,"extFields":{"a":' + b'{"a":' * 50_000,
        b"[{" * 1_000_000,
    ],
    ids=["send", "pull", "any"],
)
async def test_deep_headers_close_their_connection(broker: ChildBroker, header: bytes) -> None:
    """Nesting is no fault of the broker: one line in its log, and no trace."""
    async with neighbour(broker), await RawPeer.connect(broker.port) as peer:
        await peer.send(struct.pack(">II", 4 + len(header), len(header)) + header)
        assert await peer.closed()
    assert broker.log.count("protocol error") == 1
    assert "Traceback" not in broker.log
