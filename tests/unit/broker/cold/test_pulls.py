"""Pulls of what is not in memory: answered from the disk, while everybody else is served."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

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
from aerobee.remoting.message.record import iter_records

COUNT = 300


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker with a backlog in queue 0 of T."""
    async with running_broker(tmp_path) as running, await RawPeer.connect(running.port) as peer:
        await fill(peer)
        yield running


@pytest.fixture
def disk(broker: Broker) -> Disk:
    """The broker's disk; nothing is in memory."""
    return Disk(broker)


async def fill(peer: RawPeer) -> None:
    """Store the backlog."""
    for number in range(COUNT):
        tag = f"TAGS\x01Tag{number % 3}\x02UNIQ_KEY\x01A{number}\x02"
        await peer.request(send_command(b"m%d" % number * 20, properties=tag))


async def drain(peer: RawPeer, **wish: Any) -> list[bytes]:
    """Pull a queue from its first message to its last."""
    found: list[bytes] = []
    offset = 0
    while offset < COUNT:
        reply = await peer.request(pull_command(offset, **wish))
        assert reply.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
        found += [bytes(record.body) for record in iter_records(bytes(reply.body))]
        assert int(reply.ext["nextBeginOffset"]) > offset
        offset = int(reply.ext["nextBeginOffset"])
    return found


@pytest.mark.parametrize("compiled", ["true", "false"])
@pytest.mark.parametrize("expression", ["*", "Tag1"])
async def test_a_backlog_that_left_the_cache_is_read_beside_the_loop(
    tmp_path: Path, compiled: str, expression: str
) -> None:
    """After a restart and with the kernel's cache dropped: every message, in order."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        await fill(peer)
    async with (
        running_broker(tmp_path, compiledFastPath=compiled) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        for path in (tmp_path / "store").rglob("0*"):
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
        found = await drain(peer, expression=expression)
        assert found == [b"m%d" % n * 20 for n in range(COUNT) if expression == "*" or n % 3 == 1]
        if not broker.context.cold.reads.begun:
            pytest.skip("this file system keeps its files in memory")


@pytest.mark.parametrize("wish", [{}, {"expression": "Tag2"}, {"maxMsgNums": 1}])
async def test_everything_is_found_where_nothing_is_in_memory(
    broker: Broker, disk: Disk, wish: dict[str, Any]
) -> None:
    """Each pull is read from the disk, and brings what it would have brought."""
    async with await RawPeer.connect(broker.port) as peer:
        found = await drain(peer, **wish)
    tagged = "expression" in wish
    assert found == [b"m%d" % n * 20 for n in range(COUNT) if not tagged or n % 3 == 2]
    assert disk.reads and broker.context.cold.reads.waiting == 0


async def test_others_are_served_while_the_disk_does_not_answer(broker: Broker, disk: Disk) -> None:
    """A producer gets its acknowledgements, a consumer of what is new its messages."""
    disk.gate.clear()
    async with (
        await RawPeer.connect(broker.port) as late,
        await RawPeer.connect(broker.port) as producer,
        await RawPeer.connect(broker.port) as follower,
    ):
        await late.send(encode_frame(pull_command(0)))
        await until(lambda: disk.reads, what="the disk is asked")
        for _ in range(3):
            assert (await producer.request(send_command(b"new"))).code == ResponseCode.SUCCESS
        reply = await follower.request(pull_command(COUNT, consumerGroup="F"))
        assert [bytes(r.body) for r in iter_records(bytes(reply.body))] == [b"new"] * 3
        disk.gate.set()
        assert (await late.read()).code == ResponseCode.SUCCESS


async def test_an_error_of_the_disk_is_an_answer(broker: Broker, disk: Disk) -> None:
    """SYSTEM_ERROR says what the disk said; it is counted, and the next pull tries again."""
    disk.error = OSError(5, "Input/output error")
    async with await RawPeer.connect(broker.port) as peer:
        for _ in range(3):
            reply = await peer.request(pull_command(0))
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert reply.remark == "OSError: [Errno 5] Input/output error"
        assert broker.context.cold.reads.failed == 3
        assert broker.context.health.faults.counts == {"pull": 3}
        disk.error = None
        assert (await peer.request(pull_command(0))).code == ResponseCode.SUCCESS


async def test_a_queue_that_goes_while_it_is_read_is_told(broker: Broker, disk: Disk) -> None:
    """Its topic is deleted meanwhile: the pull is answered as any other of a topic that is gone."""
    disk.gate.clear()
    async with await RawPeer.connect(broker.port) as peer:
        await peer.send(encode_frame(pull_command(0)))
        await until(lambda: disk.reads, what="the disk is asked")
        broker.context.tables.topics.delete("T")
        broker.context.writing.queues.forget_checks()
        disk.gate.set()
        assert (await peer.read()).code == ResponseCode.TOPIC_NOT_EXIST


async def test_who_has_left_is_not_read_for(broker: Broker, disk: Disk) -> None:
    """Pulls of a closed connection that wait for a thread are forgotten."""
    disk.gate.clear()
    async with await RawPeer.connect(broker.port) as peer:
        for _ in range(5):
            await peer.send(encode_frame(pull_command(0)))
        await until(lambda: broker.context.cold.reads.waiting == 4, what="they wait")
    main = broker.context.front.ports._servers[0]
    await until(lambda: len(main.connections) == 1, what="the broker knows that it has left")
    reads = disk.reads
    async with await RawPeer.connect(broker.port) as other:
        await other.send(encode_frame(pull_command(0, consumerGroup="H")))
        await until(lambda: disk.reads > reads, what="another group is read for")
        disk.gate.set()
        assert (await other.read()).code == ResponseCode.SUCCESS
    await until(lambda: broker.context.cold.reads.waiting == 0, what="nothing waits")
    assert broker.context.cold.reads.begun == 2


async def test_a_broker_stops_while_the_disk_does_not_answer(tmp_path: Path) -> None:
    """What is under way is left alone, and harms nobody when it ends."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        await fill(peer)
        disk = Disk(broker)
        disk.gate.clear()
        await peer.send(encode_frame(pull_command(0)))
        await until(lambda: disk.reads, what="the disk is asked")
    disk.gate.set()


class Work:
    """Reads that end when they are told to; remembers in which order they began."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.gates: dict[str, threading.Event] = {}

    def has_begun(self, name: str) -> bool:
        """Whether a read is the last one that began."""
        return self.began[-1:] == [name]

    def __call__(self, name: str) -> Callable[[], str]:
        """Return one of that name."""
        gate = self.gates[name] = threading.Event()

        def work() -> str:
            self.began.append(name)
            assert gate.wait(20)
            return name

        return work


def reads_of(**changes: int) -> ColdReads:
    """Return what is tested, with other limits."""
    settings = BrokerSettings(broker_ip1="127.0.0.1").model_copy(update=changes)
    return ColdReads(asyncio.get_running_loop(), Live(settings))


async def test_groups_are_read_for_in_turn() -> None:
    """One that asks for much delays no other; each gets its answers in the order it asked."""
    reads, work, ended = reads_of(cold_read_threads=1), Work(), []
    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        reads.begin(name[0], work(name), 1, lambda result, error: ended.append(result))
    for name in ("a1", "b1", "c1", "a2", "b2", "a3"):
        await until(partial(work.has_begun, name), what=f"{name} begins")
        work.gates[name].set()
    await until(lambda: len(ended) == 6, what="all have ended")
    assert ended == ["a1", "b1", "c1", "a2", "b2", "a3"]
    reads.close()


async def test_bytes_and_numbers_have_limits() -> None:
    """What would exceed them waits, or is refused with SYSTEM_BUSY; a large one runs alone."""
    reads = reads_of(cold_read_threads=3, cold_read_bytes_max=100, cold_reads_max=32)
    work = Work()
    ended: list[str | None] = []

    def begin(name: str, bytes_max: int) -> None:
        reads.begin(name[0], work(name), bytes_max, lambda result, error: ended.append(result))

    begin("a1", 500)
    begin("b1", 60)
    begin("c1", 60)
    await until(lambda: work.began == ["a1"], what="the large one runs")
    begin("a2", 1)
    begin("a3", 1)
    with pytest.raises(RequestError) as refused:
        begin("a4", 1)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    work.gates["a1"].set()
    await until(lambda: work.began == ["a1", "b1"], what="the next in turn follows")
    assert reads.waiting == 3, "120 bytes are more than 100, and nobody overtakes"
    for gate in work.gates.values():
        gate.set()
    await until(lambda: len(ended) == 5, what="all have ended")
    assert (reads.begun, reads.failed, reads.waiting) == (5, 0, 0)
    reads.close()
