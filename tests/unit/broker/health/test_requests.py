"""What requests take, and how many wait."""

import asyncio
from pathlib import Path
from typing import Any

from support.servers.live_broker import LiveBroker, fill, live_broker, slow_announcements
from support.waiting import until

from aerobee.broker.health.requests import LATENCY_MS, Requests
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command

HEADER = {"a": "p", "b": "new", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}


def told(live: LiveBroker, name: str) -> list[tuple[dict[str, str], list[int]]]:
    """Return the labels and counts of a histogram."""
    found = live.broker.context.health.distributions()
    return [(dict(each.labels), each.values.counts) for each in found if each.name == name]


async def test_requests_are_timed_by_code_and_answer(tmp_path: Path) -> None:
    """By RocketMQ's names in lower case; a refusal is an answer too."""
    async with live_broker(tmp_path) as live:
        await fill(live, b"x")
        refused = await live.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "none"})
        assert refused.code == ResponseCode.SYSTEM_ERROR
        times = told(live, "rocketmq_rpc_latency_milliseconds")
    codes = {(each["request_code"], each["response_code"]) for each, _ in times}
    assert {("heart_beat", "success"), ("get_consumer_list_by_group", "system_error")} <= codes
    assert all(len(counts) == len(LATENCY_MS) + 1 and sum(counts) for _, counts in times)
    assert {each["result"] for each, _ in times} == {"success"}


async def test_codes_that_peers_think_of_are_one(tmp_path: Path) -> None:
    """Or they would make a series each."""
    async with live_broker(tmp_path) as live:
        for code in range(700_000, 700_020):
            await live.ask(code)
        names = {
            each["request_code"] for each, _ in told(live, "rocketmq_rpc_latency_milliseconds")
        }
    assert names == {"unknown"}


async def test_making_topics_and_groups_is_timed(tmp_path: Path) -> None:
    """Whether it worked, and whether it was about a topic of the broker's own."""
    topic: dict[str, Any] = {"defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}  # fmt: skip
    async with live_broker(tmp_path) as live:
        for name in ("made", "rmq_sys_x", "bad name"):
            await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {"topic": name, **topic})
        body = b'{"groupName":"g"}'
        await live.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        topics = told(live, "rocketmq_topic_create_execution_time_milliseconds")
        groups = told(live, "rocketmq_consumer_group_create_execution_time_milliseconds")
    assert {(each["invocation_status"], each["is_system"]) for each, _ in topics} == {
        ("success", "false"), ("failure", "true"), ("failure", "false"),
    }  # fmt: skip
    assert [(each, sum(counts)) for each, counts in groups] == [
        ({"invocation_status": "success"}, 1)
    ]


async def test_what_waits_is_counted_while_it_waits(tmp_path: Path) -> None:
    """A send to a new topic waits for nameservers."""
    async with slow_announcements(tmp_path) as live:
        requests = live.broker.context.health.requests
        asked = asyncio.create_task(live.ask(RequestCode.SEND_MESSAGE_V2, HEADER, b"x"))
        await until(lambda: requests.waiting[RequestCode.SEND_MESSAGE_V2] == 1)
        assert (await asked).code == 0
        await until(lambda: requests.waiting[RequestCode.SEND_MESSAGE_V2] == 0)


async def test_nothing_is_timed_where_nobody_wants_it(tmp_path: Path) -> None:
    """With enableRemotingMetrics=false a request is not looked at."""
    async with live_broker(tmp_path, enable_remoting_metrics=False) as live:
        await fill(live, b"x")
        assert told(live, "rocketmq_rpc_latency_milliseconds") == []


def test_a_time_is_in_whole_milliseconds() -> None:
    """As RocketMQ's: what takes less than one is 0."""
    requests = Requests()
    for seconds in (0.0009, 0.0011, 0.0031, 5.0):
        requests.answered(Command(code=RequestCode.HEART_BEAT), 0, seconds)
    (times,) = requests.distributions()
    assert times.values.counts == [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert times.values.total == 0 + 1 + 3 + 5000
