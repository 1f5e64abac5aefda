"""What a broker answers of copies, other engines, old data and lite topics."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, fill, live_broker

from aerobee.broker.cold.flow import GROUPS_MAX
from aerobee.broker.tables import changes_file
from aerobee.remoting.bodies import (
    QueueCheck,
    Replication,
    SubscriptionGroupConfig,
    decode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with one client."""
    async with live_broker(tmp_path) as broker:
        yield broker


async def test_a_master_without_copies(live: LiveBroker) -> None:
    """Where its log ends, and nobody else; as a copy it is not to be told of its master."""
    await fill(live, b"x")
    reply = await live.ask(RequestCode.GET_BROKER_HA_STATUS)
    body = decode_body(Replication, reply.body)
    assert body.master and body.ha_connection_info == []
    assert body.master_commit_log_max_offset == live.broker.context.store.statistics().position > 0
    for fields in ({}, {"masterFlushOffset": 5}):
        assert (await live.ask(RequestCode.RESET_MASTER_FLUSH_OFFSET, fields)).code == 0
    reply = await live.ask(RequestCode.GET_BROKER_EPOCH_CACHE)
    assert (reply.code, reply.remark) == (1, "this request only for controllerMode ")


async def test_tables_are_on_the_disk_when_it_is_said(live: LiveBroker) -> None:
    """All three, by name; one that nobody knows writes nothing."""
    tables = live.broker.context.tables
    await fill(live, b"x")
    for name, file, text in (
        ("topics", tables.topics.file.path, b'"t"'),
        ("CONSUMEROFFSETS;", tables.topics.file.path.with_name("consumerOffset.json"), b"t@g"),
        ("topics;subscriptionGroups", tables.groups.file.path, b"subscriptionGroupTable"),
    ):
        reply = await live.ask(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, {"configType": name})
        assert (reply.code, reply.remark) == (0, "export done.")
        assert text in file.read_bytes()
    reply = await live.ask(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, {"configType": "topics;no"})
    assert (reply.code, reply.remark) == (1, "Unknown config type: no")
    reply = await live.ask(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, {"topic": "t"})
    assert decode_body(QueueCheck, reply.body).check_status == 0
    assert (await live.ask(RequestCode.POP_ROLLBACK)).code == 0


async def test_groups_are_in_their_table_when_it_is_said(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes that lie beside it are in no file that anybody else reads."""
    monkeypatch.setattr(changes_file, "TABLE_BYTES_LEAST", 0)
    groups = live.broker.context.tables.groups
    await groups.file.save()
    groups.update(SubscriptionGroupConfig(group_name="beside"))
    await groups.file.flush()
    assert b'"beside"' not in groups.file.path.read_bytes()
    request = {"configType": "subscriptionGroups"}
    assert (await live.ask(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, request)).code == 0
    assert b'"beside"' in groups.file.path.read_bytes()


async def test_limits_of_old_data_are_noted(live: LiveBroker) -> None:
    """Set, shown, removed; a number that is none changes nothing, and there are only so many."""

    async def shown() -> dict[str, int]:
        reply = await live.ask(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
        table: dict[str, int] = json.loads(bytes(reply.body))["configTable"]
        return table

    async def update(body: bytes) -> int:
        return (await live.ask(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body=body)).code

    assert await shown() == {}
    assert await update(b"g=100\nh=7") == 0
    assert await shown() == {"g": 100, "h": 7}
    for bad in (b"k=1\ng=many", b"g=", b"g=99999999999999999999", b"bad\\ name=1"):
        assert await update(bad) == ResponseCode.INVALID_PARAMETER
    assert await update(b"\xff\xff=1") == ResponseCode.SYSTEM_ERROR
    assert await shown() == {"g": 100, "h": 7}
    for body in (b"h", b"nobody", b"", b"\xff"):
        assert (await live.ask(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, body=body)).code == 0
    assert await shown() == {"g": 100}
    many = "\n".join(f"g{number}=1" for number in range(GROUPS_MAX))
    assert await update(many.encode()) == ResponseCode.SYSTEM_ERROR
    assert await shown() == {"g": 100}


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({}, 1, "set commitlog readahead mode failed"),
        ({"READ_AHEAD_MODE": 0}, 0, "set commitlog readahead mode success, mode: 0"),
        ({"READ_AHEAD_MODE": 5}, 29, "set commitlog readahead mode param value error"),
        ({"READ_AHEAD_MODE": "x"}, 1, "set commitlog readahead mode failed"),
    ],
)
async def test_reading_ahead(
    live: LiveBroker, fields: dict[str, object], code: int, remark: str
) -> None:
    """The mode that there is; whatever is no mode has RocketMQ's words."""
    reply = await live.ask(RequestCode.SET_COMMITLOG_READ_MODE, fields)
    assert (reply.code, reply.remark) == (code, remark)


async def test_reading_ahead_cannot_be_switched_off(live: LiveBroker) -> None:
    """What is not done is not said to be done."""
    reply = await live.ask(RequestCode.SET_COMMITLOG_READ_MODE, {"READ_AHEAD_MODE": 1})
    assert reply.code == ResponseCode.SYSTEM_ERROR and "mode failed: " in (reply.remark or "")


async def test_timers_stay_in_files(live: LiveBroker) -> None:
    """The engine that there is; RocksDB is refused."""
    code = RequestCode.SWITCH_TIMER_ENGINE
    assert (await live.ask(code, {"E_T": "F"})).code == 0
    for fields in ({}, {"other": 1}, {"E_T": "R"}, {"E_T": "X"}):
        assert (await live.ask(code, fields)).code == ResponseCode.INVALID_PARAMETER


async def test_no_engine_to_switch_without_timers(tmp_path: Path) -> None:
    """As RocketMQ says it."""
    async with live_broker(tmp_path, timer_wheel_enable=False) as live:
        reply = await live.ask(RequestCode.SWITCH_TIMER_ENGINE, {"E_T": "F"})
        assert (reply.code, reply.remark) == (29, "broker timerWheelEnable is false")


async def test_there_are_no_lite_topics(live: LiveBroker) -> None:
    """What is asked of one is answered in RocketMQ's words; what can be declared is described."""
    topic = {
        "topic": "lite", "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "attributes": "+message.type=LITE",
    }  # fmt: skip
    assert (await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)).code == 0
    await fill(live, b"x")
    for code, fields, answer, remark in (
        (RequestCode.GET_PARENT_TOPIC_INFO, {"topic": "no"}, 17, "Topic [no] not exist."),
        (RequestCode.GET_PARENT_TOPIC_INFO, {"topic": "t"}, 29, "Topic [t] type not match."),
        (RequestCode.GET_LITE_TOPIC_INFO, {"parentTopic": "t", "liteTopic": "l"}, 29,
         "Topic [t] type not match."),
        (RequestCode.GET_LITE_CLIENT_INFO, {"parentTopic": "lite", "group": "g"}, 29,
         "Subscription [g]-[lite] not match."),
        (RequestCode.GET_LITE_CLIENT_INFO, {"parentTopic": "lite", "group": "a b"}, 26,
         "Group [a b] not exist."),
        (RequestCode.GET_LITE_GROUP_INFO, {"group": "g"}, 29, "Group [g] is not a LITE group."),
        (RequestCode.TRIGGER_LITE_DISPATCH, {"group": "g"}, 29, "Group [g] is not a LITE group."),
    ):  # fmt: skip
        reply = await live.ask(code, fields)
        assert (reply.code, reply.remark) == (answer, remark)
    reply = await live.ask(RequestCode.GET_PARENT_TOPIC_INFO, {"topic": "lite"})
    assert json.loads(bytes(reply.body))["liteTopicCount"] == 0
    fields = {"parentTopic": "lite", "liteTopic": "l"}
    reply = await live.ask(RequestCode.GET_LITE_TOPIC_INFO, fields)
    assert json.loads(bytes(reply.body))["topicOffset"]["maxOffset"] == 0
    body = json.loads(bytes((await live.ask(RequestCode.GET_BROKER_LITE_INFO)).body))
    assert (body["maxLmqNum"], body["currentLmqNum"], body["offsetTableSize"]) == (20_000, 0, 1)
    assert body["cqTableSize"] == 1
