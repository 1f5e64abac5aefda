"""Reads land in memory that all connections share: cut anywhere, what was sent is served."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command
from support.waiting import until
from support.wire import Wire, connect, deliver, feed

from aerobee.broker.app import Broker
from aerobee.broker.writing.tick import COMMIT_BYTES
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.net.read_buffer import FRONT_BYTES, READ_BYTES

ROOMY = {"mappedFileSizeCommitLog": str(32 << 20), "maxMessageSize": str(4 << 20)}


@pytest.fixture(params=["true", "false"])
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker whose topic is known, with compiled sends and without."""
    async with running_broker(tmp_path, compiledFastPath=request.param, **ROOMY) as running:
        connection, wire = connect(running)
        connection.data_received(encode_frame(send_command(b"first")))
        await until(wire.replies, what="the topic is known")
        yield running


def bodies(broker: Broker, queue_id: int) -> list[bytes]:
    """Return what a queue has, in order."""
    stored, log = broker.context.writing.queues.get("T", queue_id).stored, broker.store.commit_log
    found = []
    for offset in range(stored.min_offset, stored.max_offset):
        position, size, _ = stored.entry(offset)
        record = log.read(position, size)
        body_bytes = int.from_bytes(record[84:88], "big")
        found.append(record[88 : 88 + body_bytes])
    return found


def answered(wire: Wire, count: int) -> Callable[[], bool]:
    """Return what says whether there are so many replies."""
    return lambda: len(wire.replies()) == count


def cut(stream: bytes, chance: random.Random, most: int) -> list[bytes]:
    """Cut a stream into pieces of random lengths."""
    pieces, at = [], 0
    while at < len(stream):
        size = chance.choice([1, 3, 4, 5, 8, 100, chance.randint(1, most)])
        pieces.append(stream[at : at + size])
        at += size
    return pieces


@pytest.mark.parametrize("seed", range(4))
async def test_messages_of_any_size_cut_anywhere_are_stored_as_sent(
    broker: Broker, seed: int
) -> None:
    """On two connections that are read in turn: short ones, and longer than all of that memory."""
    chance = random.Random(seed)
    sizes = [1, 100, 1024, 5000, FRONT_BYTES - 300, FRONT_BYTES + 10, READ_BYTES + 1, 700_000]
    peers = [(queue_id, *connect(broker)) for queue_id in (1, 2)]
    sent = {1: list[bytes](), 2: list[bytes]()}
    pieces = {}
    for queue_id, _, _ in peers:
        for _ in range(30):
            sent[queue_id].append(chance.randbytes(chance.choice(sizes)))
        frames = [encode_frame(send_command(body, queue_id=queue_id)) for body in sent[queue_id]]
        pieces[queue_id] = cut(b"".join(frames), chance, READ_BYTES)
    for turn in range(max(map(len, pieces.values()))):
        for queue_id, connection, wire in peers:
            await feed(connection, wire, pieces[queue_id][turn : turn + 1])
    for queue_id, connection, wire in peers:
        await until(answered(wire, 30), what="all are answered")
        assert {reply.code for reply in wire.replies()} == {ResponseCode.SUCCESS}
        assert bodies(broker, queue_id) == sent[queue_id]
        assert not connection.reading.frame.held_bytes
        assert not connection.budget.partial_bytes


@pytest.mark.parametrize("length", [-1, 0, 3, 0x7FFF_FFFF])
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("word_at_once", [True, False])
async def test_a_length_that_no_frame_has_ends_the_connection_alone(
    broker: Broker, length: int, before: int, word_at_once: bool
) -> None:
    """Behind a good message or none, whole or in two reads: what was sent before is stored."""
    connection, wire = connect(broker)
    data = encode_frame(send_command(b"good")) * before + length.to_bytes(4, "big", signed=True)
    at = len(data) if word_at_once else len(data) - 2
    for piece in (data[:at], data[at:], b"more of it"):
        if piece and not wire.ended:
            deliver(connection, piece)
            await asyncio.sleep(0)
    assert wire.ended
    assert connection.close_reason == "protocol error"
    assert bodies(broker, 0) == [b"first"] + [b"good"] * before


async def test_much_in_one_turn_is_answered_before_the_turn_ends(broker: Broker) -> None:
    """What has filled the log so far is written, and its senders may go on."""
    connection, wire = connect(broker)
    frame = encode_frame(send_command(bytes(1000)))
    count = COMMIT_BYTES // len(frame) // 2
    deliver(connection, frame * count)
    assert not wire.written
    log = broker.store.commit_log
    deliver(connection, frame * (COMMIT_BYTES // len(frame) + 1))
    assert len(wire.replies()) >= count
    assert log.position - log.committed < COMMIT_BYTES


async def test_with_sync_flush_a_turn_waits_for_one_sync(tmp_path: Path) -> None:
    """However much it brings: a sync of its own for each part would take longer."""
    async with running_broker(tmp_path, flushDiskType="SYNC_FLUSH", **ROOMY) as broker:
        connection, wire = connect(broker)
        connection.data_received(encode_frame(send_command(b"first")))
        await until(wire.replies, what="the topic is known")
        wire.written.clear()
        frame, log = encode_frame(send_command(bytes(1000))), broker.store.commit_log
        committed = log.committed
        deliver(connection, frame * 100)
        deliver(connection, frame * 100)
        deliver(connection, frame * 100)
        assert log.committed == committed
        await until(answered(wire, 300), what="the disk has answered")


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_both_loops_read_into_that_memory(loop: type, tmp_path: Path) -> None:
    """A real socket: what comes in pieces, and whether it is read where it is to land."""

    async def run() -> None:
        async with running_broker(tmp_path, **ROOMY) as broker:
            landing = broker.context.front.read_buffer.landing
            async with await RawPeer.connect(broker.port) as peer:
                await peer.send(encode_frame(send_command(b"first")))
                await peer.read(timeout_s=10)
                sent = [bytes([n]) * 40_000 for n in range(1, 20)]
                frames = [encode_frame(send_command(body, queue_id=1)) for body in sent]
                await peer.send(b"".join(frames))
                for _ in sent:
                    assert (await peer.read(timeout_s=10)).code == ResponseCode.SUCCESS
                assert bodies(broker, 1) == sent
            assert bytes(landing).strip(b"\0")

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())
