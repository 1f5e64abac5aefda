"""Messages that are older than their topic keeps them are shown by nothing that asks a queue."""

import asyncio
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.features.http import overview
from aerobee.broker.features.topic_retention import feature as topic_retention
from aerobee.broker.features.topic_retention.feature import TopicRetention
from aerobee.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.record import iter_records
from aerobee.storage.upkeep.wall_time import WallTime
from aerobee.storage.verify import verify

SEND = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
TOPIC = {
    "topic": "t",
    "defaultTopic": "TBW102",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "order": "false",
}
PULL = {
    "consumerGroup": "g", "topic": "t", "queueId": 0, "maxMsgNums": 32, "sysFlag": 0,
    "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0,
}  # fmt: skip


async def keep(live: LiveBroker, attributes: str, **more: int | str) -> Command:
    """Change the attributes of a topic, as `mqadmin updateTopic -a` does."""
    fields = TOPIC | {"attributes": attributes} | more
    return await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


async def send(live: LiveBroker, count: int, topic: str = "t", queue_id: int = 0) -> list[str]:
    """Send messages; return their ids."""
    ids = []
    for _ in range(count):
        reply = await live.ask(
            RequestCode.SEND_MESSAGE_V2, SEND | {"b": topic, "e": queue_id}, b"some text"
        )
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        ids.append(reply.ext["msgId"])
    return ids


async def settle(live: LiveBroker) -> None:
    """Return when the disk has all that was sent, entries too."""
    store = live.broker.store
    await until(lambda: store.commit_log.flushed_position == store.commit_log.position)
    await until(lambda: all(each.flushed_offset == each.max_offset for each in store.queues))


def feature(live: LiveBroker) -> TopicRetention:
    """The feature of a broker."""
    found = live.broker.features.find(TopicRetention)
    assert found is not None
    return found


async def later(live: LiveBroker, seconds: float) -> None:
    """Look at the topics as if time had passed."""
    found = feature(live)
    now_s = found.time._clock() + seconds
    found.time = WallTime(lambda: now_s)
    await found.look()
    while live.broker.store.retention.shortening.go_on():
        pass


async def pulled(live: LiveBroker, offset: int, **fields: Any) -> Command:
    """Pull from queue 0."""
    return await live.ask(RequestCode.PULL_MESSAGE, PULL | {"queueOffset": offset} | fields)


def bounds(live: LiveBroker, topic: str = "t", queue_id: int = 0) -> tuple[int, int]:
    """First and next offset of a queue."""
    queue = live.broker.store.find_queue(topic, queue_id)
    assert queue is not None
    return queue.min_offset, queue.max_offset


async def test_what_is_old_is_not_shown_and_stays_so(tmp_path: Path) -> None:
    """Neither by pulls and offsets nor by a message's id, nor after a restart; others are."""
    async with live_broker(tmp_path) as live:
        assert (await keep(live, "+aerobee.retention.seconds=60")).code == ResponseCode.SUCCESS
        old = await send(live, 5)
        await send(live, 3, topic="other")
        await settle(live)
        await later(live, 30)
        assert bounds(live) == (0, 5), "nothing goes before its time"
        await later(live, 60)
        assert bounds(live) == (5, 5)
        assert bounds(live, "other") == (0, 3)
        new = await send(live, 2)
        assert bounds(live) == (5, 7)
        subscribed = ConsumerData(
            group_name="g", subscription_data_set=[SubscriptionData(topic="t", sub_string="*")]
        )
        beat = HeartbeatData(client_id="c", consumer_data_set=[subscribed])
        await live.ask(RequestCode.HEART_BEAT, body=beat)
        moved = await pulled(live, 2)
        assert moved.code == ResponseCode.PULL_OFFSET_MOVED, "as with expired files"
        assert moved.ext["nextBeginOffset"] == "5"
        reply = await pulled(live, 5)
        assert (reply.code, reply.ext["minOffset"]) == (ResponseCode.SUCCESS, "5")
        for asked, code in ((old, ResponseCode.SYSTEM_ERROR), (new, ResponseCode.SUCCESS)):
            position = int(asked[0][16:], 16)
            shown = await live.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": position})
            assert shown.code == code
        by_time = await live.ask(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": "t", "queueId": 0, "timestamp": 0}
        )
        assert by_time.ext["offset"] == "5"
        await settle(live)
    settings = live.broker.settings.store
    assert not verify(settings).problems
    async with live_broker(tmp_path) as live:
        assert bounds(live) == (5, 7)
        assert bounds(live, "other") == (0, 3)
        await keep(live, "-aerobee.retention.seconds")
        await later(live, 1e6)
        assert bounds(live) == (5, 7), "without the attribute nothing more goes"


async def test_a_killed_broker_shows_no_more_than_before(tmp_path: Path) -> None:
    """The note is there before a queue follows it; the queues are as they were."""
    async with live_broker(tmp_path) as live:
        await keep(live, "+aerobee.retention.seconds=60")
        await send(live, 5)
        await send(live, 5, queue_id=1)
        await settle(live)
        await later(live, 61)
        await send(live, 1)
        live.broker.store.commit_log.commit()
        live.broker.store.abandon()
    async with live_broker(tmp_path) as live:
        assert bounds(live) == (5, 6)
        assert bounds(live, queue_id=1) == (5, 5)


async def test_what_is_old_is_not_found_by_its_key(tmp_path: Path) -> None:
    """The index has it as long as the log, and does not show it: neither now nor after a start."""
    settings = {"max_hash_slot_num": 100, "max_index_num": 1000}
    question = {
        "topic": "t", "key": "k", "maxNum": 32, "beginTimestamp": 0,
        "endTimestamp": (1 << 63) - 1,
    }  # fmt: skip
    with_key = SEND | {"i": "KEYS\x01k\x02UNIQ_KEY\x01U\x02"}

    async def found(live: LiveBroker) -> list[bytes]:
        by_key = await live.ask(RequestCode.QUERY_MESSAGE, question)
        by_id = question | {"key": "U", "_UNIQUE_KEY_QUERY": "true"}
        assert (await live.ask(RequestCode.QUERY_MESSAGE, by_id)).body == by_key.body
        return [bytes(each.body) for each in iter_records(bytes(by_key.body))]

    async with live_broker(tmp_path, **settings) as live:
        await keep(live, "+aerobee.retention.seconds=60")
        await live.ask(RequestCode.SEND_MESSAGE_V2, with_key, b"old")
        await settle(live)
        assert await found(live) == [b"old"]
        await later(live, 61)
        assert await found(live) == []
        await live.ask(RequestCode.SEND_MESSAGE_V2, with_key, b"new")
        assert await found(live) == [b"new"]
    async with live_broker(tmp_path, **settings) as live:
        assert await found(live) == [b"new"]


async def test_an_interval_that_was_changed_counts_at_once(tmp_path: Path) -> None:
    """The next look need not come first, which may be a day away."""
    async with live_broker(tmp_path, clean_resource_interval=86_400_000) as live:
        await keep(live, "+aerobee.retention.seconds=1")
        await send(live, 1)
        await settle(live)
        await asyncio.sleep(0)  # the feature waits for its time
        changed = await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"cleanResourceInterval=50")
        assert changed.code == ResponseCode.SUCCESS, changed.remark
        await until(lambda: bounds(live) == (1, 1), what="the message to go")


async def test_a_topic_that_is_made_again_shows_its_own(tmp_path: Path) -> None:
    """Its offsets begin at 0 again; the note is one of positions, which never come again."""
    async with live_broker(tmp_path) as live:
        await keep(live, "+aerobee.retention.seconds=60")
        await send(live, 5)
        await settle(live)
        await later(live, 61)
        assert bounds(live) == (5, 5)
        await live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        await send(live, 3)
        assert bounds(live) == (0, 3)
    async with live_broker(tmp_path) as live:
        assert bounds(live) == (0, 3)


async def test_what_the_disk_does_not_take_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk refuses the note: nothing changes, it is told once, and tried again."""
    async with live_broker(tmp_path, clean_resource_interval=10) as live:
        await keep(live, "+aerobee.retention.seconds=60")
        await send(live, 5)
        await settle(live)
        expired = live.broker.store.queues.expired

        def refuses(positions: Mapping[str, int], log_begin: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(expired, "add", refuses)
            with pytest.raises(OSError, match="No space"):
                await later(live, 61)
            await until(lambda: "topic_retention_failed" in caplog.text)
            await asyncio.sleep(0.1)
            assert caplog.text.count("topic_retention_failed") == 1
            assert bounds(live) == (0, 5)
            shown = overview.broker(live.broker.context)
            assert "No space" in shown["topicRetention"]["error"]
            assert any("do not go" in line for line in shown["degraded"])
        await until(lambda: bounds(live) == (5, 5))
        await until(lambda: not overview.broker(live.broker.context)["degraded"])
        assert overview.broker(live.broker.context)["topicRetention"] == {
            "topics": 1, "expired": 5, "error": "",
            "first": [{"topic": "t", "seconds": 60, "expired": 5}],
        }  # fmt: skip


async def test_what_is_not_on_the_disk_stays_in_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was synced may be hidden, or a loss of power could have new messages there."""
    async with live_broker(tmp_path, flush_interval_commit_log=600_000) as live:
        await keep(live, "+aerobee.retention.seconds=60")
        await send(live, 5)
        await later(live, 61)
        assert bounds(live) == (0, 5)


async def test_thousands_of_queues_go_in_slices(tmp_path: Path) -> None:
    """Sixty-four of them at a time; messages of all are cut at one position of the log."""
    async with live_broker(tmp_path) as live:
        await keep(live, "+aerobee.retention.seconds=60", readQueueNums=300, writeQueueNums=300)
        for queue_id in range(0, 300, 3):
            await send(live, 2, queue_id=queue_id)
        await settle(live)
        await later(live, 61)
        assert {bounds(live, queue_id=each) for each in range(0, 300, 3)} == {(2, 2)}
        values = {sample.name: sample.value for sample in feature(live).samples()}
        assert values == {
            "aerobee_topic_retention_seconds": 60,
            "aerobee_topic_expired_messages_total": 200,
        }


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "9" * 20, "315360001", ""])
async def test_a_time_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    """In RocketMQ's words for numbers out of range."""
    async with live_broker(tmp_path) as live:
        reply = await keep(live, f"+aerobee.retention.seconds={value}")
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == "value is not in range(1, 315360000)"


async def test_a_broker_that_obeys_none_says_so(tmp_path: Path) -> None:
    """An attribute that means nothing would be a promise."""
    async with live_broker(tmp_path, topic_retention_enable=False) as live:
        reply = await keep(live, "+aerobee.retention.seconds=60")
        assert reply.code == ResponseCode.INVALID_PARAMETER
        assert "topicRetentionEnable" in (reply.remark or "")


async def test_many_topics_cost_one_note_and_few_turns_of_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note for each of them would be a sync for each, on the loop."""
    async with live_broker(tmp_path) as live:
        for number in range(100):
            await keep(
                live, "+aerobee.retention.seconds=60", topic=f"t{number}", readQueueNums=1,
                writeQueueNums=1,
            )  # fmt: skip
            await send(live, 1, topic=f"t{number}")
        await settle(live)
        notes: list[Mapping[str, int]] = []
        turns: list[object] = []
        add, beside = live.broker.store.queues.expired.add, live.broker.context.cold.lookups.beside

        def counted(positions: Mapping[str, int], log_begin: int) -> None:
            notes.append(positions)
            add(positions, log_begin)

        async def counted_turn(look: Any) -> Any:
            turns.append(look)
            return await beside(look)

        monkeypatch.setattr(live.broker.store.queues.expired, "add", counted)
        monkeypatch.setattr(live.broker.context.cold.lookups, "beside", counted_turn)
        await later(live, 61)
        assert {bounds(live, f"t{number}") for number in range(100)} == {(1, 1)}
        assert [len(each) for each in notes] == [100]
        assert len(turns) == 2


async def test_a_note_has_so_many_topics_and_those_before_a_refused_one_stay_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two notes others are served: a topic that goes then is left out of the next one."""
    monkeypatch.setattr(topic_retention, "HIDDEN_PER_NOTE", 2)
    async with live_broker(tmp_path) as live:
        for number in range(7):
            await keep(live, "+aerobee.retention.seconds=60", topic=f"t{number}")
            await send(live, 1, topic=f"t{number}")
        await settle(live)
        notes: list[list[str]] = []
        add = live.broker.store.queues.expired.add

        def counted(positions: Mapping[str, int], log_begin: int) -> None:
            if len(notes) == 2:
                notes.clear()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            notes.append(sorted(positions))
            live.broker.context.tables.topics.delete("t3")
            add(positions, log_begin)

        monkeypatch.setattr(live.broker.store.queues.expired, "add", counted)
        with pytest.raises(OSError, match="No space"):
            await later(live, 61)
        first = [bounds(live, f"t{number}") for number in range(7)]
        assert first == [(1, 1)] * 3 + [(0, 1)] * 4
        monkeypatch.setattr(live.broker.store.queues.expired, "add", add)
        await later(live, 61)
        assert [bounds(live, f"t{number}") for number in (4, 5, 6)] == [(1, 1)] * 3
        assert overview.broker(live.broker.context)["topicRetention"]["expired"] == 6


async def test_topics_that_keep_the_latest_of_each_key_have_no_other_retention(
    tmp_path: Path,
) -> None:
    """Else what is not copied yet would be hidden from the copy."""
    async with live_broker(tmp_path) as live:
        both = "+cleanup.policy=COMPACTION,+aerobee.retention.seconds=60"
        reply = await keep(live, both)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "latest of each key" in (reply.remark or "")
        assert (await keep(live, "+cleanup.policy=COMPACTION")).code == ResponseCode.SUCCESS
        reply = await keep(live, "+aerobee.retention.seconds=60")
        assert reply.code == ResponseCode.SYSTEM_ERROR
        config = live.broker.context.tables.topics.get("t")
        assert config is not None
        attributes = config.attributes | {"aerobee.retention.seconds": "60"}
        feature(live)._follow(replace(config, attributes=attributes))  # as a file may have it
        assert not list(feature(live).samples())
