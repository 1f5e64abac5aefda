"""A topic that is made again under the name of a deleted one shows nothing of that, ever."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.compaction import feature as feature_module
from aerobee.broker.features.compaction.feature import Compaction
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.record import iter_records
from aerobee.storage.features.compaction.copies import Copies

SMALL = {"compactionMappedFileSize": "4600", "compactionCqMappedFileSize": "920"}
OFF = {"enableCompaction": "false"}


async def make(peer: RawPeer) -> None:
    """Make the topic, of one queue."""
    fields = {
        "topic": "T", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": "+cleanup.policy=COMPACTION",
    }  # fmt: skip
    reply = await peer.request(Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=fields))
    assert reply.code == ResponseCode.SUCCESS, reply.remark


async def put(peer: RawPeer, count: int, value: str, keys: int = 1000) -> None:
    """Send values of so many keys."""
    for number in range(count):
        properties = f"KEYS\x01k{number % keys}\x02"
        reply = await peer.request(send_command(value.encode(), properties=properties))
        assert reply.code == ResponseCode.SUCCESS, reply.remark


async def delete(peer: RawPeer) -> Command:
    """Delete the topic."""
    return await peer.request(Command(code=RequestCode.DELETE_TOPIC_IN_BROKER, ext={"topic": "T"}))


async def seen(peer: RawPeer) -> list[str]:
    """Pull all of it."""
    found: list[str] = []
    offset = 0
    while True:
        reply = await peer.request(pull_command(offset))
        assert reply.code not in (ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY), reply.remark
        found += (bytes(each.body).decode() for each in iter_records(bytes(reply.body)))
        if reply.code == ResponseCode.PULL_NOT_FOUND:
            return found
        offset = int(reply.ext["nextBeginOffset"])


def feature(broker: Broker) -> Compaction:
    """The feature of a broker."""
    found = broker.features.find(Compaction)
    assert found is not None
    return found


async def copied(broker: Broker, end: int) -> None:
    """Return when the copy is that of the queue, ends there, and is on the disk."""
    found = feature(broker)

    def is_copied() -> bool:
        found.sync()
        copy = found.copies.queue("T", 0)
        return copy.loaded and copy.end == copy.synced_end == end

    await until(is_copied, what="messages to be copied")


async def compacted(broker: Broker) -> None:
    """Run a round of the queue and return when it has ended."""
    schedule = feature(broker).schedule
    assert schedule.begin(("T", 0))
    await schedule.idle()


def refuses(*_: object) -> None:
    """What a bad disk does."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("count", [1, 60, 70], ids=["fewer", "as many", "more"])
async def test_copies_that_the_disk_keeps_are_not_those_of_the_next_topic_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The topic's own first record tells; all of it is copied in the place of the old ones."""
    with monkeypatch.context() as patched:
        async with (
            running_broker(tmp_path, **SMALL) as broker,
            await RawPeer.connect(broker.port) as peer,
        ):
            await make(peer)
            await put(peer, 60, "old")
            await copied(broker, 60)
            patched.setattr(Copies, "remove", refuses)
            refused = await delete(peer)
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert "copies of its messages are still there" in (refused.remark or "")
            (line,) = feature(broker).degraded()
            assert "T" in line
            await make(peer)
            await put(peer, count, "young")
            assert await seen(peer) == ["young"] * count
            await asyncio.sleep(0.6)
            begin = broker.store.commit_log.position - count * 1000
            kept_from = broker.store.retention.kept_from()
            assert kept_from is not None and begin <= kept_from
            assert kept_from < broker.store.commit_log.position, "the log has what is not copied"
    async with (
        running_broker(tmp_path, **SMALL) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await copied(broker, count)
        assert await seen(peer) == ["young"] * count
        assert (await delete(peer)).code == ResponseCode.SUCCESS


async def test_the_removal_is_tried_again_and_copying_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a restart; what was sent meanwhile is copied then."""
    monkeypatch.setattr(feature_module, "SYNC_S", 0.1)
    async with (
        running_broker(tmp_path, **SMALL) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await make(peer)
        await put(peer, 60, "old")
        await copied(broker, 60)
        with monkeypatch.context() as patched:
            patched.setattr(Copies, "remove", refuses)
            await delete(peer)
            await make(peer)
            await put(peer, 5, "young")
            await asyncio.sleep(0.3)
            assert list(feature(broker).degraded())
        await copied(broker, 5)
        assert not list(feature(broker).degraded())
        assert await seen(peer) == ["young"] * 5


async def test_a_topic_made_again_while_the_feature_was_off_has_none_of_the_old(
    tmp_path: Path,
) -> None:
    """Nobody removed the copies then."""
    for options, value in (({}, "old"), (OFF, "young"), ({}, "")):
        async with (
            running_broker(tmp_path, **SMALL, **options) as broker,
            await RawPeer.connect(broker.port) as peer,
        ):
            if value == "young":
                assert (await delete(peer)).code == ResponseCode.SUCCESS
            if value:
                await make(peer)
                await put(peer, 30, value)
            else:
                assert await seen(peer) == ["young"] * 30
                await copied(broker, 30)
                assert await seen(peer) == ["young"] * 30


async def test_rounds_of_a_topic_made_again_begin_anew(tmp_path: Path) -> None:
    """How far those of the old one came says nothing, where no record tells whose the copy is."""
    for options, value in (({}, "old"), (OFF, "young"), ({}, "")):
        async with (
            running_broker(tmp_path, **SMALL, **options) as broker,
            await RawPeer.connect(broker.port) as peer,
        ):
            if value == "old":
                await make(peer)
                await put(peer, 60, value, keys=5)
                await copied(broker, 60)
                await compacted(broker)
                assert len(await seen(peer)) < 30
            elif value == "young":
                assert (await delete(peer)).code == ResponseCode.SUCCESS
                await make(peer)
                await put(peer, 5, value)
            else:
                await copied(broker, 5)
                await put(peer, 55, "young", keys=5)
                await copied(broker, 60)
                await compacted(broker)
                assert len(await seen(peer)) < 30


async def test_copies_of_a_topic_that_was_deleted_while_the_feature_was_off_can_be_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The start names them, and 316 takes them; others' stay."""
    async with (
        running_broker(tmp_path, **SMALL) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await make(peer)
        await put(peer, 30, "old")
        await copied(broker, 30)
    async with (
        running_broker(tmp_path, **SMALL, **OFF) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await delete(peer)
    folders = tmp_path / "store/compaction"
    async with (
        running_broker(tmp_path, **SMALL) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert "compaction_copies_of_no_topic topic=T" in caplog.text
        assert list(folders.glob("compaction*/T"))
        clean = Command(code=RequestCode.CLEAN_UNUSED_TOPIC)
        assert (await peer.request(clean)).code == ResponseCode.SUCCESS
        assert not list(folders.glob("compaction*/T"))
        await make(peer)
        await put(peer, 3, "young")
        await copied(broker, 3)
        assert (await peer.request(clean)).code == ResponseCode.SUCCESS
        assert list(folders.glob("compaction*/T"))
        assert await seen(peer) == ["young"] * 3
