"""What an administrator has removed: 306, 316, 329."""

import errno
import os
import time
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, fill, live_broker
from support.waiting import until

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.storage.store import MessageStore
from aerobee.storage.upkeep.shortening import SLICE_S

SEND = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
AGED_S = 200 * 3600


async def send(live: LiveBroker, topic: str, count: int = 1) -> None:
    """Send messages of 64 KiB to queue 0."""
    for _ in range(count):
        reply = await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"b": topic}, b"x" * (64 << 10))
        assert reply.code == ResponseCode.SUCCESS, reply.remark


async def aged(live: LiveBroker) -> MessageStore:
    """Fill some log files, bring them to the disk, and make them old."""
    await send(live, "t", 60)
    store = live.broker.store
    await until(lambda: store.commit_log.flushed_position == store.commit_log.position)
    for path in store.settings.log_dir.iterdir():
        os.utime(path, (time.time() - AGED_S,) * 2)
    return store


async def test_expired_files_go_at_any_hour_once_it_is_asked_for(tmp_path: Path) -> None:
    """329 is answered at once; the looks that follow do it."""
    async with live_broker(
        tmp_path,
        delete_when=f"{(time.localtime().tm_hour + 12) % 24}",
        delete_commit_log_files_interval=0,
    ) as live:
        store = await aged(live)
        assert store.retention.clean() == 0
        reply = await live.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert reply.code == ResponseCode.SUCCESS
        assert store.retention.clean() == 3


async def test_a_queue_without_messages_keeps_its_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """306 shortens all queues; where nothing is left the next message has the next offset."""
    async with live_broker(tmp_path, delete_commit_log_files_interval=0) as live:
        for number in range(20):
            await send(live, f"early-{number}")
        store = await aged(live)
        monkeypatch.setattr("aerobee.storage.upkeep.shortening.SLICE_S", 0.0)
        store.retention.remove_expired_soon()
        assert store.retention.clean() >= 2
        assert store.retention.shortening.waiting > 10
        assert SLICE_S > 0
        reply = await live.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert reply.code == ResponseCode.SUCCESS
        assert not store.retention.shortening.waiting
        queue = store.find_queue("early-3", 0)
        assert queue is not None and (queue.min_offset, queue.max_offset) == (1, 1)
        await send(live, "early-3")
        assert (queue.min_offset, queue.max_offset) == (1, 2)
    async with live_broker(tmp_path) as live:
        queue = live.broker.store.find_queue("early-3", 0)
        assert queue is not None and (queue.min_offset, queue.max_offset) == (1, 2)


async def test_only_topics_that_nobody_knows_are_removed(tmp_path: Path) -> None:
    """316 keeps known ones, system topics and light queues; offsets go with what is removed."""
    async with live_broker(tmp_path) as live:
        await fill(live, b"x")
        for number in range(40):
            await send(live, f"gone-{number}")
        tables, store = live.broker.context.tables, live.broker.store
        store.queue("%LMQ%light", 0).start_at(7)
        store.queue("RMQ_SYS_TRACE_TOPIC", 0).start_at(7)
        for number in range(40):
            tables.offsets.commit("g", f"gone-{number}", 0, 1)
            tables.topics._table.pop(f"gone-{number}")  # as if its file was lost
        reply = await live.ask(RequestCode.CLEAN_UNUSED_TOPIC)
        assert reply.code == ResponseCode.SUCCESS
        assert sorted(store.topics()) == ["%LMQ%light", "RMQ_SYS_TRACE_TOPIC", "t"]
        assert tables.offsets.committed("g", "gone-1", 0) is None
        assert tables.offsets.committed("g", "t", 0) == 1
        await send(live, "gone-1")
        queue = store.find_queue("gone-1", 0)
        assert queue is not None and queue.max_offset == 1


async def test_a_disk_that_refuses_is_told_of_with_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was removed before stays so; asked once more, the rest goes."""
    async with live_broker(tmp_path) as live:
        for number in range(20):
            await send(live, f"gone-{number:02}")
            live.broker.context.tables.topics._table.pop(f"gone-{number:02}")
        store = live.broker.store
        add, calls = store.queues.deleted.add, []

        def refuses(positions: dict[str, int], log_begin: int) -> None:
            calls.append(len(positions))
            if len(calls) == 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            add(positions, log_begin)

        monkeypatch.setattr(store.queues.deleted, "add", refuses)
        reply = await live.ask(RequestCode.CLEAN_UNUSED_TOPIC)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert (reply.remark or "").startswith("4 unused topics are left, beginning with gone-16:")
        assert (await live.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == ResponseCode.SUCCESS
        assert not store.topics()


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
    ],
)
async def test_a_store_that_is_only_read_is_not_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Nothing can be removed there, and who asks is told so."""
    async with live_broker(tmp_path) as live:
        monkeypatch.setattr(live.broker.store, "read_only", True)
        reply = await live.ask(code)
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "read-only" in (reply.remark or "")
