"""Compaction topics through a real socket: what is refused, what pulls see, what rounds leave."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.compaction.feature import Compaction
from aerobee.broker.features.http import overview
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.record import Record, iter_records

SMALL_COPIES = {"compactionMappedFileSize": "4600", "compactionCqMappedFileSize": "920"}
"""Files of 4,600 bytes, and of twenty units."""


@asynccontextmanager
async def compacting(root: Path, **options: str) -> AsyncIterator[tuple[Broker, RawPeer]]:
    """A broker with a compaction topic T of one queue, and a client."""
    async with (
        running_broker(root, **(SMALL_COPIES | options)) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        yield broker, peer


async def make_topic(peer: RawPeer, name: str = "T", attributes: str | None = None) -> Command:
    """Make a topic of one queue."""
    text = "+cleanup.policy=COMPACTION" if attributes is None else attributes
    fields = {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": text,
    }  # fmt: skip
    return await peer.request(Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=fields))


async def put(peer: RawPeer, key: str, value: str, tag: str = "TagA") -> Command:
    """Send a value of a key."""
    properties = f"UNIQ_KEY\x01{key.upper()}{value.upper()}\x02TAGS\x01{tag}\x02KEYS\x01{key}\x02"
    reply = await peer.request(send_command(value.encode(), properties=properties))
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply


async def seen(peer: RawPeer, offset: int = 0, expression: str = "*") -> list[Record]:
    """Pull from an offset on until the end, as a consumer does."""
    found: list[Record] = []
    while True:
        reply = await peer.request(pull_command(offset, expression=expression))
        found += iter_records(bytes(reply.body))
        following = int(reply.ext["nextBeginOffset"])
        if reply.code == ResponseCode.PULL_NOT_FOUND:
            return found
        assert reply.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY,
                              ResponseCode.PULL_OFFSET_MOVED), reply.remark  # fmt: skip
        assert following > offset
        offset = following


def values(records: list[Record]) -> list[tuple[int, str]]:
    """Return offsets and bodies."""
    return [(record.queue_offset, bytes(record.body).decode()) for record in records]


def feature(broker: Broker) -> Compaction:
    """Return the feature of a broker."""
    found = broker.features.find(Compaction)
    assert found is not None
    return found


async def copied(broker: Broker, end: int, topic: str = "T") -> None:
    """Return when the copy has all below an offset."""
    await until(
        lambda: (
            feature(broker).copies.queue(topic, 0).end >= end
            and feature(broker).copies.queue(topic, 0).loaded
        ),
        what="messages to be copied",
    )


async def compacted(broker: Broker, topic: str = "T") -> None:
    """Run a round of the queue and return when it has ended."""
    schedule = feature(broker).schedule
    assert schedule.begin((topic, 0))
    await schedule.idle()
    await asyncio.sleep(0)


async def test_a_message_without_a_key_is_refused_in_rocketmqs_words(tmp_path: Path) -> None:
    """Blank keys are none; the fast path never takes such a topic."""
    async with compacting(tmp_path) as (broker, peer):
        assert (await make_topic(peer)).code == ResponseCode.SUCCESS
        for _ in range(2):
            await put(peer, "k", "v")
        for keys in ("", "KEYS\x01 \x02"):
            reply = await peer.request(send_command(b"v", properties=f"UNIQ_KEY\x01A\x02{keys}"))
            assert (reply.code, reply.remark) == (
                ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing",
            )  # fmt: skip
        assert "T" not in broker.context.writing.queues.fast


async def test_a_round_keeps_the_latest_of_each_key_with_its_offset(tmp_path: Path) -> None:
    """Readers meet gaps, from 0 on; what is new is read behind it."""
    async with compacting(tmp_path) as (broker, peer):
        await make_topic(peer)
        for number in range(100):
            await put(peer, f"k{number % 7}", f"v{number}")
        before = values(await seen(peer))
        assert before == [(number, f"v{number}") for number in range(100)]
        await copied(broker, 100)
        await compacted(broker)
        after = values(await seen(peer))
        last = {f"k{number % 7}": (number, f"v{number}") for number in range(100)}
        assert set(last.values()) <= set(after)
        assert len(after) < 50
        assert after == [pair for pair in before if pair in set(after)]
        await put(peer, "k0", "new")
        assert values(await seen(peer))[-1] == (100, "new")
        assert values(await seen(peer, 3)) == [
            each for each in values(await seen(peer)) if each[0] >= 3
        ]


async def test_what_a_round_did_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which queue, up to where, its size before and after; and why another one has failed."""
    async with compacting(tmp_path) as (broker, peer):
        await make_topic(peer)
        for number in range(60):
            await put(peer, f"k{number % 3}", f"v{number}" * 20)
        await copied(broker, 60)
        await compacted(broker)
        shown = overview.broker(broker.context)["compaction"]
        (ended,) = shown["latest"]
        assert (ended["topic"], ended["queueId"]) == ("T", 0)
        assert ended["kept"] < ended["records"] <= 60
        assert 0 < ended["bytesAfter"] < ended["bytesBefore"]
        assert shown["freedBytes"] == ended["bytesBefore"] - ended["bytesAfter"]
        assert (shown["topics"], shown["rounds"], shown["roundsFailed"]) == (1, 1, 0)

        def fails(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no room")

        monkeypatch.setattr("aerobee.broker.features.compaction.schedule.compact", fails)
        for number in range(60):
            await put(peer, f"k{number % 3}", f"w{number}" * 20)
        await copied(broker, 120)
        await compacted(broker)
        shown = overview.broker(broker.context)["compaction"]
        assert "no room" in shown["latest"][0]["error"]
        assert shown["roundsFailed"] == 1


async def test_tags_are_filtered_in_the_copy(tmp_path: Path) -> None:
    """A pull of one tag goes on behind what it passes over."""
    async with compacting(tmp_path) as (broker, peer):
        await make_topic(peer)
        for number in range(30):
            await put(peer, f"k{number}", f"v{number}", "TagB" if number % 10 == 3 else "TagA")
        await copied(broker, 30)
        found = values(await seen(peer, expression="TagB"))
        assert found == [(3, "v3"), (13, "v13"), (23, "v23")]


async def test_copies_survive_a_restart_and_the_end_of_the_log(tmp_path: Path) -> None:
    """The latest value stays when its log file is gone; 31 and 29 know where it is."""
    options = {"mappedFileSizeCommitLog": str(1 << 16), "maxMessageSize": "4000"}
    async with compacting(tmp_path, **options) as (broker, peer):
        await make_topic(peer)
        await put(peer, "old", "kept")
        for number in range(40):
            await put(peer, f"k{number % 3}", f"v{number}")
        await copied(broker, 41)
        await compacted(broker)
        for _ in range(60):
            await peer.request(send_command(bytes(3000), topic="P"))
    async with compacting(tmp_path, **options) as (broker, peer):
        store = broker.store
        store.tick()
        feature(broker).copying.look()
        feature(broker).copying.look()
        short = {"retention_hours": -1, "delete_hours": tuple(range(24))}
        store.apply(msgspec.structs.replace(store.settings, **short))
        await asyncio.sleep(0)
        assert store.retention.clean() > 0
        queue = store.find_queue("T", 0)
        assert queue is not None
        while store.retention.shortening.go_on():
            pass
        assert queue.min_offset == 41, "the log has none of the topic any more"
        found = values(await seen(peer))
        assert found[0] == (0, "kept")
        fields = {"topic": "T", "queueId": "0"}
        reply = await peer.request(Command(code=RequestCode.GET_MIN_OFFSET, ext=fields))
        assert reply.ext["offset"] == "0"
        asked = fields | {"timestamp": "0"}
        reply = await peer.request(Command(code=RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext=asked))
        assert reply.ext["offset"] == "0"


async def test_a_topic_that_is_made_again_has_none_of_the_old_messages(tmp_path: Path) -> None:
    """Its copies are gone when the deletion is answered, also in the midst of a round."""
    async with compacting(tmp_path) as (broker, peer):
        await make_topic(peer)
        for number in range(60):
            await put(peer, f"k{number % 40}", f"v{number}")
        await copied(broker, 60)
        assert feature(broker).schedule.begin(("T", 0))
        request = Command(code=RequestCode.DELETE_TOPIC_IN_BROKER, ext={"topic": "T"})
        assert (await peer.request(request)).code == ResponseCode.SUCCESS
        assert not list(broker.store.settings.root.glob("compaction/compaction*/T"))
        await make_topic(peer)
        await put(peer, "k1", "young")
        assert values(await seen(peer)) == [(0, "young")]
        await copied(broker, 1)
        assert values(await seen(peer)) == [(0, "young")]
        await feature(broker).schedule.idle()
        assert feature(broker).schedule.failed == 0
    async with compacting(tmp_path) as (broker, peer):
        assert values(await seen(peer)) == [(0, "young")]


async def test_switched_off_the_topic_is_read_as_any_other_and_goes_on_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The start says how many there are; keys are needed all the same, as in RocketMQ."""
    async with compacting(tmp_path) as (broker, peer):
        await make_topic(peer)
        for number in range(60):
            await put(peer, f"k{number % 3}", f"v{number}")
        await copied(broker, 60)
        await compacted(broker)
        short = values(await seen(peer))
    assert len(short) < 60
    async with compacting(tmp_path, enableCompaction="false") as (broker, peer):
        assert broker.features.find(Compaction) is None
        assert "compaction_off topics=1" in caplog.text
        assert len(values(await seen(peer))) == 60
        assert (await peer.request(send_command(b"v"))).code == ResponseCode.MESSAGE_ILLEGAL
        await put(peer, "k0", "later")
    async with compacting(tmp_path) as (broker, peer):
        assert values(await seen(peer)) == [*short, (60, "later")]


async def test_an_empty_body_is_taken_and_removes_its_key(tmp_path: Path) -> None:
    """Other topics refuse it."""
    async with compacting(tmp_path) as (broker, peer):
        await make_topic(peer)
        await put(peer, "gone", "v")
        await put(peer, "gone", "")
        for number in range(40):
            await put(peer, "other", f"v{number}")
        await copied(broker, 42)
        await compacted(broker)
        assert not [each for each in await seen(peer) if b"gone" in each.properties]
        refused = await peer.request(send_command(b"", topic="P"))
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_pull_waits_at_the_end_and_gets_what_comes(tmp_path: Path) -> None:
    """Copies do not stand between a message and those who wait for it."""
    async with (
        compacting(tmp_path) as (broker, peer),
        await RawPeer.connect(broker.port) as waiting,
    ):
        await make_topic(peer)
        await put(peer, "k", "v0")
        await copied(broker, 1)
        asked = asyncio.create_task(waiting.request(pull_command(1, suspend_ms=20_000)))
        await until(lambda: broker.context.pulls.holds.count, what="the pull to wait")
        await put(peer, "k", "v1")
        reply = await asked
        assert [bytes(each.body) for each in iter_records(bytes(reply.body))] == [b"v1"]


async def test_a_copy_that_cannot_be_written_keeps_the_log(tmp_path: Path) -> None:
    """Nothing of it goes meanwhile, whatever its age; it is copied when that can be done again."""
    options = {"mappedFileSizeCommitLog": str(1 << 16), "maxMessageSize": "4000"}
    async with compacting(tmp_path, **options) as (broker, peer):
        await make_topic(peer)
        root = broker.store.settings.root
        (root / "compaction").mkdir(exist_ok=True)
        (root / "compaction/compactionLog").write_bytes(b"in the way")
        await put(peer, "k", "kept")
        await until(lambda: feature(broker).copying.failures, what="the copy to fail")
        for _ in range(60):
            await peer.request(send_command(bytes(3000), topic="P"))
        store = broker.store
        short = {"retention_hours": -1, "delete_hours": tuple(range(24))}
        store.apply(msgspec.structs.replace(store.settings, **short))
        await until(lambda: store.flusher.needed_from > 1 << 17, what="the log to be synced")
        assert store.retention.clean() == 0
        (root / "compaction/compactionLog").unlink()
        await copied(broker, 1)
        await until(lambda: not feature(broker).copying.failures, what="the copy to go on")
        feature(broker).sync()
        await until(lambda: not feature(broker).copying.behind, what="the copy to be synced")
        feature(broker).copying.look()
        feature(broker).copying.look()
        assert store.retention.clean() > 0
        assert values(await seen(peer))[0] == (0, "kept")
