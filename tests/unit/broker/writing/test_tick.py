"""A turn's records are written while caches have them, and answered as soon as that is allowed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.servers.brokers import running_broker, send_command
from support.waiting import until
from support.wire import Wire, connect

from aerobee.broker.app import Broker
from aerobee.broker.front.connection import BrokerConnection
from aerobee.broker.writing.tick import COMMIT_BYTES
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import encode_frame

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
