"""Topics and groups that are made together (18, 225), asked of a real broker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, live_broker

from aerobee.broker.processors.topics import MADE_PER_TURN
from aerobee.remoting.bodies import (
    CreateTopicListBody,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    TopicConfig,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with one client."""
    async with live_broker(tmp_path) as broker:
        yield broker


async def make_topics(live: LiveBroker, *topics: TopicConfig) -> Command:
    """Ask for topics together."""
    body = CreateTopicListBody(topic_config_list=list(topics))
    return await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)


async def make_groups(live: LiveBroker, *groups: SubscriptionGroupConfig) -> Command:
    """Ask for groups together."""
    body = SubscriptionGroupList(group_config_list=list(groups))
    return await live.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)


async def test_topics_are_made_together_and_kept(live: LiveBroker) -> None:
    """More than go into a turn, each with its attributes; they are in the file when it is said."""
    wanted = [
        TopicConfig(topic_name=f"t{number}", read_queue_nums=1, write_queue_nums=1)
        for number in range(MADE_PER_TURN + 3)
    ]
    fifo = TopicConfig(topic_name="fifo", attributes={"+message.type": "FIFO"})
    assert (await make_topics(live, *wanted, fifo)).code == ResponseCode.SUCCESS
    topics = live.broker.context.tables.topics
    made = topics.get("fifo")
    assert made is not None and made.attributes == {"message.type": "FIFO"}
    assert topics.get(f"t{MADE_PER_TURN + 2}") == wanted[-1]
    text = topics.file.path.read_bytes()
    assert b'"fifo"' in text and f'"t{MADE_PER_TURN}"'.encode() in text


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (TopicConfig(topic_name="bad name!"), ResponseCode.INVALID_PARAMETER),
        (TopicConfig(topic_name=""), ResponseCode.INVALID_PARAMETER),
        (TopicConfig(topic_name="TBW102"), ResponseCode.INVALID_PARAMETER),
        (TopicConfig(topic_name="b", write_queue_nums=-1), ResponseCode.INVALID_PARAMETER),
        (TopicConfig(topic_name="b", perm=99), ResponseCode.INVALID_PARAMETER),
        (TopicConfig(topic_name="b", topic_filter_type="NO"), ResponseCode.SYSTEM_ERROR),
        (TopicConfig(topic_name="b", attributes={"+no.such": "1"}), ResponseCode.SYSTEM_ERROR),
        (TopicConfig(topic_name="b", attributes={"no.sign": "1"}), ResponseCode.SYSTEM_ERROR),
        (TopicConfig(topic_name="a"), ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_one_topic_that_may_not_be_keeps_all_from_being(
    live: LiveBroker, bad: TopicConfig, code: int
) -> None:
    """Whatever is wrong with it: name, numbers, attributes, or that it is there twice."""
    before = live.broker.context.tables.topics.data_version
    reply = await make_topics(live, TopicConfig(topic_name="a"), bad)
    assert reply.code == code, reply.remark
    assert live.broker.context.tables.topics.get("a") is None
    assert live.broker.context.tables.topics.data_version == before


async def test_topics_for_which_there_is_no_room(tmp_path: Path) -> None:
    """Some would fit: none is made, and the reply says where it ends."""
    async with live_broker(tmp_path) as live:
        topics = live.broker.context.tables.topics
        topics.topics_max = len(topics) + 2
        three = [TopicConfig(topic_name=name) for name in ("a", "b", "c")]
        reply = await make_topics(live, *three)
        assert reply.code == ResponseCode.SYSTEM_ERROR and "topic c" in (reply.remark or "")
        assert topics.get("a") is None
        assert (await make_topics(live, *three[:2])).code == ResponseCode.SUCCESS
        changed = TopicConfig(topic_name="a", perm=4)
        assert (await make_topics(live, changed)).code == ResponseCode.SUCCESS
        assert topics.get("a") == changed


async def test_what_is_no_list(live: LiveBroker) -> None:
    """Bodies that cannot be read are refused, and the connection goes on."""
    for code in (
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    ):
        for body in (b"", b"{nonsense", b'{"topicConfigList":7,"groupConfigList":7}'):
            assert (await live.ask(code, body=body)).code == ResponseCode.SYSTEM_ERROR


async def test_groups_are_made_together_and_kept(live: LiveBroker) -> None:
    """All of them, or none where one may not be so."""
    wanted = [
        SubscriptionGroupConfig(group_name=f"g{number}", retry_max_times=3)
        for number in range(MADE_PER_TURN + 3)
    ]
    assert (await make_groups(live, *wanted)).code == ResponseCode.SUCCESS
    groups = live.broker.context.tables.groups
    assert groups.get("g0") == wanted[0] and groups.get(wanted[-1].group_name) == wanted[-1]
    assert b'"g1"' in groups.file.path.read_bytes()
    first = SubscriptionGroupConfig(group_name="first")
    for bad in (
        SubscriptionGroupConfig(group_name="bad group!"),
        SubscriptionGroupConfig(group_name="b", retry_queue_nums=-1),
    ):
        reply = await make_groups(live, first, bad)
        assert reply.code == ResponseCode.INVALID_PARAMETER, reply.remark
        assert groups.get("first") is None
    groups.groups_max = len(groups) + 1
    reply = await make_groups(live, first, SubscriptionGroupConfig(group_name="second"))
    assert reply.code == ResponseCode.SYSTEM_ERROR and "group second" in (reply.remark or "")
    assert groups.get("first") is None
    assert (await make_groups(live, first)).code == ResponseCode.SUCCESS
