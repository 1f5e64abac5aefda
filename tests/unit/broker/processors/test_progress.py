"""How far groups are and who may read, asked of a real broker."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, fill, live_broker

from aerobee.remoting import fastjson
from aerobee.remoting.bodies import (
    ConsumeTimeSpanBody,
    CorrectionOffsetsBody,
    GroupForbidden,
    SubscriptionReply,
    TopicList,
    decode_body,
)
from aerobee.remoting.codes import PullSysFlag, RequestCode, ResponseCode


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with topic t, two messages in queue 0, and a group that consumed one of them."""
    async with live_broker(tmp_path) as broker:
        await fill(broker, b"x")
        yield broker


async def test_all_offsets_come_as_the_file_has_them(live: LiveBroker) -> None:
    """A slave asks for them."""
    reply = await live.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    table = fastjson.loads(bytes(reply.body))
    assert table["offsetTable"]["t@g"] == {0: 1} or table["offsetTable"]["t@g"] == {"0": 1}
    assert "dataVersion" in table


async def test_the_time_that_a_group_is_behind(live: LiveBroker) -> None:
    """By queue: oldest, newest, last consumed, and the age of what comes next."""
    fields = {"topic": "t", "group": "g"}
    reply = await live.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, fields)
    spans = decode_body(ConsumeTimeSpanBody, reply.body).consume_time_span_set
    assert [span.message_queue.queue_id for span in spans] == [0, 1, 2, 3]
    now_ms = time.time() * 1000
    first = spans[0]
    assert now_ms - 60_000 < first.min_time_stamp <= first.consume_time_stamp <= now_ms
    assert first.consume_time_stamp <= first.max_time_stamp <= now_ms
    assert 0 <= first.delay_time < 60_000
    assert (spans[1].min_time_stamp, spans[1].max_time_stamp, spans[1].delay_time) == (-1, -1, 0)
    stranger = {"topic": "t", "group": "stranger"}
    reply = await live.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, stranger)
    first = decode_body(ConsumeTimeSpanBody, reply.body).consume_time_span_set[0]
    assert (first.consume_time_stamp, first.delay_time) == (first.min_time_stamp, 0)
    reply = await live.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "no", "group": "g"})
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST


async def test_offsets_are_cloned(live: LiveBroker) -> None:
    """In all topics of the source, or in one; what a connected source does not want stays away."""
    offsets = live.broker.context.tables.offsets
    offsets.commit("g", "gone", 0, 7)
    offsets.commit("g", "TBW102", 0, 7)
    clone = RequestCode.CLONE_GROUP_OFFSET
    reply = await live.ask(clone, {"srcGroup": "g", "destGroup": "h"})
    assert reply.code == ResponseCode.SUCCESS
    assert (offsets.topics_of("h"), offsets.committed("h", "t", 0)) == (["t"], 1)
    await live.ask(clone, {"srcGroup": "g", "destGroup": "i", "offline": "true"})
    assert sorted(offsets.topics_of("i")) == ["TBW102", "t"]
    await live.ask(clone, {"srcGroup": "i", "destGroup": "j", "topic": "t"})
    assert offsets.topics_of("j") == ["t"]
    reply = await live.ask(clone, {"srcGroup": "g", "destGroup": "no@name"})
    assert reply.code != ResponseCode.SUCCESS


async def test_the_least_offsets_of_all_groups(live: LiveBroker) -> None:
    """A group that is behind all others has nothing to be corrected; those left out keep theirs."""
    offsets = live.broker.context.tables.offsets
    offsets.commit("h", "t", 0, 2)
    offsets.commit("behind", "t", 0, 0)

    async def least(compared: str, left_out: str = "") -> dict[int, int]:
        fields = {"topic": "t", "compareGroup": compared, "filterGroups": left_out}
        reply = await live.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields)
        return decode_body(CorrectionOffsetsBody, reply.body).correction_offsets

    assert await least("h") == {0: 0}
    assert await least("h", "behind,other") == {0: 1}
    assert await least("behind", "behind") == {0: 2**63 - 1}
    assert offsets.committed("behind", "t", 0) == 0


async def test_what_a_group_wants_of_a_topic(live: LiveBroker) -> None:
    """Nothing where it wants nothing, no error."""
    code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    reply = decode_body(
        SubscriptionReply, (await live.ask(code, {"group": "g", "topic": "t"})).body
    )
    assert reply.subscription_data is not None
    assert reply.subscription_data.sub_string == "a || b"
    for fields in ({"group": "g", "topic": "u"}, {"group": "nobody", "topic": "t"}):
        reply = decode_body(SubscriptionReply, (await live.ask(code, fields)).body)
        assert (reply.group, reply.subscription_data) == (fields["group"], None)


async def test_a_topic_is_closed_to_a_group_and_opened_again(live: LiveBroker) -> None:
    """Its members' pulls are refused meanwhile; other topics of the group are not touched."""
    code, groups = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, live.broker.context.tables.groups

    async def readable(topic: str, change: str | None = None) -> bool:
        fields = {"group": "g", "topic": topic} | ({"readable": change} if change else {})
        reply = await live.ask(code, fields)
        assert reply.code == ResponseCode.SUCCESS
        return decode_body(GroupForbidden, reply.body).readable

    pull = {
        "consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1,
        "sysFlag": int(PullSysFlag.COMMIT_OFFSET), "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subVersion": 0,
    }  # fmt: skip
    assert await readable("t")
    assert not await readable("t", "false")
    assert not await readable("TBW102", "false")
    refused = await live.ask(RequestCode.PULL_MESSAGE, pull)
    assert (refused.code, refused.ext["forbiddenType"]) == (ResponseCode.NO_PERMISSION, "5")
    assert b'"t":4' in groups.file.path.read_bytes()
    assert await readable("t", "true")
    assert (await live.ask(RequestCode.PULL_MESSAGE, pull)).code != ResponseCode.NO_PERMISSION
    assert not await readable("TBW102")
    assert await readable("TBW102", "true")
    assert groups.forbidden() == {}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group": "nobody", "topic": "t"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"group": "g", "topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
    ],
)
async def test_flags_are_kept_for_what_exists(
    live: LiveBroker, fields: dict[str, str], code: int
) -> None:
    """Else anybody could fill the table with names."""
    changed = fields | {"readable": "false"}
    request = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
    assert (await live.ask(request, changed)).code == code
    assert (await live.ask(request, fields)).code == ResponseCode.SUCCESS
    assert live.broker.context.tables.groups.forbidden() == {}


async def test_topics_of_a_group_come_with_the_brokers_address(live: LiveBroker) -> None:
    """Tools that ask several brokers tell their answers apart."""
    reply = await live.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"})
    topics = decode_body(TopicList, reply.body)
    assert (topics.topic_list, topics.broker_addr) == (["t"], live.address)


async def test_progress_of_all_groups(live: LiveBroker) -> None:
    """Each group with its topics, sums over all; groups that have committed nothing are there."""
    context = live.broker.context
    context.tables.offsets.commit("h", "t", 0, 2)
    context.tables.groups.find("h")
    reply = await live.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    body = fastjson.loads(bytes(reply.body))
    by_group = {group: stats for each in body["consumeStatsList"] for group, stats in each.items()}
    assert len(by_group) == len(body["consumeStatsList"]) == len(context.tables.groups)
    assert by_group["TOOLS_CONSUMER"] == []
    assert (body["totalDiff"], body["brokerAddr"]) == (1, live.address)
    (stats,) = by_group["g"]
    rows = {key["queueId"]: row for key, row in stats["offsetTable"].items()}
    assert set(rows) == {0, 1, 2, 3}
    assert (rows[0]["brokerOffset"], rows[0]["consumerOffset"]) == (2, 1)
    assert time.time() * 1000 - 60_000 < rows[0]["lastTimestamp"] <= time.time() * 1000
    assert rows[1]["lastTimestamp"] == 0


async def test_progress_leaves_out_what_nobody_wants(live: LiveBroker) -> None:
    """Topics that are gone, that a connected group no longer reads, and plain ones if asked so."""
    offsets = live.broker.context.tables.offsets
    await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ordered_topic("o"))
    for topic in ("gone", "o"):
        offsets.commit_own("g", topic, 0, 0)
        offsets.commit_own("away", topic, 0, 0)
    live.broker.context.tables.groups.find("away")

    async def topics(group: str, *, ordered: bool) -> list[str]:
        fields = {"isOrder": str(ordered).lower()}
        reply = await live.ask(RequestCode.GET_BROKER_CONSUME_STATS, fields)
        table = fastjson.loads(bytes(reply.body))["consumeStatsList"]
        (found,) = (each[group] for each in table if group in each)
        return [next(iter(stats["offsetTable"]))["topic"] for stats in found]

    assert await topics("g", ordered=False) == ["t"]
    assert await topics("g", ordered=True) == []
    assert await topics("away", ordered=False) == ["o"]
    assert await topics("away", ordered=True) == ["o"]


async def test_progress_that_fits_into_no_reply(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, with what to ask instead; the next question finds its turn."""
    monkeypatch.setattr("aerobee.broker.processors.progress.REPORT_BYTES_MAX", 50)
    for _ in range(2):
        reply = await live.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
        assert reply.code == ResponseCode.SYSTEM_ERROR and "208" in (reply.remark or "")


def ordered_topic(name: str) -> dict[str, object]:
    """The fields that make a topic which is consumed in order."""
    return {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "true",
    }  # fmt: skip
