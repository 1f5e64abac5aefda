"""Static topics whose disk refuses, that are deleted meanwhile, whose other broker is silent."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.features.static_topics import (
    TOPIC,
    Piece,
    StaticCluster,
    bodies,
    detail,
    static_cluster,
)
from support.servers.live_broker import live_broker
from support.stand_ins.silent_server import SilentServer
from support.waiting import until

from aerobee.broker.features.static_topics import forwarding
from aerobee.broker.tables import table_file
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.config import kept_files

MAPPINGS = "topicQueueMapping.json"


@contextmanager
def writes_of_mappings(before: Callable[[], None]) -> Iterator[None]:
    """Do something before each write of their file, in its thread."""
    real = kept_files.replace_file

    def replace_file(path: Path, data: bytes, *, private: bool = False) -> None:
        if path.name == MAPPINGS:
            before()
        real(path, data, private=private)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_file, "replace_file", replace_file)
        yield


def full() -> None:
    """Refuse as a full disk does."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def delete(cluster: StaticCluster, broker: str) -> Command:
    """Delete the topic on a broker."""
    return await cluster.brokers[broker].ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})


async def test_a_mapping_that_the_disk_refuses_is_not_in_force(tmp_path: Path) -> None:
    """The one before is, for sends and on the disk, now and later; a new topic is none."""
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        table = cluster.feature("a").table
        with writes_of_mappings(full):
            reply = await cluster.map("a", 1, {0: [Piece("a", 0)]})
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert not table.details
        assert live.broker.context.tables.topics.get(TOPIC) is None
        assert (await cluster.map("a", 2, {0: [Piece("a", 0)]})).code == 0
        kept = table.details[TOPIC]
        with writes_of_mappings(full):
            reply = await cluster.map("a", 3, {0: [Piece("a", 0), Piece("b", 0, 10)]})
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert table.details == {TOPIC: kept}
        assert (await cluster.send("a", 0, b"x")).code == 0
        await table.file.flush()
    async with live_broker(tmp_path, broker_name="a") as live:
        assert StaticCluster({"a": live}, None).feature("a").table.details == {TOPIC: kept}


async def test_the_second_of_two_at_once_follows_what_the_first_has_left(tmp_path: Path) -> None:
    """Which is nothing, where the disk has refused that one."""
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        assert (await cluster.map("a", 1, {0: [Piece("a", 0)]})).code == 0
        come, refuse, writes = threading.Event(), threading.Event(), 0

        def first_fails() -> None:
            nonlocal writes
            writes += 1
            if writes == 1:
                come.set()
                refuse.wait(10)
                full()

        away, stays = [Piece("a", 0), Piece("b", 0, 10)], [Piece("a", 0), Piece("a", 1, 10)]
        with writes_of_mappings(first_fails):
            first = asyncio.create_task(cluster.map("a", 2, {0: away}))
            await until(come.is_set, what="the write")
            second = asyncio.create_task(cluster.map("a", 2, {0: stays}))
            # answered behind it, as one connection is read in order
            await live.ask(Code.GET_TOPIC_CONFIG, {"topic": TOPIC})
            refuse.set()
            assert (await first).code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert (await second).code == 0
        assert cluster.feature("a").table.details == {TOPIC: detail("a", 2, {0: stays})}


async def test_a_topic_that_is_deleted_while_it_is_mapped_is_gone(tmp_path: Path) -> None:
    """With its mapping; who has mapped it is told."""
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        assert (await cluster.map("a", 1, {0: [Piece("a", 0)]})).code == 0
        come, go_on = threading.Event(), threading.Event()

        def wait() -> None:
            come.set()
            go_on.wait(10)

        with writes_of_mappings(wait):
            mapping = asyncio.create_task(
                cluster.map("a", 2, {0: [Piece("a", 0), Piece("b", 0, 10)]})
            )
            await until(come.is_set, what="the write")
            deleting = asyncio.create_task(delete(cluster, "a"))
            topics = live.broker.context.tables.topics
            await until(lambda: topics.get(TOPIC) is None, what="the topic to be gone")
            go_on.set()
            reply = await mapping
            assert (reply.code, reply.remark) == (
                ResponseCode.SYSTEM_ERROR,
                f"topic {TOPIC} has been deleted meanwhile",
            )
            assert (await deleting).code == 0
        assert topics.get(TOPIC) is None
        kept = (live.broker.settings.config_dir / MAPPINGS).read_bytes()
        assert TOPIC.encode() not in kept


@pytest.mark.parametrize("deleted", [True, False])
async def test_a_mapping_that_a_kill_has_left_without_its_topic(
    tmp_path: Path, deleted: bool
) -> None:
    """It goes when the topic is deleted once more, and counts nothing when it is made anew."""
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        assert (await cluster.map("a", 1, {0: [Piece("a", 0)]})).code == 0
        kept = (live.broker.settings.config_dir / MAPPINGS).read_bytes()
        assert (await delete(cluster, "a")).code == 0
        config = live.broker.settings.config_dir
    (config / MAPPINGS).write_bytes(kept)
    async with live_broker(tmp_path, broker_name="a") as live:
        cluster = StaticCluster({"a": live}, None)
        assert cluster.feature("a").table.details
        if deleted:
            assert (await delete(cluster, "a")).code == 0
            assert TOPIC.encode() not in (config / MAPPINGS).read_bytes()
        assert (await cluster.map("a", 2, {1: [Piece("a", 0)]})).code == 0
        assert cluster.feature("a").table.details == {TOPIC: detail("a", 2, {1: [Piece("a", 0)]})}


async def moved(cluster: StaticCluster) -> None:
    """Give logical queue 0, with one message, from a to b."""
    assert (await cluster.map("a", 1, {0: [Piece("a", 0)]})).code == 0
    assert (await cluster.send("a", 0, b"1")).code == 0
    for broker in ("b", "a"):
        reply = await cluster.map(broker, 2, {0: [Piece("a", 0), Piece("b", 0, 10)]})
        assert reply.code == 0, reply.remark


async def test_all_first_readers_of_an_old_stretch_are_served(tmp_path: Path) -> None:
    """Those, too, that come while the nameserver is asked where its broker is."""
    async with static_cluster(tmp_path) as cluster:
        await moved(cluster)
        replies = await asyncio.gather(*(cluster.pull("b", 0, 0) for _ in range(20)))
        assert [bodies(reply) for reply in replies] == [[b"1"]] * 20


async def test_a_broker_that_is_silent_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its readers are refused while it says nothing, and served where it is now."""
    monkeypatch.setattr(forwarding, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(forwarding, "FRESH_S", 0.0)
    real = forwarding.OtherBrokers._look
    async with static_cluster(tmp_path) as cluster, SilentServer() as silent:
        await moved(cluster)

        async def look(others: forwarding.OtherBrokers) -> None:
            await real(others)
            if not silent.connections:
                others._addresses["a"] = silent.address

        monkeypatch.setattr(forwarding.OtherBrokers, "_look", look)
        reply = await cluster.pull("b", 0, 0)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark is not None and "broker a does not answer" in reply.remark
        assert silent.connections == 1
        assert bodies(await cluster.pull("b", 0, 0)) == [b"1"]


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1])
async def test_offsets_at_the_edges(tmp_path: Path, offset: int) -> None:
    """Readers are sent to where messages are, from before the first and from behind the last."""
    async with static_cluster(tmp_path) as cluster:
        await moved(cluster)
        assert (await cluster.send("b", 0, b"2")).code == 0
        reply = await cluster.pull("b", 0, offset)
        assert reply.code == ResponseCode.PULL_OFFSET_MOVED, reply.remark
        assert int(reply.ext["nextBeginOffset"]) == (0 if offset < 0 else 11)


async def test_a_commit_of_an_earlier_life_of_a_queue_is_none_before_it_is_decided(
    tmp_path: Path,
) -> None:
    """Readers go on in the old stretch where they were, and pass over nothing."""
    async with static_cluster(tmp_path) as cluster:
        assert (await cluster.map("a", 1, {0: [Piece("a", 0)]})).code == 0
        assert (await cluster.map("b", 1, {1: [Piece("b", 0)]})).code == 0
        for _ in range(3):
            assert (await cluster.send("a", 0, b"x")).code == 0
        await cluster.pull("a", 0, 0)  # makes the group
        assert (await cluster.ask("a", Code.UPDATE_CONSUMER_OFFSET, 0, commitOffset=1)).code == 0
        cluster.brokers["b"].broker.context.tables.offsets.commit("g", TOPIC, 1, 3)
        undecided = {1: [Piece("b", 0)], 0: [Piece("a", 0), Piece("b", 1, -1)]}
        assert (await cluster.map("b", 2, undecided)).code == 0
        reply = await cluster.ask("b", Code.QUERY_CONSUMER_OFFSET, 0)
        assert (reply.code, reply.ext["offset"]) == (0, "1")


@pytest.mark.parametrize("offset", [-1, 0, 3, 9, 10, 12, 2**62])
async def test_commits_at_the_edges_come_back(tmp_path: Path, offset: int) -> None:
    """Each in the stretch that has it; one before the first is none."""
    async with static_cluster(tmp_path) as cluster:
        await moved(cluster)
        await cluster.pull("b", 0, 10)  # makes the group
        await cluster.pull("b", 0, 0)
        reply = await cluster.ask("b", Code.UPDATE_CONSUMER_OFFSET, 0, commitOffset=offset)
        assert reply.code == 0, reply.remark
        reply = await cluster.ask("b", Code.QUERY_CONSUMER_OFFSET, 0)
        if offset < 0:
            assert reply.code == ResponseCode.QUERY_NOT_FOUND
        else:
            assert (reply.code, reply.ext["offset"]) == (0, str(offset))
