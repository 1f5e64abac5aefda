"""A turn's records are written while caches have them, and answered as soon as that is allowed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.servers.brokers import running_broker, send_command
from support.waiting import until
from support.wire import Wire, connect

from aerobee.broker.app import Broker
from aerobee.broker.compiled.choice import is_compiled
from aerobee.broker.front.connection import PART_FRAMES, BrokerConnection
from aerobee.broker.writing.tick import COMMIT_BYTES
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import encode_frame
from aerobee.storage.errors import LogUnavailable

ROOMY = {"mappedFileSizeCommitLog": str(32 << 20)}
FRAME = encode_frame(send_command(bytes(1000)))
PART = FRAME * (COMMIT_BYTES // len(FRAME) // 4)


@asynccontextmanager
async def served(
    folder: Path, **settings: str
) -> AsyncIterator[tuple[Broker, BrokerConnection, Wire]]:
    """A broker that knows the topic, and a connection that was told so."""
    async with running_broker(folder, **ROOMY, **settings) as broker:
        connection, wire = connect(broker)
        connection.data_received(encode_frame(send_command(b"first")))
        await until(wire.replies, what="the topic is known")
        wire.written.clear()
        yield broker, connection, wire


async def test_much_in_one_turn_is_answered_before_the_turn_ends(tmp_path: Path) -> None:
    """What has filled the log so far is written, and its senders may go on; the rest waits."""
    async with served(tmp_path) as (broker, connection, wire):
        log = broker.store.commit_log
        began = log.committed
        connection.data_received(PART)
        assert not wire.written
        assert log.committed == began
        while log.position - began < COMMIT_BYTES and not wire.written:
            connection.data_received(PART)
        answered = len(wire.replies())
        assert answered * len(FRAME) >= COMMIT_BYTES
        assert log.committed == log.position
        connection.data_received(PART)
        assert len(wire.replies()) == answered
        await asyncio.sleep(0)
        replies = wire.replies()
        assert len(replies) == answered + len(PART) // len(FRAME)
        assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}


async def test_with_sync_flush_a_turn_waits_for_one_sync(tmp_path: Path) -> None:
    """However much it brings: a sync of its own for each part would take longer."""
    async with served(tmp_path, flushDiskType="SYNC_FLUSH") as (broker, connection, wire):
        log = broker.store.commit_log
        began = log.committed
        for _ in range(8):
            connection.data_received(PART)
        assert log.position - began > COMMIT_BYTES
        assert log.committed == began
        assert not wire.written
        sent = 8 * len(PART) // len(FRAME)
        await until(lambda: len(wire.replies()) == sent, what="the disk has answered")


lone_senders = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")


async def turn(connection: BrokerConnection, wire: Wire, frames: int) -> int:
    """Have a read served; return how many answers came before the turn of the loop ended."""
    wire.written.clear()
    connection.data_received(FRAME * frames)
    at_once = len(wire.replies())
    await asyncio.sleep(0)
    replies = wire.replies()
    assert len(replies) == frames
    assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}
    return at_once


@lone_senders
async def test_a_lone_senders_first_sends_are_answered_before_the_others_are_served(
    tmp_path: Path,
) -> None:
    """It goes on meanwhile; where others send, they do, and each commit costs."""
    async with served(tmp_path) as (broker, connection, wire):
        other, other_wire = connect(broker)
        assert [await turn(connection, wire, 2) for _ in range(2)] == [0, 0]
        assert await turn(connection, wire, 2 * PART_FRAMES) == PART_FRAMES
        assert await turn(connection, wire, 4 * PART_FRAMES) == PART_FRAMES
        assert await turn(connection, wire, PART_FRAMES + 1) == 0, "that few are not worth it"
        assert await turn(connection, wire, PART_FRAMES) == 0
        assert await turn(connection, wire, 2 * PART_FRAMES) == PART_FRAMES
        assert await turn(other, other_wire, 2 * PART_FRAMES) == 0
        assert [await turn(connection, wire, 2 * PART_FRAMES) for _ in range(2)] == [0, 0]
        assert await turn(connection, wire, 2 * PART_FRAMES) == PART_FRAMES
        assert broker.store.commit_log.committed == broker.store.commit_log.position


@lone_senders
async def test_each_part_of_a_lone_senders_read_is_told_what_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part was stored, and is acknowledged; the second is not."""
    async with served(tmp_path) as (broker, connection, wire):
        for _ in range(2):
            await turn(connection, wire, 2)
        log, left = broker.store.commit_log, [1]
        commit = log.commit

        def fails() -> None:
            left[0] -= 1
            if left[0] >= 0:
                commit()
            elif log.position > log.committed:
                raise LogUnavailable("the disk has gone")

        monkeypatch.setattr(log, "commit", fails)
        wire.written.clear()
        connection.data_received(FRAME * 2 * PART_FRAMES)
        await asyncio.sleep(0)
        codes = [reply.code for reply in wire.replies()]
        assert codes[:PART_FRAMES] == [ResponseCode.SUCCESS] * PART_FRAMES
        assert codes[PART_FRAMES:] == [ResponseCode.SERVICE_NOT_AVAILABLE] * PART_FRAMES
        monkeypatch.undo()
