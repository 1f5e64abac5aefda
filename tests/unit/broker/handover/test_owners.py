"""Whoever asks for a queue is answered, whatever becomes of the others."""

import asyncio
import logging
from pathlib import Path

import pytest
from support.members import RawMember
from support.servers.live_broker import live_broker
from support.stand_ins.fake_connection import FakeConnection
from support.stand_ins.quiet_environment import QuietEnvironment
from support.waiting import until

from aerobee.broker.handover.owned_queue import Holder, OwnedQueue, Verdict
from aerobee.broker.handover.owners import QueueOwners
from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.complaints import TOLD_MAX


def test_an_answer_that_raises_strands_nobody() -> None:
    """The queue changes hands, the next one hears of it, and the fault is counted."""
    environment = QuietEnvironment()
    owners = QueueOwners(environment, lambda: 1000)
    queue = OwnedQueue(GroupQueue("G", "T", 0))
    queue.give(Holder(FakeConnection(), "c1", None))
    asker = Holder(FakeConnection(), "c2", None)
    heard: list[Verdict] = []

    def broken(verdict: Verdict) -> None:
        raise RuntimeError("the connection is in a state that nobody foresaw")

    owners.put_on_hold(queue, asker, broken)
    owners.put_on_hold(queue, asker, heard.append)
    owners.vacate(queue, "released")
    assert heard == [Verdict.OFFSET]
    assert queue.is_owned_by(asker.connection)
    assert environment.faults.counts == {"handover answer": 1}


async def test_a_former_owner_that_gets_its_queue_back_does_not_wait_for_its_old_pull(
    tmp_path: Path,
) -> None:
    """What it pulled while the queue was another's ends with nothing, and it reads at once."""
    header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
    async with live_broker(tmp_path, handover_wait_millis=300) as live:
        await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        old, new = RawMember(live.broker.port, "c1"), RawMember(live.broker.port, "c2")
        async with old, new:
            await old.beat()
            await new.beat()
            await old.start_of()
            await new.start_of()
            held = asyncio.create_task(old.pull(0, suspend_ms=15_000))
            await until(lambda: live.broker.context.pulls.holds.count == 1)
            await old.start_of()
            reply = await asyncio.wait_for(held, 10)  # held it would be for fifteen
            assert reply.code == ResponseCode.PULL_NOT_FOUND
            assert (await old.pull(0)).code == ResponseCode.SUCCESS


async def test_who_waited_is_answered_whatever_the_disk_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that cannot be found out is an error that says why, not silence."""

    def broken(topic: str, queue_id: int) -> None:
        raise OSError(5, "Input/output error")

    header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
    async with live_broker(tmp_path, handover_wait_millis=600) as live:
        await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        old, new = RawMember(live.broker.port, "c1"), RawMember(live.broker.port, "c2")
        async with old, new:
            await old.beat()
            await new.beat()
            await old.start_of()
            asked = new.starting()
            await until(lambda: live.broker.context.consumers.handovers.waiting == 1)
            monkeypatch.setattr(live.broker.context.store, "find_queue", broken)
            reply = await asked
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert reply.remark == "OSError: [Errno 5] Input/output error"
            monkeypatch.undo()


async def test_who_commits_what_it_lost_floods_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All are counted, the first ones of a minute told."""
    caplog.set_level(logging.INFO, "aerobee")
    header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
    async with live_broker(tmp_path, handover_wait_millis=300) as live:
        await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        old, new = RawMember(live.broker.port, "c1"), RawMember(live.broker.port, "c2")
        async with old, new:
            await old.beat()
            await new.beat()
            await old.start_of()
            await new.start_of()
            for _ in range(2 * TOLD_MAX):
                await old.commit(0)
        assert live.broker.context.consumers.handovers.commits_ignored == 2 * TOLD_MAX
    assert sum(each.startswith("commit_ignored") for each in caplog.messages) == TOLD_MAX


async def test_who_unlocks_what_others_hold_floods_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A request is one line, however many queues it names, and the first ones of a minute are."""
    async with live_broker(tmp_path) as live:
        holder, other = RawMember(live.broker.port, "c1"), RawMember(live.broker.port, "c2")
        async with holder, other:
            await holder.lock(*range(100))
            for _ in range(2 * TOLD_MAX):
                assert (await other.unlock(*range(100))).code == ResponseCode.SUCCESS
        assert len(live.broker.context.consumers.locks) == 100
    told = [each for each in caplog.messages if each.startswith("unlock_refused")]
    assert len(told) == TOLD_MAX
    assert "group=G client=c2 queues=100 first=" in told[0]
