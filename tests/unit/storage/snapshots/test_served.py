"""Snapshots of a store that a broker serves, under load: restored, they are a store of before."""

import asyncio
import json
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until

from aerobee.admin import AdminClient
from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from aerobee.storage.disk.files import Files
from aerobee.storage.layout import ABORT, BOOT_NOTE, LOCK, log_files
from aerobee.storage.snapshots import log_end
from aerobee.storage.snapshots.manifest import StoreSnapshot
from aerobee.storage.snapshots.restoring import SnapshotRestorer, check_snapshot
from aerobee.storage.snapshots.taking import SnapshotTaker, SnapshotWish
from aerobee.storage.tools.guessing import store_settings
from aerobee.storage.verify import verify
from aerobee.testing import EmbeddedCluster

SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "flush_interval_consume_queue": 50,
    "message_delay_level": "1s 2s 3s",
    "timer_flush_interval_ms": 100,
    "compaction_schedule_internal": 200,
}
QUEUES = 4


class Load:
    """Sends numbered messages, with keys, some of them delayed, and knows which were answered."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self.answered: list[int] = []
        self.ended = False

    async def run(self) -> None:
        """Send until told to end."""
        async with Producer(namesrv=self._namesrv, group="loading") as producer:
            number = 0
            while not self.ended:
                numbers = range(number, number + 20)
                await asyncio.gather(*(self._send(producer, each) for each in numbers))
                self.answered += numbers
                number += 20

    def has(self, count: int) -> bool:
        """Whether so many were answered."""
        return len(self.answered) >= count

    async def _send(self, producer: Producer, number: int) -> None:
        body = json.dumps(number).encode() + b" " * 2_000
        level = 1 if number % 50 == 49 else 0
        await producer.send(Message("loaded", body, keys=[f"key-{number}"], delay_level=level))
        await producer.send(Message("compacted", b"%d" % number, keys=[f"{number % 7}"]))
        if number % 10 == 0:
            await producer.send(Message("later", b"%d" % number), delay=timedelta(minutes=5))


async def snapshot(store: Path, target: Path) -> StoreSnapshot:
    """Take one in a thread, as another process does."""
    taker = SnapshotTaker(Files(), SnapshotWish(store, target))
    return await asyncio.to_thread(taker.run)


async def consumed(namesrv: str, wanted: set[int]) -> list[int]:
    """Consume all from the first on, until what is wanted has come."""
    found: list[int] = []
    done = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        found.append(json.loads(message.body))
        if wanted <= set(found):
            done.set()

    consumer = PushConsumer("reading", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("loaded", handle)
    async with consumer:
        await asyncio.wait_for(done.wait(), 20)
    return found


async def test_what_was_answered_before_is_in_it(tmp_path: Path) -> None:
    """Three under load: sound by the verifier, opened by a broker that serves all of it."""
    root, answered = tmp_path / "brokers", []
    async with EmbeddedCluster(root=root, broker_settings=SETTINGS) as cluster:
        await cluster.create_topic("loaded", QUEUES)
        async with AdminClient(cluster.namesrv_addr) as admin:
            attributes = {"cleanup.policy": "COMPACTION"}
            await admin.create_topic("compacted", 1, attributes=attributes)
            await admin.create_topic("later", 1)
        load = Load(cluster.namesrv_addr)
        running = asyncio.create_task(load.run())
        for number in range(3):
            await until(partial(load.has, 300 * (number + 1)), what="answers")
            answered.append(set(load.answered))
            made = await snapshot(cluster.store_path(), tmp_path / f"snapshot-{number}")
            assert made.was_served
            assert made.log_end is not None
            assert {LOCK, BOOT_NOTE}.isdisjoint(file.path for file in made.files)
            assert ABORT in {file.path for file in made.files}
        load.ended = True
        await running
        name = cluster.store_path().name
    for number, wanted in enumerate(answered):
        check_snapshot(Files(), tmp_path / f"snapshot-{number}")
        back = tmp_path / f"back-{number}"
        target = back / name
        SnapshotRestorer(Files(), tmp_path / f"snapshot-{number}", target).run()
        async with EmbeddedCluster(root=back, broker_settings=SETTINGS) as cluster:
            found = await consumed(cluster.namesrv_addr, wanted)
            assert len(found) == len(set(found))
        assert not verify(store_settings(target)).problem_count


async def test_the_end_of_a_log_that_is_written(tmp_path: Path) -> None:
    """It is where the last record ends; with damage before it nobody can say."""
    async with EmbeddedCluster(root=tmp_path, broker_settings=SETTINGS) as cluster:
        await cluster.create_topic("loaded", 1)
        store, files = cluster.store_path(), Files()
        async with Producer(namesrv=cluster.namesrv_addr, group="loading") as producer:
            for number in range(700):
                await producer.send(Message("loaded", b"x" * 2_000 + b"%d" % number))
        log = cluster.brokers[0].context.store.commit_log
        assert log_end.find_end(files, store, log_files(store)) == log.position
        (store / "aerobee.progress").unlink()
        (store / "checkpoint").unlink(missing_ok=True)
        assert log_end.find_end(files, store, log_files(store)) == log.position
        newest = log.position // (1 << 20)
        with log_files(store)[newest].path.open("r+b") as file:
            file.seek(4)
            file.write(b"\0\0\0\0")
        assert log_end.find_end(files, store, log_files(store)) is None


@pytest.mark.parametrize("name", ["rocksdb", "consumequeue_r"])
async def test_rocksdb_of_a_running_broker_is_refused(tmp_path: Path, name: str) -> None:
    """Its files are no copy unless it has stopped."""
    async with EmbeddedCluster(root=tmp_path / "brokers", broker_settings=SETTINGS) as cluster:
        (cluster.store_path() / name).mkdir()
        with pytest.raises(Exception, match=name):
            await snapshot(cluster.store_path(), tmp_path / "snapshot")
    made = await snapshot(tmp_path / "brokers" / "broker-a", tmp_path / "snapshot")
    assert not made.was_served
