"""Messages that a group failed to consume, through a real broker: retries and dead letters."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.http import exposition
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode, TopicSysFlag
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.message.message_id import offset_message_id
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, decode_record, iter_records

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker whose first level is over at once, the others not within a test."""
    async with running_broker(tmp_path, messageDelayLevel="0s 1h 2h 3h 4h 5h") as running:
        yield running


@pytest.fixture
async def peer(broker: Broker) -> AsyncIterator[RawPeer]:
    """A connection to it."""
    async with await RawPeer.connect(broker.port) as connected:
        yield connected


def back(
    position: int, group: str = "g", level: int = 1, *, version: int = 513, **fields: Any
) -> Command:
    """A request to try a message again."""
    ext = {
        "offset": str(position), "group": group, "delayLevel": str(level),
        "originMsgId": "id", "originTopic": "T", "unitMode": "false", "maxReconsumeTimes": "16",
    } | {key: str(value) for key, value in fields.items()}  # fmt: skip
    ext = {key: value for key, value in ext.items() if value != "None"}
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    return Command(code=code, ext=ext, opaque=next_opaque(), version=version)


async def configure(peer: RawPeer, name: str = "g", **config: Any) -> None:
    """Make a group."""
    body = json.dumps({"groupName": name} | config).encode()
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert (await peer.request(Command(code=code, body=body, opaque=next_opaque()))).code == 0


async def send(peer: RawPeer, **more: Any) -> int:
    """Store a message; return its position."""
    reply = await peer.request(send_command(**more))
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return int(reply.ext["msgId"][-16:], 16)


async def pull(peer: RawPeer, topic: str, queue_id: int = 0, offset: int = 0) -> list[Record]:
    """Return what a queue holds from an offset on; waits a little for the first message."""
    command = pull_command(offset, topic=topic, queue_id=queue_id, suspend_ms=3000)
    return list(iter_records(bytes((await peer.request(command)).body)))


async def test_a_failed_message_comes_back_to_its_group(broker: Broker, peer: RawPeer) -> None:
    """In the retry topic, one try older, with its first topic and id; again and again."""
    position = await send(peer, h="7")
    assert (await peer.request(back(position))).code == ResponseCode.SUCCESS
    (record,) = await pull(peer, "%RETRY%g")
    origin = decode_record(broker.store.record_at(position) or b"")
    assert (record.body, record.flag, record.reconsume_times) == (b"hello", 7, 1)
    assert (record.born_host, record.born_timestamp) == (origin.born_host, origin.born_timestamp)
    properties = parse_properties(record.properties)
    assert properties == parse_properties(origin.properties) | {
        "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": offset_message_id(*origin.store_host, position),
        "WAIT": "false", "DELAY": "1", "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0",
        "AEROBEE_DELAYED": "1-0",
    }  # fmt: skip
    assert (await peer.request(back(record.position))).code == ResponseCode.SUCCESS
    (again,) = await pull(peer, "%RETRY%g", offset=1)
    assert again.reconsume_times == 2
    assert parse_properties(again.properties) == properties | {"AEROBEE_DELAYED": "1-1"}


async def test_the_broker_chooses_a_level_when_asked_to(peer: RawPeer) -> None:
    """Level 3 at first, or what the group's policy says."""
    policy = {"initial": 5_400_000, "max": 99_000_000, "multiplier": 2}
    await configure(
        peer, "own", groupRetryPolicy={"type": "EXPONENTIAL", "exponentialRetryPolicy": policy}
    )
    position = await send(peer)
    for group in ("g", "own"):
        assert (await peer.request(back(position, group, level=0))).code == ResponseCode.SUCCESS
    waiting = [*await pull(peer, SCHEDULE, 2)]
    topics = [parse_properties(record.properties)["REAL_TOPIC"] for record in waiting]
    assert topics == ["%RETRY%g", "%RETRY%own"], "2 h and 1.5 h, rounded up"


async def test_the_retry_topic_has_the_groups_queues(broker: Broker, peer: RawPeer) -> None:
    """And the flag of units, where the client works in units."""
    await configure(peer, retryQueueNums=3)
    position = await send(peer)
    for _ in range(12):
        assert (await peer.request(back(position, unitMode="true"))).code == ResponseCode.SUCCESS
    topic = broker.context.tables.topics.get("%RETRY%g")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (3, 3, 6)
    assert topic.topic_sys_flag == TopicSysFlag.UNIT_SUB
    found = [len(await pull(peer, "%RETRY%g", queue_id)) for queue_id in range(3)]
    assert sum(found) == 12 and max(found) < 12, "any of its queues, by chance"


BURIED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"level": -1}),
    ({"retryMaxTimes": 0}, {"maxReconsumeTimes": None}),
    ({"retryMaxTimes": 0}, {"version": 120}),
    ({}, {"maxReconsumeTimes": 0}),
]


@pytest.mark.parametrize(("config", "change"), BURIED)
async def test_what_was_tried_often_enough_goes_to_the_dead_letters(
    broker: Broker, peer: RawPeer, config: dict[str, Any], change: dict[str, Any]
) -> None:
    """By the group's number, by that of a client that is new enough, or because it says so."""
    await configure(peer, **config)
    position = await send(peer)
    assert (await peer.request(back(position, **change))).code == ResponseCode.SUCCESS
    (record,) = await pull(peer, "%DLQ%g")
    assert (record.body, record.reconsume_times) == (b"hello", 1)
    properties = parse_properties(record.properties)
    assert properties["DELAY"] == "0"
    assert properties["DLQ_ORIGIN_TOPIC"] == properties["RETRY_TOPIC"] == "T"
    assert properties["DLQ_ORIGIN_MESSAGE_ID"] == properties["ORIGIN_MESSAGE_ID"]
    topic = broker.context.tables.topics.get("%DLQ%g")
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm) == (1, Perm.READ | Perm.WRITE)
    assert broker.context.health.metrics.dead_letters == {("T", "g"): 1}


async def test_an_old_clients_own_number_does_not_count(peer: RawPeer) -> None:
    """Clients before 3.4.9 sent numbers that meant nothing."""
    position = await send(peer)
    await peer.request(back(position, maxReconsumeTimes=0, version=120))
    assert len(await pull(peer, "%RETRY%g")) == 1


async def test_a_group_that_wants_no_retries_gets_none(broker: Broker, peer: RawPeer) -> None:
    """Its requests succeed and nothing is stored."""
    await configure(peer, retryQueueNums=0)
    position = await send(peer)
    end = broker.store.commit_log.position
    assert (await peer.request(back(position))).code == ResponseCode.SUCCESS
    assert broker.store.commit_log.position == end


@pytest.mark.parametrize("offset", [-1, 1, -(2**63), 2**63 - 1, 1 << 20])
async def test_positions_of_no_message_are_refused(
    peer: RawPeer, broker: Broker, offset: int
) -> None:
    """Whatever number a client sends; nothing is stored."""
    await send(peer)
    end = broker.store.commit_log.position
    reply = await peer.request(back(offset))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == f"look message by offset failed, {offset}"
    assert broker.store.commit_log.position == end


async def test_requests_that_make_no_sense_are_refused(broker: Broker, peer: RawPeer) -> None:
    """A group's name that is none, a missing field, a topic and a broker that take nothing."""
    position = await send(peer)
    reply = await peer.request(back(position, "no good"))
    assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert (reply.remark or "").startswith("subscription group not exist, no good \nSee ")
    for field in ("offset", "group", "delayLevel"):
        command = back(position)
        del command.ext[field]
        reply = await peer.request(command)
        assert reply.code == ResponseCode.SYSTEM_ERROR and field in (reply.remark or "")
    broker.context.tables.topics.create_for_group("%RETRY%closed", 1, Perm.READ)
    reply = await peer.request(back(position, "closed"))
    assert reply.code == ResponseCode.NO_PERMISSION
    assert reply.remark == "the topic[%RETRY%closed] sending message is forbidden"
    code = RequestCode.UPDATE_BROKER_CONFIG
    await peer.request(Command(code=code, body=b"brokerPermission=4", opaque=next_opaque()))
    reply = await peer.request(back(position))
    assert reply.code == ResponseCode.NO_PERMISSION


async def test_properties_that_grow_too_long_are_refused(peer: RawPeer) -> None:
    """The message stays where it is, and the client hears why."""
    position = await send(peer, properties="UNIQ_KEY\x01A\x02LONG\x01" + "x" * 32_600 + "\x02")
    reply = await peer.request(back(position))
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert "the properties have 3" in (reply.remark or "")


RETRY = "UNIQ_KEY\x01A\x02RETRY_TOPIC\x01T\x02ORIGIN_MESSAGE_ID\x01id\x02"


async def test_clients_may_send_to_the_retry_topic_themselves(
    broker: Broker, peer: RawPeer
) -> None:
    """As Java's do when 36 fails: with a level, and a mark of old transactions at times."""
    marked = RETRY + "DELAY\x011\x02TRAN_MSG\x01true\x02"
    await send(peer, topic="%RETRY%g", properties=marked, j="16", l="16")
    (record,) = await pull(peer, "%RETRY%g")
    assert record.reconsume_times == 16
    await send(peer, topic="%RETRY%g", properties=RETRY, j="3")
    assert len(await pull(peer, "%RETRY%g")) == 2, "without a level it does not wait"
    assert broker.context.tables.groups.get("g") is not None


async def test_what_they_send_too_often_goes_to_the_dead_letters(
    broker: Broker, peer: RawPeer
) -> None:
    """More than the allowed number of times; at once, whatever its level says."""
    command = {"topic": "%RETRY%g", "properties": RETRY + "DELAY\x013\x02", "j": "17", "l": "16"}
    await send(peer, **command)
    (record,) = await pull(peer, "%DLQ%g")
    properties = parse_properties(record.properties)
    assert (record.reconsume_times, properties["DELAY"]) == (17, "-1")
    assert (properties["DLQ_ORIGIN_TOPIC"], properties["DLQ_ORIGIN_MESSAGE_ID"]) == ("T", "id")
    assert broker.context.health.metrics.dead_letters == {("%RETRY%g", "g"): 1}
    reply = await peer.request(send_command(topic="%RETRY%no good"))
    assert reply.code == ResponseCode.INVALID_PARAMETER


async def test_what_ordered_groups_give_up_goes_to_the_dead_letters(peer: RawPeer) -> None:
    """A consumer in order tries in place; what it sends to the retry topic it has given up."""
    queue = {"topic": "T", "brokerName": "broker-a", "queueId": 0}
    body = {"consumerGroup": "g", "clientId": "c", "onlyThisBroker": False, "mqSet": [queue]}
    code = RequestCode.LOCK_BATCH_MQ
    await peer.request(Command(code=code, body=json.dumps(body).encode(), opaque=next_opaque()))
    await send(peer, topic="%RETRY%g", properties=RETRY + "DELAY\x013\x02", j="1", l="16")
    assert len(await pull(peer, "%DLQ%g")) == 1
    await send(peer, topic="%RETRY%other", properties=RETRY, j="1", l="16")
    assert len(await pull(peer, "%RETRY%other")) == 1


async def test_a_delay_is_seen_on_topics_that_are_served_fast(peer: RawPeer) -> None:
    """Plain messages of a topic take a short way, which a delayed one must not."""
    await send(peer)
    await send(peer)
    await send(peer, properties="UNIQ_KEY\x01A\x02DELAY\x012\x02")
    assert len(await pull(peer, "T")) == 2
    assert len(await pull(peer, SCHEDULE, 1)) == 1


async def test_progress_can_be_asked_for(peer: RawPeer) -> None:
    """In the shape of delayOffset.json, with bare numbers as keys."""
    await send(peer, properties="UNIQ_KEY\x01A\x02DELAY\x011\x02")
    assert len(await pull(peer, "T")) == 1
    command = Command(code=RequestCode.GET_ALL_DELAY_OFFSET, opaque=next_opaque())
    reply = await peer.request(command)
    assert b'"offsetTable":{1:1}}' in bytes(reply.body)
    reply = await peer.request(Command(code=RequestCode.GET_BROKER_RUNTIME_INFO, opaque=7))
    assert json.loads(bytes(reply.body))["table"]["scheduleMessageOffset_1"] == "1,1"


async def test_progress_survives_a_restart(tmp_path: Path) -> None:
    """A clean stop leaves the table that RocketMQ would go on from."""
    async with (
        running_broker(tmp_path, messageDelayLevel="0s 1h") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        for level in ("1", "2"):
            await send(peer, properties=f"UNIQ_KEY\x01A\x02DELAY\x01{level}\x02")
        assert len(await pull(peer, "T")) == 1
    table = tmp_path / "store" / "config" / "delayOffset.json"
    assert b'"offsetTable":{1:1}' in table.read_bytes()
    async with (
        running_broker(tmp_path, messageDelayLevel="0s 0s") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        (record,) = await pull(peer, "T", offset=1)
        assert parse_properties(record.properties)["AEROBEE_DELAYED"] == "2-0"


async def test_dead_letters_and_waiting_messages_are_counted(broker: Broker, peer: RawPeer) -> None:
    """Under RocketMQ's name and ours; a topic that a client makes up does not become a row."""
    position = await send(peer)
    await peer.request(back(position, level=-1, originTopic="made up"))
    await send(peer, properties="UNIQ_KEY\x01A\x02DELAY\x012\x02")
    text = (await exposition.text(broker.context)).decode()
    common = 'cluster="DefaultCluster",{}node_id="broker-a",node_type="broker"'
    labels = common.format('consumer_group="g",is_system="false",') + ',topic="T"'
    assert f"rocketmq_send_to_dlq_messages_total{{{labels}}} 1.0" in text
    labels = common.format('level="2",')
    assert f"aerobee_delayed_messages{{{labels}}} 1.0" in text


async def test_the_answer_waits_for_the_disk_where_sends_do(tmp_path: Path) -> None:
    """With SYNC_FLUSH a message that was sent back is as safe as one that was sent."""
    async with (
        running_broker(tmp_path, messageDelayLevel="1h", flushDiskType="SYNC_FLUSH") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        position = await send(peer)
        assert (await peer.request(back(position))).code == ResponseCode.SUCCESS
        log = broker.store.commit_log
        assert log.flushed_position == log.position > position


async def test_a_topic_that_is_gone_meanwhile_gets_its_message(tmp_path: Path) -> None:
    """As with RocketMQ: who makes the topic again finds it there."""
    async with (
        running_broker(tmp_path, messageDelayLevel="1s") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await send(peer, topic="Doomed", properties="UNIQ_KEY\x01A\x02DELAY\x011\x02")
        code = RequestCode.DELETE_TOPIC_IN_BROKER
        gone = await peer.request(Command(code=code, ext={"topic": "Doomed"}, opaque=7))
        assert gone.code == ResponseCode.SUCCESS
        await until(lambda: broker.store.find_queue("Doomed", 0), 5, "the delivery")
        await send(peer, topic="Doomed")
        assert len(await pull(peer, "Doomed")) == 2


async def test_marks_of_ours_are_not_taken_from_clients(broker: Broker, peer: RawPeer) -> None:
    """Recovery believes them, so a message that carries one loses it."""
    await send(peer)
    await send(peer, properties="UNIQ_KEY\x01A\x02AEROBEE_DELAYED\x011-7\x02")
    records = await pull(peer, "T")
    assert len(records) == 2
    assert b"AEROBEE_DELAYED" not in records[1].properties
