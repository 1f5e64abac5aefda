"""Whose turn it is to wait for the disk, and what becomes of threads that wait for ever."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.disks.slow_disk import Disk
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.frame import encode_frame

COUNT = 40


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker with messages in queue 0 of T, none of which is in memory."""
    async with (
        running_broker(tmp_path, coldReadsMax="64") as running,
        await RawPeer.connect(running.port) as peer,
    ):
        for _ in range(COUNT):
            await peer.request(send_command(bytes(100)))
        yield running


async def test_a_connection_is_answered_in_the_order_it_asked(broker: Broker) -> None:
    """Whatever the groups of its reads, and though others' reads run beside them."""
    disk = Disk(broker)
    disk.gate.clear()
    async with (
        await RawPeer.connect(broker.port) as peer,
        await RawPeer.connect(broker.port) as other,
    ):
        asked = [pull_command(n, consumerGroup=f"G{n % 3}") for n in range(6)]
        await other.send(encode_frame(pull_command(0, consumerGroup="H")))
        for command in asked:
            await peer.send(encode_frame(command))
        await until(lambda: broker.context.cold.reads.waiting == 5, what="they wait")
        assert broker.context.cold.reads.begun == 2, "one of each connection"
        disk.gate.set()
        assert (await other.read()).code == ResponseCode.SUCCESS
        assert [(await peer.read()).opaque for _ in asked] == [each.opaque for each in asked]


async def test_reads_of_closed_connections_take_no_room(broker: Broker) -> None:
    """While the disk does not answer, a client that comes again and again is not refused."""
    disk = Disk(broker)
    disk.gate.clear()
    for _ in range(20):
        async with await RawPeer.connect(broker.port) as peer:
            for _ in range(3):
                await peer.send(encode_frame(pull_command(0)))
            await until(lambda: broker.context.cold.reads.waiting >= 2, what="they wait")
        await until(lambda: broker.context.cold.reads.waiting == 0, what="they are forgotten")
    disk.gate.set()
    async with await RawPeer.connect(broker.port) as peer:
        assert (await peer.request(pull_command(0))).code == ResponseCode.SUCCESS


async def test_who_does_not_take_replies_is_not_read_for(tmp_path: Path) -> None:
    """It waits for its replies as long as it likes; the broker holds a few, and does not cut it."""
    async with (
        running_broker(tmp_path, writePauseBytes="65536", writeBytesMax="524288") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        for _ in range(4):
            await peer.request(send_command(bytes(200_000)))
        Disk(broker)
        asked = [pull_command(n % 4, maxMsgNums=1) for n in range(200)]
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await peer.send(b"".join(map(encode_frame, asked)))
        cold = broker.context.cold.reads
        await until(lambda: cold.waiting > 0 and not cold._running, what="nothing is read")
        begun = cold.begun
        assert begun < 100
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for command in asked:
            reply = await peer.read()
            assert (reply.code, reply.opaque) == (ResponseCode.SUCCESS, command.opaque)
            assert len(reply.body) > 200_000


def reads_of(**changes: int) -> ColdReads:
    """Return what is tested, with other limits."""
    settings = BrokerSettings(broker_ip1="127.0.0.1").model_copy(update=changes)
    return ColdReads(asyncio.get_running_loop(), Live(settings))


async def test_a_thread_that_cannot_be_had_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """SYSTEM_BUSY while there is none; who asks later is served, and so is the same group."""
    reads, start = reads_of(cold_read_threads=2), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(3):
        with pytest.raises(RequestError) as refused:
            await reads.run("G", lambda: 1)
        assert refused.value.code == ResponseCode.SYSTEM_BUSY
    monkeypatch.setattr(threading.Thread, "start", start)
    assert await reads.run("G", lambda: 1) == 1
    gate = threading.Event()
    held = asyncio.ensure_future(reads.run("G", lambda: gate.wait(20)))
    await until(lambda: reads.begun == 2, what="the only thread is busy")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    later = asyncio.ensure_future(reads.run("H", lambda: 2))
    gate.set()
    assert (await held, await later) == (True, 2), "it is read by the thread that there is"
    reads.close()


async def test_a_read_that_ends_in_any_way_leaves_its_group_its_turn() -> None:
    """Also one that would end its thread."""
    reads = reads_of(cold_read_threads=1)

    def end() -> int:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        await reads.run("G", end)
    assert await reads.run("G", lambda: 1) == 1
    reads.close()


PROGRAM = """
import asyncio, threading
from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.settings.live import Live
from aerobee.broker.settings.keys import BrokerSettings

async def main():
    reads = ColdReads(asyncio.get_running_loop(), Live(BrokerSettings(broker_ip1="127.0.0.1")))
    begun = threading.Event()
    def read():
        begun.set()
        threading.Event().wait()
    reads.begin("G", read, 1, lambda result, error: None)
    await asyncio.to_thread(begun.wait)
    reads.close()

asyncio.run(main())
print("ended")
"""


def test_a_process_ends_though_the_disk_never_answers() -> None:
    """A stop is not held up by a read that hangs: whoever stops the broker would kill it."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False
    )
    assert (run.stdout, run.returncode) == ("ended\n", 0)
