"""One party's trouble is its own: what fails unforeseen is told, counted, and strands nobody."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.disks.logs import append, bodies, opened, small
from support.features.delays import LEVELS_MS, Delays
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.stand_ins.fake_connection import FakeConnection
from support.waiting import until

from aerobee.broker.health.faults import QUIET_S, Faults
from aerobee.broker.members.notices import ChangeNotices
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.tick import Tick
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame


def broken(*_: Any, **__: Any) -> Any:
    """Do what nobody foresaw."""
    raise OSError(5, "Input/output error")


async def test_requests_that_fail_unforeseen_are_counted_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand deletions that fail are not a thousand traces in the log."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        broker.context.writing.queues.drop_topic = broken  # type: ignore[method-assign]
        for number in range(5):
            command = Command(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"t{number}"})
            broker.context.tables.topics.update(TopicConfig(topic_name=f"t{number}"))
            assert (await peer.request(command)).code == ResponseCode.SYSTEM_ERROR
        assert broker.context.health.faults.counts["request 215"] == 5
        del broker.context.writing.queues.drop_topic
    (line,) = [each for each in caplog.records if each.exc_info]
    assert "fault where=request_215" in line.getMessage()


async def test_a_pull_that_cannot_be_read_is_answered_and_its_connection_stands(
    tmp_path: Path,
) -> None:
    """SYSTEM_ERROR says why, what came with it in one read is answered, and it is counted."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
        assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
        reader, read = broker.store.reader, broker.store.reader.read
        reader.read = broken  # type: ignore[method-assign]
        first, second, third = send_command(), pull_command(0), send_command()
        await peer.send(b"".join(map(encode_frame, (first, second, third))))
        replies = {reply.opaque: reply for reply in [await peer.read() for _ in range(3)]}
        reader.read = read  # type: ignore[method-assign]
        assert replies[first.opaque].code == replies[third.opaque].code == ResponseCode.SUCCESS
        refused = replies[second.opaque]
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert refused.remark == "OSError: [Errno 5] Input/output error"
        assert broker.context.health.faults.counts == {"pull": 1}
        assert (await peer.request(pull_command(0))).code == ResponseCode.SUCCESS


async def test_held_pulls_that_cannot_be_served_are_answered(tmp_path: Path) -> None:
    """Whoever waited on the queue hears something, and no room is lost."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        await peer.request(send_command())
        holds = broker.context.pulls.holds
        waiting = [await RawPeer.connect(broker.port) for _ in range(3)]
        for each in waiting:
            await each.send(encode_frame(pull_command(1, suspend_ms=30_000)))
        await until(lambda: holds.count == 3, what="the pulls are held")
        read = broker.store.reader.read
        broker.store.reader.read = broken  # type: ignore[method-assign]
        await peer.request(send_command())
        replies = [await each.read() for each in waiting]
        assert [reply.code for reply in replies] == [ResponseCode.SYSTEM_ERROR] * 3
        assert holds.count == 0
        assert broker.context.health.faults.counts == {"pull": 3}
        broker.store.reader.read = read  # type: ignore[method-assign]
        for each in waiting:
            assert (await each.request(pull_command(1))).code == ResponseCode.SUCCESS
            each.writer.transport.abort()


class Written(FakeConnection):
    """Keeps what is written, or fails at it."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.fails, self.written, self.cut_off = fails, b"", ""

    def write_now(self, frames: Any) -> None:
        """Keep the frames."""
        if self.fails:
            raise MemoryError
        self.written += b"".join(frames)

    def abort(self, reason: str) -> None:
        """Remember why."""
        self.closed, self.cut_off = True, reason


@pytest.mark.parametrize("kind", ["answer", "acknowledge"])
async def test_a_connection_that_cannot_be_written_to_costs_no_other_its_replies(
    tmp_path: Path, kind: str
) -> None:
    """The end of the turn reaches everybody; who could not be told is cut off, and asks again."""
    store = opened(small(tmp_path))
    faults = Faults()
    tick = Tick(asyncio.get_running_loop(), store, faults)
    one, bad, two = Written(), Written(fails=True), Written()
    for connection in (one, bad, two):
        getattr(tick, kind)(connection, [b"reply"])
    tick.commit()
    assert (one.written, two.written) == (b"reply", b"reply")
    assert bad.cut_off == "internal error" and faults.counts == {"write": 1}
    store.close()


async def test_a_commit_that_finds_no_memory_acknowledges_nothing(tmp_path: Path) -> None:
    """Senders are told to send again; a turn without answers would leave them waiting."""
    store = opened(small(tmp_path))
    tick = Tick(asyncio.get_running_loop(), store)
    sender = Written()

    def no_memory() -> None:
        raise MemoryError

    commit = store.commit_log.commit
    store.commit_log.commit = no_memory  # type: ignore[method-assign]
    tick.acknowledge(sender, [encode_frame(Command(code=0, flag=1))])
    tick.commit()
    store.commit_log.commit = commit  # type: ignore[method-assign]
    assert b'"code":14' in sender.written
    store.close()


@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("refusing", [True, False])
async def test_a_turn_that_takes_long_is_answered_in_parts(
    tmp_path: Path, room: bool, refusing: bool
) -> None:
    """Or hundreds of busy connections are acknowledged as late as the last of them is read.

    What is read at last may be refused, and take as long.
    """
    store = opened(small(tmp_path))
    tick = Tick(asyncio.get_running_loop(), store)
    ack = encode_frame(Command(code=0, flag=1))
    senders = [Written(), Written(), Written()]
    for sender, now_s in zip(senders[:2], (7.0, 7.015), strict=True):
        tick.acknowledge(sender, [ack], now_s)
    assert [sender.written for sender in senders] == [b""] * 3
    append(store)
    commit = store.commit_log.commit
    if not room:
        store.commit_log.commit = broken  # type: ignore[method-assign]
    if refusing:
        tick.hurry(7.021)
        senders.pop()
    else:
        tick.acknowledge(senders[2], [ack], 7.021)
    code = b'"code":0' if room else b'"code":14'
    assert all(code in sender.written for sender in senders), "without a turn of the loop"
    store.commit_log.commit = commit  # type: ignore[method-assign]
    store.close()


async def test_deliveries_go_on_after_a_slice_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one timer of all delayed messages is set again, whatever happened in its turn."""
    delays = Delays(tmp_path)
    delays.delay(b"a")
    monkeypatch.setattr(delays.service.progress, "note", broken_once(delays.service.progress.note))
    delays.clock.advance(LEVELS_MS[0])
    delays.delay(b"b")
    delays.clock.advance(LEVELS_MS[0] + 2_000)
    assert bodies(delays.store, "T") == [b"a", b"b"]
    delays.service.stop()
    delays.store.close()


def broken_once(function: Callable[[], None]) -> Callable[[], None]:
    """Return the function with a fault in its first call, of a kind that nobody expects."""
    calls: list[int] = []

    def called() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("in the middle of a slice")
        function()

    return called


def test_a_member_that_cannot_be_told_keeps_no_other_from_hearing() -> None:
    """Each member of a changed group gets its notice."""
    due: list[Callable[[], None]] = []

    class Deaf(FakeConnection):
        def oneway(self, command: Command) -> None:
            raise MemoryError

    members = [FakeConnection(), Deaf(), FakeConnection()]
    ChangeNotices(lambda _, function: due.append(function), lambda: True)("g", list(members))
    due.pop(0)()
    assert [len(member.sent) for member in members] == [1, 0, 1]


async def test_tables_are_saved_after_a_round_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of one round does not end the saving of offsets for good."""
    async with running_broker(tmp_path, flushConsumerOffsetInterval="600000") as broker:
        context = broker.context
        often = broker.settings.model_copy(update={"flush_consumer_offset_interval": 10})
        failures: list[int] = []

        async def fails() -> None:
            failures.append(1)
            raise RuntimeError("a table that cannot be encoded")

        with monkeypatch.context() as patch:
            patch.setattr(context.tables.topics.file, "flush", fails)
            context.tables.offsets.commit("G", "T", 0, 7)
            tables = Tables(
                Live(often),
                context.tables.topics,
                context.tables.groups,
                context.tables.offsets,
                context.tables.request_modes,
            )
            saving = asyncio.create_task(tables.save())
            await until(lambda: len(failures) > 1, what="a second round")
            assert not context.tables.offsets.file.dirty
            saving.cancel()


def test_a_kind_of_fault_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Ten thousand of them make one line with its trace, and the next says how many there were."""
    now = [1000.0]
    faults = Faults(lambda: now[0])
    with caplog.at_level(logging.ERROR):
        for _ in range(10_000):
            faults.caught("held pull", OSError(5, "EIO"), topic="T")
        faults.caught("held pull", KeyError("k"), topic="T")
        assert [record.exc_info is not None for record in caplog.records] == [True, True]
        assert "where=held_pull topic=T untold=0" in caplog.text
        caplog.clear()
        now[0] += QUIET_S
        faults.caught("held pull", OSError(5, "EIO"), topic="T")
    assert faults.counts == {"held pull": 10_002}
    assert "untold=10000" in caplog.text
