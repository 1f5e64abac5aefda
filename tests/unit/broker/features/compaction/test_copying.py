"""Queues that have something to copy get their turn, whatever others do; what fails is told."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.features.compaction.copying import JOBS_MAX, Copying, QueueName
from aerobee.broker.features.compaction.feature import Compaction
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.storage.features.compaction.copied_queue import CopiedQueue
from aerobee.storage.queues.consume_queue import ConsumeQueue

QUEUES = 3 * JOBS_MAX
SEND = {"a": "p", "b": "T", "c": "TBW102", "d": QUEUES, "e": 0, "f": 0, "g": 1, "h": 0,
        "i": "KEYS\x01k\x02"}  # fmt: skip
Done = Callable[[Exception | None], None]


def feature(live: LiveBroker) -> Compaction:
    """The feature of a broker with a compaction topic T of many queues."""
    config = TopicConfig(topic_name="T", read_queue_nums=QUEUES, write_queue_nums=QUEUES)
    live.broker.context.tables.topics.update(config, {"+cleanup.policy": "COMPACTION"})
    found = live.broker.features.find(Compaction)
    assert found is not None
    return found


async def send(live: LiveBroker, queue_id: int) -> None:
    """Send a message with a key."""
    reply = await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"e": queue_id}, b"value")
    assert reply.code == ResponseCode.SUCCESS, reply.remark


async def settle(live: LiveBroker) -> None:
    """Return when the disk has the log."""
    log = live.broker.store.commit_log
    await until(lambda: log.flushed_position == log.position)


async def test_busy_queues_do_not_keep_others_from_being_copied(tmp_path: Path) -> None:
    """At each look the first ones have something new; the last one is copied all the same."""
    async with live_broker(tmp_path, compaction_mapped_file_size=1 << 16) as live:
        found = feature(live)
        begun: list[tuple[Callable[[], None], Done]] = []
        names: list[QueueName] = [("T", number) for number in range(QUEUES)]
        copying = Copying(
            live.broker.store, found.copies, lambda: iter(names), lambda *job: begun.append(job)
        )
        found.copying.look = lambda: None  # type: ignore[method-assign]
        for number in range(QUEUES):
            await send(live, number)
        for _ in range(4):
            for number in range(JOBS_MAX):
                await send(live, number)
            await settle(live)
            copying.look()
            copying.look()
            assert len(begun) <= JOBS_MAX
            for _ in range(JOBS_MAX):  # as many as get done between two looks
                work, done = begun.pop(0)
                work()
                done(None)
        assert found.copies.queue("T", QUEUES - 1).end == 1


async def test_what_copies_fail_for_is_told_by_readyz(tmp_path: Path) -> None:
    """The broker is ready, and says what somebody should look at, until it goes on."""
    async with live_broker(tmp_path, compaction_mapped_file_size=1 << 16) as live:
        found = feature(live)
        assert not list(found.degraded())
        root = live.broker.store.settings.root
        (root / "compaction").mkdir(exist_ok=True)
        (root / "compaction/compactionLog").write_bytes(b"in the way")
        await send(live, 0)
        await until(lambda: found.copying.failures, what="the copy to fail")
        (line,) = found.degraded()
        assert "T-0" in line and "the log is kept" in line
        (root / "compaction/compactionLog").unlink()
        await until(lambda: not list(found.degraded()), what="the copy to go on")


async def test_a_queue_that_the_disk_does_not_give_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its uncopied messages begin is not known: the log is kept, and others are copied."""
    async with live_broker(tmp_path, compaction_mapped_file_size=1 << 16) as live:
        found = feature(live)
        begun: list[tuple[Callable[[], None], Done]] = []
        names: list[QueueName] = [("T", 0), ("T", 1)]
        copying = Copying(
            live.broker.store, found.copies, lambda: iter(names), lambda *job: begun.append(job)
        )
        found.copying.look = lambda: None  # type: ignore[method-assign]
        for number in range(2):
            await send(live, number)
        await settle(live)
        bad = live.broker.store.find_queue("T", 0)
        entry = ConsumeQueue.entry

        def refuses(queue: ConsumeQueue, offset: int) -> tuple[int, int, int]:
            if queue is bad:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return entry(queue, offset)

        monkeypatch.setattr(ConsumeQueue, "entry", refuses)
        copying.look()
        copying.look()
        for work, done in begun:
            work()
            done(None)
        assert found.copies.queue("T", 1).end == 1
        assert copying.kept_from() <= live.broker.store.commit_log.begin


async def test_a_copy_that_cannot_be_synced_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are synced and noted, and the broker says what is not."""
    async with live_broker(tmp_path, compaction_mapped_file_size=1 << 16) as live:
        found = feature(live)
        for number in range(3):
            await send(live, number)
        copies = [found.copies.queue("T", number) for number in range(3)]
        await until(lambda: all(copy.end == 1 for copy in copies), what="all to be copied")
        sync = CopiedQueue.sync

        def refuses(copy: CopiedQueue) -> int:
            if copy is copies[0]:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return sync(copy)

        with monkeypatch.context() as patched:
            patched.setattr(CopiedQueue, "sync", refuses)
            found.sync()
            await until(lambda: list(found.degraded()), what="the broker to say so")
            assert [copy.synced_end for copy in copies] == [0, 1, 1]
        found.sync()
        await until(lambda: not list(found.degraded()), what="the sync")
        assert copies[0].synced_end == 1


async def test_a_topic_with_fewer_queues_than_before_does_not_keep_the_log(tmp_path: Path) -> None:
    """What the others still had to be copied is copied."""
    async with live_broker(tmp_path, compaction_mapped_file_size=1 << 16) as live:
        found = feature(live)
        begun: list[tuple[Callable[[], None], Done]] = []
        names: list[QueueName] = [("T", 0)]
        copying = Copying(
            live.broker.store, found.copies, lambda: iter(names), lambda *job: begun.append(job)
        )
        found.copying.look = lambda: None  # type: ignore[method-assign]
        await send(live, 0)
        copying.look()
        copying.look()  # the disk may not have it yet, or its job waits
        begun.clear()
        copying._under_way.clear()
        names.clear()
        await settle(live)
        copying.look()
        copying.look()
        for work, done in begun:
            work()
            done(None)
        assert found.copies.queue("T", 0).end == 1


async def test_an_interval_of_rounds_that_was_changed_counts_at_once(tmp_path: Path) -> None:
    """With the usual one the next look is a quarter of an hour away, or half an hour."""
    sizes = {"compaction_mapped_file_size": 4600, "compaction_cq_mapped_file_size": 920}
    async with live_broker(tmp_path, **sizes) as live:
        found = feature(live)
        for _ in range(60):
            assert (await live.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"v")).code == 0
        copy = found.copies.queue("T", 0)
        await until(lambda: copy.loaded and copy.end == 60, what="messages to be copied")
        assert not found.schedule.rounds
        text = b"compactionScheduleInternal=50"
        assert (await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text)).code == 0
        await until(lambda: found.schedule.rounds, what="a round")
