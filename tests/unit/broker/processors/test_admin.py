"""Offsets, topics, groups, settings and single messages, asked of a real broker."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.servers.live_broker import LiveBroker, live_broker

from aerobee.remoting.bodies import (
    KVTable,
    SubscriptionGroupConfig,
    TopicConfig,
    decode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.config.java_properties import parse_java_properties
from aerobee.remoting.message.record import decode_record


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with one client."""
    async with live_broker(tmp_path) as broker:
        yield broker


async def make_topic(live: LiveBroker, name: str = "t", **fields: Any) -> int:
    """Make a topic of 4 queues; return the reply's code."""
    header = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    return (await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header | fields)).code


async def send(live: LiveBroker, body: bytes, topic: str = "t", queue_id: int = 0) -> str:
    """Send one message; return its offset message id."""
    header = {"a": "p", "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": 0, "g": 1, "h": 0}
    reply = await live.ask(RequestCode.SEND_MESSAGE_V2, header, body)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply.ext["msgId"]


async def offset(live: LiveBroker, code: int, **fields: Any) -> int:
    """Ask for one offset of queue 0 of topic t."""
    reply = await live.ask(code, {"topic": "t", "queueId": 0} | fields)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return int(reply.ext["offset"])


async def test_ends_of_a_queue(live: LiveBroker) -> None:
    """Unknown queues begin and end at 0; a queue ends one past its newest message."""
    for code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET):
        assert await offset(live, code) == 0
    await make_topic(live)
    for body in (b"one", b"two"):
        await send(live, body)
    assert await offset(live, RequestCode.GET_MAX_OFFSET) == 2
    assert await offset(live, RequestCode.GET_MIN_OFFSET) == 0
    assert await offset(live, RequestCode.GET_MAX_OFFSET, queueId=1) == 0


async def test_offsets_by_time(live: LiveBroker) -> None:
    """Before, at and after the messages; an unknown queue is at 0."""
    search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    assert await offset(live, search, timestamp=1) == 0
    await make_topic(live)
    for body in (b"one", b"two"):
        await send(live, body)
    times = RequestCode.GET_EARLIEST_MSG_STORETIME
    reply = await live.ask(times, {"topic": "t", "queueId": 0})
    first_ms = int(reply.ext["timestamp"])
    assert abs(first_ms - live.broker.context.now_ms()) < 60_000
    assert await offset(live, search, timestamp=first_ms) == 0
    assert await offset(live, search, timestamp=first_ms + 60_000) == 2
    assert await offset(live, search, timestamp=first_ms + 60_000, boundaryType="UPPER") == 1
    empty = await live.ask(times, {"topic": "t", "queueId": 1})
    assert empty.ext == {"timestamp": "-1"}


async def test_a_new_group_on_a_fresh_queue_starts_at_its_begin(live: LiveBroker) -> None:
    """0 where message 0 is at hand, else not found; and never 0 for those who do not want it."""
    asked = {"consumerGroup": "g"}
    query = RequestCode.QUERY_CONSUMER_OFFSET
    await make_topic(live)
    where = {"topic": "t", "queueId": 0} | asked
    assert (await live.ask(query, where)).code == ResponseCode.QUERY_NOT_FOUND, "an empty queue"
    await send(live, b"one")
    assert await offset(live, query, **asked) == 0
    reply = await live.ask(query, where | {"setZeroIfNotFound": "false"})
    assert (reply.code, reply.remark) == (
        ResponseCode.QUERY_NOT_FOUND,
        "Not found, do not set to zero, maybe this group boot first",
    )
    live.broker.store.queue("t", 0).min_offset = 1
    assert (await live.ask(query, where)).code == ResponseCode.QUERY_NOT_FOUND, "0 is gone"


async def test_commits(live: LiveBroker) -> None:
    """Only for groups, topics and queues that exist."""
    commit = RequestCode.UPDATE_CONSUMER_OFFSET
    fields = {"consumerGroup": "g", "topic": "t", "queueId": 1, "commitOffset": 5}
    reply = await live.ask(commit, fields)
    assert (reply.code, reply.remark) == (
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        "Group g not exist!",
    )
    live.broker.context.tables.groups.find("g")
    assert (await live.ask(commit, fields)).code == ResponseCode.TOPIC_NOT_EXIST
    await make_topic(live)
    for queue_id in (-1, 4):
        refused = await live.ask(commit, fields | {"queueId": queue_id})
        assert refused.code == ResponseCode.INVALID_PARAMETER
    assert (await live.ask(commit, fields)).code == ResponseCode.SUCCESS
    query = RequestCode.QUERY_CONSUMER_OFFSET
    assert await offset(live, query, consumerGroup="g", queueId=1) == 5


async def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    """A clean stop writes them, whenever the last periodic write was."""
    async with live_broker(tmp_path, flush_consumer_offset_interval=600_000) as live:
        await make_topic(live)
        for number in range(5):
            await send(live, b"%d" % number, queue_id=1)
        live.broker.context.tables.groups.find("g")
        fields = {"consumerGroup": "g", "topic": "t", "queueId": 1, "commitOffset": 5}
        await live.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    async with live_broker(tmp_path) as live:
        query = RequestCode.QUERY_CONSUMER_OFFSET
        assert await offset(live, query, consumerGroup="g", queueId=1) == 5
        assert live.broker.context.tables.topics.get("t") is not None
        assert "g" in live.broker.context.tables.groups


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "a b"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "TBW102"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "rmq_sys_x"}, ResponseCode.INVALID_PARAMETER),
        ({"readQueueNums": -1}, ResponseCode.INVALID_PARAMETER),
        ({"writeQueueNums": 1 << 20}, ResponseCode.INVALID_PARAMETER),
        ({"perm": 99}, ResponseCode.INVALID_PARAMETER),
        ({"attributes": "+message.type=MIXED"}, ResponseCode.INVALID_PARAMETER),
        ({"attributes": "+colour=red"}, ResponseCode.SYSTEM_ERROR),
        ({"topicFilterType": "NONSENSE"}, ResponseCode.SYSTEM_ERROR),
        ({"readQueueNums": "many"}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_topics_that_are_refused(live: LiveBroker, fields: dict[str, Any], code: int) -> None:
    """Each with its code, and no topic comes of it."""
    before = len(live.broker.context.tables.topics)
    assert await make_topic(live, **fields) == code
    assert len(live.broker.context.tables.topics) == before


async def test_a_topic_is_made_changed_shown_and_deleted(live: LiveBroker) -> None:
    """With it go its queues, its committed offsets and its numbers; a new one starts at 0."""
    assert await make_topic(live, attributes="+message.type=FIFO") == ResponseCode.SUCCESS
    assert await make_topic(live, readQueueNums=8) == ResponseCode.SUCCESS
    shown = await live.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "t"})
    config = decode_body(TopicConfig, shown.body)
    assert (config.read_queue_nums, config.write_queue_nums) == (8, 4)
    assert config.attributes == {"message.type": "FIFO"}
    await send(live, b"one")
    live.broker.context.tables.groups.find("g")
    live.broker.context.tables.offsets.commit("g", "t", 0, 1)
    live.broker.context.tables.topics.create_for_group("%RETRY%g_t", 1)
    reply = await live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    assert reply.code == ResponseCode.SUCCESS
    gone = await live.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "t"})
    assert (gone.code, gone.remark) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "No topic in this broker. topic: t",
    )
    assert live.broker.context.tables.topics.get("%RETRY%g_t") is None, "a pop retry topic of it"
    assert live.broker.context.tables.offsets.committed("g", "t", 0) is None
    await make_topic(live)
    assert await offset(live, RequestCode.GET_MAX_OFFSET) == 0
    await send(live, b"again")
    assert await offset(live, RequestCode.GET_MAX_OFFSET) == 1
    for name in ("TBW102", " "):
        refused = await live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
        assert refused.code == ResponseCode.INVALID_PARAMETER


async def test_deletions_that_come_together_have_a_turn_each(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the disk: a hundred of one socket read would hold the loop for a second."""
    names = [f"t{number}" for number in range(10)]
    for name in names:
        await make_topic(live, name)
        await send(live, b"x", name)
    turn, turns = 0, list[int]()
    delete = live.broker.store.delete_topic

    def noted(*topics: str) -> bool:
        turns.append(turn)
        return delete(*topics)

    async def serve() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(live.broker.store, "delete_topic", noted)
    others = asyncio.create_task(serve())
    replies = await asyncio.gather(
        *(live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name}) for name in names)
    )
    others.cancel()
    assert [reply.code for reply in replies] == [ResponseCode.SUCCESS] * len(names)
    assert len(set(turns)) == len(names)
    assert not any(name in names for name in live.broker.store.topics())


async def test_a_deletion_that_waits_for_others_takes_what_came_meanwhile(live: LiveBroker) -> None:
    """A retry topic of a topic that is gone would be of no use, and stay for ever."""
    await make_topic(live)
    tables = live.broker.context.tables
    async with tables.topics.deletions:
        asked = asyncio.create_task(live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"}))
        await live.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "t"})  # the other one waits by now
        tables.groups.find("g")
        tables.offsets.commit("g", "t", 0, 1)
        tables.topics.create_for_group("%RETRY%g_t", 1)
    assert (await asked).code == ResponseCode.SUCCESS
    assert tables.topics.get("t") is tables.topics.get("%RETRY%g_t") is None
    assert tables.offsets.committed("g", "t", 0) is None


async def test_a_group_is_made_shown_and_deleted(live: LiveBroker) -> None:
    """Its offsets go with it only when asked; showing an unknown group makes it, as RocketMQ."""
    update = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    config = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
    assert (await live.ask(update, body=config)).code == ResponseCode.SUCCESS
    shown = await live.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
    assert decode_body(SubscriptionGroupConfig, shown.body) == config
    live.broker.context.tables.offsets.commit("g", "t", 0, 5)
    delete = RequestCode.DELETE_SUBSCRIPTIONGROUP
    await live.ask(delete, {"groupName": "g"})
    assert "g" not in live.broker.context.tables.groups
    assert live.broker.context.tables.offsets.committed("g", "t", 0) == 5
    await live.ask(delete, {"groupName": "g", "cleanOffset": "true"})
    assert live.broker.context.tables.offsets.committed("g", "t", 0) is None
    made = await live.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "h"})
    assert made.code == ResponseCode.SUCCESS and "h" in live.broker.context.tables.groups
    refused = await live.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "no good"})
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", ResponseCode.SUCCESS),
        (b'{"groupName":"no good"}', ResponseCode.INVALID_PARAMETER),
        (b'{"groupName":"g","retryQueueNums":-1}', ResponseCode.INVALID_PARAMETER),
        (b'{"groupName":"g","attributes":{"+a":"b"}}', ResponseCode.SYSTEM_ERROR),
        (b"[", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_odd_group_requests(live: LiveBroker, body: bytes, code: int) -> None:
    """No body is nothing to do; the others are refused and make no group."""
    before = len(live.broker.context.tables.groups)
    reply = await live.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert reply.code == code
    assert len(live.broker.context.tables.groups) == before


async def test_a_message_by_its_place_in_the_log(live: LiveBroker) -> None:
    """The record as stored; anywhere else in the log there is none."""
    await make_topic(live)
    await send(live, b"one")
    position = int((await send(live, b"two"))[-16:], 16)
    view = RequestCode.VIEW_MESSAGE_BY_ID
    reply = await live.ask(view, {"offset": position, "topic": "t"})
    record = decode_record(reply.body)
    assert (bytes(record.body), record.position, record.queue_offset) == (b"two", position, 1)
    for wrong in (position + 1, -1, 1 << 40):
        refused = await live.ask(view, {"offset": wrong})
        assert (refused.code, refused.remark) == (
            ResponseCode.SYSTEM_ERROR,
            f"can not find message by the offset, {wrong}",
        )


async def test_settings_are_shown_and_changed(live: LiveBroker) -> None:
    """A change of permission is announced; a refused one changes nothing."""
    update, show = RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG
    version = live.broker.context.tables.topics.data_version
    reply = await live.ask(update, body=b"brokerPermission=4\nautoCreateTopicEnable=false\n")
    assert reply.code == ResponseCode.SUCCESS
    assert live.broker.context.tables.topics.data_version.counter == version.counter + 1
    header = {"a": "p", "b": "new", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
    refused = await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"x")
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST, "topics are not made by use any more"
    shown = await live.ask(show)
    properties = parse_java_properties(bytes(shown.body).decode())
    assert (properties["brokerPermission"], properties["brokerName"]) == ("4", "broker-a")
    assert json.loads(shown.ext["version"])["counter"] == 1
    for body, code in (
        (b"brokerPermission=x", ResponseCode.INVALID_PARAMETER),
        (b"rocketmqHome=/tmp", ResponseCode.NO_PERMISSION),
        (b"a=\\uXX", ResponseCode.SYSTEM_ERROR),
        (b"\xff\xfe", ResponseCode.SYSTEM_ERROR),
    ):
        assert (await live.ask(update, body=body)).code == code
    await live.ask(update, body=b"fileReservedTime=1\ndiskSpaceWarningLevelRatio=94\n")
    assert live.broker.context.settings.store.retention_hours == 1
    said = await live.ask(update, body=b"traceOn=false")
    assert (said.code, said.remark) == (
        ResponseCode.SUCCESS,
        "works now until the broker stops (start it with -c FILE to have changes kept): traceOn",
    )
    lost = await live.ask(update, body=b"listenPort=10999")
    assert lost.code == ResponseCode.INVALID_PARAMETER
    assert lost.remark and lost.remark.startswith("listenPort cannot change without a restart")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"topicsMax=" + b"\1" * 3_000_000, ResponseCode.INVALID_PARAMETER),
        (b"enableDLegerCommitLog=" + b"\1" * 3_000_000, ResponseCode.INVALID_PARAMETER),
        (b"\1" * 3_000_000 + b"=1", ResponseCode.SUCCESS),
        (b"maxTransferBytesOnMessageInMemory=" + b"9" * 30, ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_settings_that_are_too_much_are_answered(
    live: LiveBroker, body: bytes, code: int
) -> None:
    """What is quoted fits into a header, and a number into what has to work with it."""
    reply = await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
    assert reply.code == code
    assert (await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false")).code == 0


async def test_a_host_s_name_is_a_broker_s_name(tmp_path: Path) -> None:
    """As RocketMQ's default has it, dots and all: it names a topic, too, over restarts."""
    name = "host1.example.com"
    for _ in range(2):
        async with live_broker(tmp_path, broker_name=name, broker_cluster_name="eu.1") as live:
            for topic in (name, "eu.1"):
                shown = await live.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
                assert decode_body(TopicConfig, shown.body).topic_name == topic
            await make_topic(live)
            await send(live, b"one")


async def test_limits_of_the_disk_change_while_it_is_open(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an operator does first when a disk fills up works without a restart."""
    store, update = live.broker.store, RequestCode.UPDATE_BROKER_CONFIG
    monkeypatch.setattr(store.files, "disk_used_ratio", lambda path: 0.5)
    await live.ask(update, body=b"diskSpaceWarningLevelRatio=40\n")
    store.retention.disk.check()
    assert not store.statistics().writable
    await live.ask(update, body=b"diskSpaceWarningLevelRatio=90\n")
    store.retention.disk.check()
    assert store.statistics().writable


async def test_runtime_info_has_every_key_as_a_number(live: LiveBroker) -> None:
    """What `clusterList` and `brokerStatus` parse can be parsed; counters are the truth."""
    await make_topic(live)
    for number in range(3):
        await send(live, b"x" * 100, queue_id=number)
    reply = await live.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    table = decode_body(KVTable, reply.body).table
    assert table["msgPutTotalTodayNow"] == "3"
    assert table["brokerVersionDesc"] == "V5_5_0" and table["brokerActive"] == "true"
    assert int(table["commitLogMaxOffset"]) > 300 and table["commitLogMinOffset"] == "0"
    for key in ("putTps", "getTotalTps", "getFoundTps", "getMissTps", "getTransferredTps"):
        assert len([float(rate) for rate in table[key].split(" ")]) == 3
    for key in (
        "bootTimestamp", "earliestMessageTimeStamp", "msgPutTotalYesterdayMorning",
        "msgPutTotalTodayMorning", "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning",
        "msgGetTotalTodayNow", "putMessageTimesTotal", "putMessageFailedTimes",
        "putMessageSizeTotal", "dispatchBehindBytes", "pageCacheLockTimeMills", "timerReadBehind",
        "timerOffsetBehind", "timerCongestNum", "sendThreadPoolQueueSize",
        "sendThreadPoolQueueCapacity", "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueHeadWaitTimeMills", "EndTransactionQueueSize",
    ):  # fmt: skip
        int(table[key])
    for key in ("timerEnqueueTps", "timerDequeueTps", "commitLogDiskRatio"):
        float(table[key])
