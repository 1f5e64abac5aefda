"""Ends at every step of 513 and of a deletion: the tables that each leaves, started from."""

import asyncio
import os
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from support.features.static_topics import TOPIC, Piece, StaticCluster, detail
from support.servers.killed_broker import KilledBroker
from support.servers.live_broker import LiveBroker, live_broker

from aerobee.remoting.bodies import TopicConfigAndQueueMapping, decode_body, encode_body
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.command import Command
from aerobee.remoting.net.client import ConnectionPool

FIRST = detail("a", 1, {0: [Piece("a", 0)]})
SECOND = detail("a", 2, {0: [Piece("a", 0), Piece("b", 0, 10)]})
Change: TypeAlias = Callable[[LiveBroker, StaticCluster], Awaitable[None]]
AWAY = {0: [Piece("a", 0), Piece("b", 0, 10)]}


@contextmanager
def ends(config: Path, folder: Path, held: threading.Event) -> Iterator[list[Path]]:
    """Copy the tables before each step that is made with one, and after the last: so ends leave
    them, and losses of power that take a step back, for each is synced before the next.

    The mapping's file is `held` in the making until it is set.
    """
    copies: list[Path] = []
    turn = threading.RLock()  # two tables may be written at once
    real_sync, real_replace = os.fsync, Path.replace

    def copy() -> None:
        target = folder / f"end-{len(copies)}" / "store" / "config"
        shutil.copytree(config, target, ignore=shutil.ignore_patterns("*.tmp"))
        copies.append(target.parents[1])

    def sync(fd: int) -> None:
        with turn:
            copy()
        real_sync(fd)

    def replace(self: Path, target: Path) -> Path:
        if self.name == "topicQueueMapping.json.tmp":
            held.wait(10)
        with turn:
            copy()
            return real_replace(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        patch.setattr(Path, "replace", replace)
        yield copies
    copy()


async def ends_of(
    tmp_path: Path, before: bool, held: threading.Event, change: Change
) -> list[Path]:
    """Return what ends within a change leave, of a topic that was mapped before or was not."""
    async with live_broker(tmp_path / "first", broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        await cluster.send("a", 0, b"x")  # makes files of its own before
        if before:
            assert (await cluster.map("a", 1, {0: [Piece("a", 0)]})).code == 0
        else:
            await live.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        with ends(live.broker.settings.config_dir, tmp_path, held) as copies:
            await change(live, cluster)
        return copies


@pytest.mark.parametrize("before", [False, True])
async def test_topic_and_mapping_agree_after_an_end_at_any_step_of_513(
    tmp_path: Path, before: bool
) -> None:
    """Whoever else has topics written meanwhile; the same 513 again completes it."""
    held = threading.Event()

    async def change(live: LiveBroker, cluster: StaticCluster) -> None:
        async def others() -> None:
            for number in range(3):
                header = {
                    "topic": f"other-{number}", "defaultTopic": "TBW102", "readQueueNums": 1,
                    "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG",
                }  # fmt: skip
                reply = await live.ask(Code.UPDATE_AND_CREATE_TOPIC, header, pool=pool)
                assert reply.code == 0
            held.set()

        pool = ConnectionPool()
        try:
            replies = await asyncio.gather(cluster.map("a", 2, AWAY), others())
            assert replies[0].code == 0
        finally:
            await pool.close()

    copies = await ends_of(tmp_path, before, held, change)
    assert len(copies) > 10
    seen = set()
    for copy in copies:
        async with live_broker(copy, broker_name="a") as live:
            cluster = StaticCluster({"a": live}, None)
            topic = live.broker.context.tables.topics.get(TOPIC)
            found = cluster.feature("a").table.details.get(TOPIC)
            seen.add((topic is not None, found is not None and found.epoch))
            if topic is not None:
                assert found in ((FIRST, SECOND) if before else (SECOND,))
            assert (await cluster.map("a", 2, AWAY)).code == 0
            assert live.broker.context.tables.topics.get(TOPIC) is not None
            assert cluster.feature("a").table.details[TOPIC] == SECOND
    assert seen >= ({(True, 1), (True, 2)} if before else {(False, False), (True, 2)})


async def test_a_deletion_that_ended_at_any_step_is_completed_by_the_same_again(
    tmp_path: Path,
) -> None:
    """Before that the topic is there with its mapping, or it is no topic."""

    async def change(live: LiveBroker, cluster: StaticCluster) -> None:
        assert (await live.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})).code == 0

    held = threading.Event()
    held.set()
    for copy in await ends_of(tmp_path, True, held, change):
        async with live_broker(copy, broker_name="a") as live:
            cluster = StaticCluster({"a": live}, None)
            table = cluster.feature("a").table
            if live.broker.context.tables.topics.get(TOPIC) is not None:
                assert table.details == {TOPIC: FIRST}
            assert (await live.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})).code == 0
            assert not table.details
            kept = (live.broker.settings.config_dir / "topicQueueMapping.json").read_bytes()
            assert TOPIC.encode() not in kept


async def test_what_was_answered_is_there_after_a_kill(tmp_path: Path) -> None:
    """kill -9 right behind the answer, and before it comes."""
    process = KilledBroker(tmp_path, "ASYNC_FLUSH", brokerName="a")
    header = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
        "force": "false",
    }  # fmt: skip
    fields = {name: str(value) for name, value in header.items()}
    address = f"127.0.0.1:{process.port}"

    async def ask(code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        pool = ConnectionPool()
        try:
            return await pool.call(address, Command(code=code, ext=ext, body=body), 10)
        finally:
            await pool.close()

    async def epoch() -> int:
        reply = await ask(Code.GET_TOPIC_CONFIG, {"topic": TOPIC, "lo": "true"})
        told = decode_body(TopicConfigAndQueueMapping, reply.body)
        assert told.mapping_detail is not None
        return told.mapping_detail.epoch

    process.start()
    for number in range(1, 4):
        body = encode_body(detail("a", number, {0: [Piece("a", 0)]}))
        assert (await ask(Code.UPDATE_AND_CREATE_STATIC_TOPIC, fields, body)).code == 0
        lost = encode_body(detail("a", number + 1, {0: [Piece("a", 0)]}))
        waiting = asyncio.create_task(ask(Code.UPDATE_AND_CREATE_STATIC_TOPIC, fields, lost))
        await asyncio.sleep(0)
        process.kill()
        await asyncio.gather(waiting, return_exceptions=True)
        process.start()
        assert await epoch() in (number, number + 1)
    assert process.stop() == 0
