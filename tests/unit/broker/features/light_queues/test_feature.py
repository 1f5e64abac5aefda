"""A message is stored once and read in every light queue that it names, after any stop."""

import asyncio
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.features.light_queues import (
    GROUP,
    SEND,
    A,
    B,
    bodies,
    join,
    light_broker,
    pulled,
    records,
    send,
)
from support.servers.live_broker import live_broker
from support.waiting import until

from aerobee.broker.features.http import overview
from aerobee.broker.features.light_queues import dispatching
from aerobee.broker.features.light_queues.feature import LightQueues
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import iter_records
from aerobee.storage.repair import repair
from aerobee.storage.verify import verify

TOPIC = {
    "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "order": "false",
}  # fmt: skip


async def test_one_record_is_read_in_many_queues(tmp_path: Path) -> None:
    """It names its own topic and offset, and says which offsets it has elsewhere."""
    async with light_broker(tmp_path) as live:
        await send(live, b"plain")
        assert (await send(live, b"one", A)).ext["queueOffset"] == "1"
        assert (await send(live, b"two", A, B)).ext["queueOffset"] == "2"
        assert await bodies(live, "t") == [b"plain", b"one", b"two"]
        assert await bodies(live, A) == [b"one", b"two"]
        (record,) = await records(live, B)
        assert (record.topic, record.queue_id, record.queue_offset) == ("t", 0, 2)
        properties = parse_properties(record.properties)
        assert properties["INNER_MULTI_DISPATCH"] == f"{A},{B}"
        assert properties["INNER_MULTI_QUEUE_OFFSET"] == "1,0"
        assert "WAIT" not in properties
        end = await live.ask(RequestCode.GET_MAX_OFFSET, {"topic": A, "queueId": 0})
        assert end.ext["offset"] == "2"
        listed = await live.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        assert b'"%LMQ%a"' not in listed.body
        feature = live.broker.features.find(LightQueues)
        assert feature is not None
        assert {each.name: each.value for each in feature.samples()} == {
            "aerobee_light_queues": 2,
            "aerobee_light_entries_total": 3,
            "aerobee_light_entries_left_out_total": 0,
        }
        shown = overview.broker(live.broker.context)["lightQueues"]
        assert shown == {"queues": 2, "queuesMax": 20_000, "entries": 3, "leftOut": 0}


async def test_a_waiting_pull_gets_it_at_once(tmp_path: Path) -> None:
    """A queue that nobody has filled yet can be waited on."""
    async with light_broker(tmp_path) as live:
        pool = type(live.pool)()
        try:
            fields = asyncio.ensure_future(pulled(live, A, hold_ms=10_000))
            await until(lambda: live.broker.context.pulls.holds.count == 1)
            await live.ask(
                RequestCode.SEND_MESSAGE_V2,
                SEND | {"i": f"UNIQ_KEY\x01K\x02INNER_MULTI_DISPATCH\x01{A}\x02"},
                b"one",
                pool=pool,
            )
            reply = await fields
            assert [bytes(each.body) for each in iter_records(reply.body)] == [b"one"]
        finally:
            await pool.close()


@pytest.mark.parametrize("how", ["stop", "kill", "kill, nothing written out", "folders lost"])
async def test_light_queues_are_whole_after_any_stop(tmp_path: Path, how: str) -> None:
    """What memory had alone comes from the log, and what was lost, too."""
    async with light_broker(tmp_path) as live:
        for number in range(50):
            await send(live, b"%d" % number, A, *([B] if number % 5 == 0 else []))
        store = live.broker.store
        if how != "kill, nothing written out":
            await until(lambda: all(each.written == each.max_offset for each in store.queues))
        for number in range(50, 60):
            await send(live, b"%d" % number, A)
        if how != "stop":
            store.commit_log.commit()
            store.abandon()
    if how == "folders lost":
        shutil.rmtree(tmp_path / "store" / "consumequeue" / A)
    async with light_broker(tmp_path) as live:
        expected = [b"%d" % number for number in range(60)]
        assert await bodies(live, A) == expected
        assert await bodies(live, B) == expected[:50:5]
        await send(live, b"more", A, B)
        assert (
            parse_properties((await records(live, A, 60))[0].properties)["INNER_MULTI_QUEUE_OFFSET"]
            == "60,10"
        )
    assert not verify(live.broker.settings.store).problems


async def test_switched_off_nothing_is_lost_and_nothing_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed with entries in memory, started without the feature, and with it again."""
    async with light_broker(tmp_path) as live:
        for number in range(5):
            await send(live, b"%d" % number, A)
        live.broker.store.commit_log.commit()
        live.broker.store.abandon()
    async with live_broker(tmp_path) as live:
        await join(live)
        assert (await pulled(live, A)).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await send(live, b"later", A)).code == ResponseCode.SUCCESS
        queue = live.broker.store.queue(A, 0)
        await until(lambda: queue.written == 5)
    caplog.clear()
    async with live_broker(tmp_path) as live:
        assert "light_queues_rest" in caplog.text
        await join(live)
        assert await bodies(live, "t") == [b"%d" % number for number in range(5)] + [b"later"]
    async with light_broker(tmp_path) as live:
        assert await bodies(live, A) == [b"%d" % number for number in range(5)]


async def test_old_messages_go_from_light_queues_too(tmp_path: Path) -> None:
    """Their entries lead into log files that are gone."""
    async with light_broker(tmp_path, delete_commit_log_files_interval=0) as live:
        for _ in range(40):
            await send(live, b"x" * (64 << 10), A)
        store = live.broker.store
        await until(lambda: store.commit_log.flushed_position == store.commit_log.position)
        for path in store.settings.log_dir.iterdir():
            os.utime(path, (1e9, 1e9))
        store.retention.remove_expired_soon()
        assert store.retention.clean() == 2
        while store.retention.shortening.go_on():
            pass
        queue = store.find_queue(A, 0)
        assert queue is not None and 0 < queue.min_offset < queue.max_offset == 40
        kept = queue.min_offset
    async with light_broker(tmp_path) as live:
        queue = live.broker.store.find_queue(A, 0)
        assert queue is not None and (queue.min_offset, queue.max_offset) == (kept, 40)


async def test_queues_that_have_lost_all_make_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """306 removes them with their groups' offsets; what still has a message stays."""
    commit = {"consumerGroup": GROUP, "topic": A, "queueId": 0, "commitOffset": 20}
    options = {"delete_commit_log_files_interval": 0, "max_lmq_consume_queue_num": 2}
    async with light_broker(tmp_path, **options) as live:
        for number in range(40):
            await send(live, b"x" * (64 << 10), B, *([A] if number < 20 else []))
        assert (await live.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
        store = live.broker.store
        await until(lambda: store.commit_log.flushed_position == store.commit_log.position)
        for path in store.settings.log_dir.iterdir():
            os.utime(path, (1e9, 1e9))
        store.retention.remove_expired_soon()
        assert store.retention.clean() == 2
        assert (await send(live, b"x", "%LMQ%c")).code == ResponseCode.LMQ_QUOTA_EXCEEDED
        assert (await live.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == 0
        assert store.find_queue(A, 0) is None
        assert live.broker.context.tables.offsets.committed(GROUP, A, 0) is None
        kept = store.queue(B, 0)
        assert 0 < kept.min_offset < kept.max_offset == 40
        monkeypatch.setattr(dispatching, "RECOUNT_S", 0.0)
        assert (await send(live, b"again", A)).code == ResponseCode.SUCCESS
        assert await bodies(live, A) == [b"again"]
    assert not verify(live.broker.settings.store).problems
    async with light_broker(tmp_path) as live:
        assert await bodies(live, A) == [b"again"]


@pytest.mark.parametrize(
    ("names", "more", "code", "remark"),
    [
        ((A, "t2"), {}, ResponseCode.MESSAGE_ILLEGAL, "t2 is no light queue"),
        (("%LMQ%a/b",), {}, ResponseCode.MESSAGE_ILLEGAL, "contains illegal characters"),
        (("%LMQ%" + "x" * 200,), {}, ResponseCode.MESSAGE_ILLEGAL, "longer than"),
        (("%LMQ%1", "%LMQ%2", "%LMQ%3"), {}, ResponseCode.LMQ_QUOTA_EXCEEDED, "num exceeded"),
    ],
)
async def test_what_cannot_be_filled_is_refused(
    tmp_path: Path, names: tuple[str, ...], more: dict[str, str], code: int, remark: str
) -> None:
    """Whole: no queue has got an entry, the topic's own neither."""
    async with light_broker(tmp_path, max_lmq_consume_queue_num=2) as live:
        reply = await send(live, b"x", *names, **more)
        assert reply.code == code
        assert remark in (reply.remark or "")
        assert await bodies(live, "t") == []
        assert not any(queue.max_offset for queue in live.broker.store.queues)
        assert (await send(live, b"x", A, B)).code == ResponseCode.SUCCESS


async def test_names_count_once_and_offsets_are_the_brokers(tmp_path: Path) -> None:
    """What a sender says of offsets is not stored."""
    async with light_broker(tmp_path) as live:
        await send(live, b"one", A, A, INNER_MULTI_QUEUE_OFFSET="7,8")
        await send(live, b"two", INNER_MULTI_QUEUE_OFFSET="7")
        (record,) = await records(live, A)
        properties = parse_properties(record.properties)
        assert properties["INNER_MULTI_DISPATCH"] == A
        assert properties["INNER_MULTI_QUEUE_OFFSET"] == "0"
        assert b"INNER_MULTI_QUEUE_OFFSET" not in (await records(live, "t"))[1].properties


async def test_nobody_sends_to_a_light_queue_itself(tmp_path: Path) -> None:
    """Its records would be of a topic that is in no table."""
    async with light_broker(tmp_path) as live:
        reply = await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"b": A}, b"x")
        assert reply.code == ResponseCode.NO_PERMISSION


async def test_offsets_are_where_rocketmq_looks(tmp_path: Path) -> None:
    """Both files have them; the newer one wins at a start, never beyond a queue's end."""
    commit = {"consumerGroup": GROUP, "topic": A, "queueId": 0, "commitOffset": 2}
    path = tmp_path / "store" / "config" / "lmqConsumerOffset.json"
    async with light_broker(tmp_path) as live:
        for number in range(5):
            await send(live, b"%d" % number, A)
        await pulled(live, A)
        assert (await live.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0
    text = json.loads(re.sub(r"([{,])(\d+):", r'\1"\2":', path.read_text()))  # Java's numbers
    assert text["lmqOffsetTable"] == {f"{A}@{GROUP}": 2}
    assert GROUP not in json.dumps(text["offsetTable"])
    text["lmqOffsetTable"] = {f"{A}@{GROUP}": 4, f"{A}@%LMQ%other": 99}
    text["offsetTable"]["t@plain"] = {"0": 3}
    path.write_text(json.dumps(text))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 10**9))
    async with light_broker(tmp_path) as live:
        offsets = live.broker.context.tables.offsets
        assert offsets.committed(GROUP, A, 0) == 4
        assert offsets.committed("%LMQ%other", A, 0) == 5
        assert offsets.committed("plain", "t", 0) == 3


async def test_a_topic_of_such_a_name_stays_a_topic(tmp_path: Path) -> None:
    """Made while the feature was off: its queue is loaded as any other, and is no light one."""
    async with live_broker(tmp_path) as live:
        await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"b": A}, b"own")
    async with light_broker(tmp_path) as live:
        assert await bodies(live, A) == [b"own"]
        reply = await send(live, b"x", A)
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert "is a topic" in (reply.remark or "")


async def test_a_light_queue_stays_one_while_the_feature_is_off(tmp_path: Path) -> None:
    """No topic of its name is made, by hand or by a send: its start would pass over all it has."""
    async with light_broker(tmp_path) as live:
        await send(live, b"light", A)
    async with live_broker(tmp_path) as live:
        made = await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC | {"topic": A})
        sent = await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"b": A}, b"own")
        for reply in (made, sent):
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert "a light queue (LMQ) so called" in (reply.remark or "")
        assert (await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"b": B}, b"own")).code == 0
    async with light_broker(tmp_path) as live:
        assert await bodies(live, A) == [b"light"]
        assert await bodies(live, B) == [b"own"]
    assert not verify(live.broker.settings.store).problems


async def test_a_topic_of_such_a_name_is_not_cleaned_as_a_light_queue(tmp_path: Path) -> None:
    """It was made while the broker ran, and has lost all of its messages."""
    async with live_broker(tmp_path, delete_commit_log_files_interval=0) as live:
        for topic, count in ((A, 4), ("t", 40)):
            for _ in range(count):
                header = SEND | {"b": topic}
                await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"x" * (64 << 10))
        store = live.broker.store
        await until(lambda: store.commit_log.flushed_position == store.commit_log.position)
        for path in store.settings.log_dir.iterdir():
            os.utime(path, (1e9, 1e9))
        store.retention.remove_expired_soon()
        assert store.retention.clean() == 2
        assert (await live.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == 0
        queue = store.find_queue(A, 0)
        assert queue is not None and queue.min_offset == queue.max_offset == 4
        assert live.broker.context.tables.topics.is_listed(A)


async def test_waiting_makes_no_more_queues_than_sending(tmp_path: Path) -> None:
    """Who asks for any name must not fill the memory; what is there is served."""
    async with light_broker(tmp_path, max_lmq_consume_queue_num=2) as live:
        await send(live, b"one", A)
        codes = [(await pulled(live, f"%LMQ%{number}")).code for number in range(5)]
        assert codes[1:] == [ResponseCode.TOPIC_NOT_EXIST] * 4
        assert len(live.broker.store.queues) <= 3
        assert await bodies(live, A) == [b"one"]


async def test_tails_that_go_between_room_and_entry_lose_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory for one queue may come from another, which has been asked for room before."""
    async with light_broker(tmp_path) as live:
        store = live.broker.store
        await send(live, b"0", A, B)
        append = store.commit_log.append

        def takes_memory(*args: Any) -> int:
            position = append(*args)
            for queue in store.queues:
                queue.let_tail_go()
            return position

        monkeypatch.setattr(store.commit_log, "append", takes_memory)
        for number in range(1, 9):
            await send(live, b"%d" % number, A, B)
        for queue in (A, B, "t"):
            assert await bodies(live, queue) == [b"%d" % number for number in range(9)]


@pytest.mark.parametrize("flushed", [0, 5], ids=["nothing on the disk", "some"])
async def test_a_repair_after_a_kill_brings_light_queues_up_to_the_log(
    tmp_path: Path, flushed: int
) -> None:
    """The next start takes what a repair says as proven, and looks at nothing before."""
    async with light_broker(tmp_path) as live:
        store = live.broker.store
        for number in range(7):
            if number and number == flushed:
                await until(lambda: all(q.flushed_offset == q.max_offset for q in store.queues))
            await send(live, b"m%d" % number, A, B)
        store.commit_log.commit()
        store.abandon()
    settings = live.broker.settings.store
    repair(settings)
    assert not verify(settings).problems
    async with light_broker(tmp_path) as live:
        for name in (A, B):
            assert await bodies(live, name) == [b"m%d" % number for number in range(7)]
        await send(live, b"next", A)
        assert (await bodies(live, A))[7:] == [b"next"]
    repair(settings)
    async with light_broker(tmp_path) as live:
        assert len(await bodies(live, A)) == 8
