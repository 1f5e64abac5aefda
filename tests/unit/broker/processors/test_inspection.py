"""What administration tools read, asked of a real broker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, fill, live_broker

from aerobee.remoting import fastjson
from aerobee.remoting.bodies import (
    ConsumerConnection,
    ConsumeStats,
    GroupList,
    ProducerConnection,
    ProducerTableInfo,
    QueueBody,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicStatsTable,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with topic t, two messages in queue 0, and a group that consumed one of them."""
    async with live_broker(tmp_path) as broker:
        await fill(broker, b"x")
        yield broker


async def test_topics_come_whole_or_in_pages(live: LiveBroker) -> None:
    """Pages follow the names; a version that has changed starts again."""
    code = RequestCode.GET_ALL_TOPIC_CONFIG
    reply = await live.ask(code)
    whole = decode_body(TopicConfigSerializeWrapper, reply.body)
    names = sorted(whole.topic_config_table)
    assert "t" in names and reply.ext == {"totalTopicNum": str(len(names))}
    version = encode_body(whole.data_version).decode()
    page = await live.ask(code, {"topicSeq": 2, "maxTopicNum": 3, "dataVersion": version})
    table = decode_body(TopicConfigSerializeWrapper, page.body).topic_config_table
    assert list(table) == names[2:5]
    for stale in ('{"counter":99}', "{broken", ""):
        page = await live.ask(code, {"topicSeq": 2, "maxTopicNum": 3, "dataVersion": stale})
        table = decode_body(TopicConfigSerializeWrapper, page.body).topic_config_table
        assert list(table) == names[:3]


async def test_groups_come_with_what_is_forbidden(live: LiveBroker) -> None:
    """All groups, or a page of them with its own part of the table."""
    groups = live.broker.context.tables.groups
    empty, closed = b'"forbiddenTable":{}', b'"forbiddenTable":{"g":{"t":4}}'
    groups.file.path.parent.mkdir(exist_ok=True)
    groups.file.path.write_bytes(groups.encode().replace(empty, closed))
    groups.load()
    reply = await live.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    whole = decode_body(SubscriptionGroupWrapper, reply.body)
    assert "g" in whole.subscription_group_table
    assert whole.forbidden_table == {"g": {"t": 4}}
    assert reply.ext["totalGroupNum"] == str(len(whole.subscription_group_table))
    page = await live.ask(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {"groupSeq": 0, "maxGroupNum": 2}
    )
    part = decode_body(SubscriptionGroupWrapper, page.body)
    assert len(part.subscription_group_table) == 2 and not part.forbidden_table


async def test_ends_of_all_queues_of_a_topic(live: LiveBroker) -> None:
    """Keys are objects, as Java's reader wants them."""
    reply = await live.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "t"})
    assert bytes(reply.body).startswith(b'{"offsetTable":{{')
    table = decode_body(TopicStatsTable, reply.body).offset_table
    queue = QueueBody(topic="t", broker_name="broker-a", queue_id=0)
    assert (table[queue].min_offset, table[queue].max_offset) == (0, 2)
    assert table[queue].last_update_timestamp > 0 and len(table) == 4
    missing = await live.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "u"})
    assert (missing.code, missing.remark) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "topic[u] not exist",
    )


@pytest.mark.parametrize(
    ("fields", "topics"),
    [({}, {"t"}), ({"topic": "t"}, {"t"}), ({"topic": "u"}, set()), ({"topicList": "u;t"}, {"t"})],
)
async def test_progress_of_a_group(
    live: LiveBroker, fields: dict[str, str], topics: set[str]
) -> None:
    """In all its topics, one, or several; only those it has subscribed to or committed in."""
    reply = await live.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"} | fields)
    table = decode_body(ConsumeStats, reply.body).offset_table
    assert {queue.topic for queue in table} == topics
    if topics:
        offsets = table[QueueBody(topic="t", broker_name="broker-a", queue_id=0)]
        assert (offsets.broker_offset, offsets.consumer_offset) == (2, 1)
        assert offsets.last_timestamp > 0


async def test_rates_of_topics_and_groups(live: LiveBroker) -> None:
    """What came and went per second since the oldest sample of the last minute."""
    context = live.broker.context
    context.health.metrics.pulled("t", "g", 6, 600)
    context.health.metrics.sample(context.writing.queues.used())
    reply = await live.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "t"})
    sent_per_s = decode_body(TopicStatsTable, reply.body).topic_put_tps
    reply = await live.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
    pulled_per_s = decode_body(ConsumeStats, reply.body).consume_tps
    assert pulled_per_s == pytest.approx(3 * sent_per_s) and sent_per_s > 0
    reply = await live.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "h", "topic": "t"})
    assert decode_body(ConsumeStats, reply.body).consume_tps == 0


async def test_who_is_connected(live: LiveBroker) -> None:
    """Consumers with what they want, producers by group and all together."""
    reply = await live.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    group = decode_body(ConsumerConnection, reply.body)
    assert [member.client_id for member in group.connection_set] == ["c1"]
    assert group.connection_set[0].client_addr.startswith("127.0.0.1:")
    assert group.subscription_table["t"].sub_string == "a || b"
    offline = await live.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "h"})
    assert (offline.code, offline.remark) == (
        ResponseCode.CONSUMER_NOT_ONLINE,
        "the consumer group[h] not online",
    )
    reply = await live.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    producers = decode_body(ProducerConnection, reply.body).connection_set
    assert [member.language for member in producers] == ["PYTHON"]
    missing = await live.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "q"})
    assert missing.remark == "the producer group[q] not exist"
    reply = await live.ask(RequestCode.GET_ALL_PRODUCER_INFO)
    (info,) = decode_body(ProducerTableInfo, reply.body).data["p"]
    assert info.client_id == "c1"
    assert info.remote_ip.startswith("/127.0.0.1:"), "as Java writes an address"


async def test_lists_of_names(live: LiveBroker) -> None:
    """Groups of a topic, topics of a group, topics of the system."""
    reply = await live.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "t"})
    assert decode_body(GroupList, reply.body).group_list == ["g"]
    reply = await live.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"})
    assert decode_body(TopicList, reply.body).topic_list == ["t"]
    reply = await live.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    assert "TBW102" in fastjson.loads(bytes(reply.body))["topicList"]
