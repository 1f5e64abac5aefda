"""What came and went (315), asked of a real broker whose clock the test moves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, fill, live_broker

from aerobee.remoting.bodies import BrokerStats, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with two messages in topic t, of which group g has pulled both and sent one back."""
    async with live_broker(tmp_path) as broker:
        await fill(broker, b"12345")
        pull = {
            "consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32,
            "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*",
            "subVersion": 0, "expressionType": "TAG",
        }  # fmt: skip
        reply = await broker.ask(RequestCode.PULL_MESSAGE, pull)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        back = {"offset": 0, "group": "g", "delayLevel": 0, "originTopic": "t"}
        assert (await broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == 0
        yield broker


async def statistic(live: LiveBroker, name: str, key: str) -> BrokerStats | str:
    """Ask for a statistic; return the remark of a refusal."""
    reply = await live.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    if reply.code == ResponseCode.SUCCESS:
        return decode_body(BrokerStats, reply.body)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    return reply.remark or ""


def take_sample(live: LiveBroker, after_s: float) -> None:
    """Take a sample as if so much time had passed."""
    metrics = live.broker.context.health.metrics
    clock_s, began_s = metrics._clock_s, metrics._samples[-1].at_s
    metrics._clock_s = lambda: began_s + after_s
    metrics.sample(live.broker.context.writing.queues.used())
    metrics._clock_s = clock_s


async def test_messages_and_bytes_of_topics_and_groups(live: LiveBroker) -> None:
    """Two in ten seconds, by minute, hour and day; an average is of a message."""
    take_sample(live, 10.0)
    for name, key, messages in (
        ("TOPIC_PUT_NUMS", "t", 2),
        ("GROUP_GET_NUMS", "t@g", 2),
        ("SNDBCK_PUT_NUMS", "t@g", 1),
    ):
        found = await statistic(live, name, key)
        assert isinstance(found, BrokerStats), found
        for window in (found.stats_minute, found.stats_hour, found.stats_day):
            assert (window.sum, window.avgpt) == (messages, 1.0)
            assert window.tps == pytest.approx(messages / 10)
    for name, key in (("TOPIC_PUT_SIZE", "t"), ("GROUP_GET_SIZE", "t@g")):
        found = await statistic(live, name, key)
        assert isinstance(found, BrokerStats), found
        minute = found.stats_minute
        assert minute.sum > 180 and minute.avgpt == minute.sum / 2
        assert minute.tps == pytest.approx(minute.sum / 10)


async def test_the_broker_as_a_whole(live: LiveBroker) -> None:
    """By the name of its cluster, and by no other; what went back counts as put, too."""
    take_sample(live, 10.0)
    cluster = live.broker.context.settings.broker_cluster_name
    put = await statistic(live, "BROKER_PUT_NUMS", cluster)
    got = await statistic(live, "BROKER_GET_NUMS", cluster)
    assert isinstance(put, BrokerStats) and isinstance(got, BrokerStats)
    assert (put.stats_minute.sum, got.stats_minute.sum) == (3, 2)
    assert await statistic(live, "BROKER_PUT_NUMS", "x") == (
        "The stats <BROKER_PUT_NUMS> <x> not exist"
    )


async def test_what_is_not_counted_is_told_in_rocketmqs_words(live: LiveBroker) -> None:
    """Unknown names and keys, and what has not been sampled yet."""
    assert await statistic(live, "TOPIC_PUT_NUMS", "t") == (
        "The stats <TOPIC_PUT_NUMS> <t> not exist"
    )
    take_sample(live, 10.0)
    for name, key in (
        ("TOPIC_PUT_NUMS", "no"),
        ("TOPIC_PUT_NUMS", ""),
        ("GROUP_GET_NUMS", "t"),
        ("GROUP_GET_NUMS", "g@t"),
        ("SNDBCK_PUT_NUMS", "t@nobody"),
        ("NO_SUCH_NAME", "t"),
    ):
        assert await statistic(live, name, key) == f"The stats <{name}> <{key}> not exist"


async def test_a_deleted_topic_has_no_statistics(live: LiveBroker) -> None:
    """From the next sample on, and what it had does not come back with another one so called."""
    take_sample(live, 10.0)
    assert (await live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})).code == 0
    take_sample(live, 20.0)
    assert isinstance(await statistic(live, "TOPIC_PUT_NUMS", "t"), str)
    assert isinstance(await statistic(live, "GROUP_GET_NUMS", "t@g"), str)
