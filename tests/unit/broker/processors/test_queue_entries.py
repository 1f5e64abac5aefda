"""Entries of queues (321), asked of a real broker."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, fill, live_broker

from aerobee.broker.processors.query import ENTRIES_MAX
from aerobee.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    QueueEntriesBody,
    SubscriptionData,
    decode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.message.record import decode_record


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with two messages in queue 0 of topic t, and group g that is connected."""
    async with live_broker(tmp_path) as broker:
        await fill(broker, b"x")
        yield broker


async def entries(live: LiveBroker, **fields: object) -> QueueEntriesBody:
    """Ask for entries of queue 0, the first ten unless the fields say otherwise."""
    usual = {"topic": "t", "queueId": 0, "index": 0, "count": 10}
    reply = await live.ask(RequestCode.QUERY_CONSUME_QUEUE, usual | fields)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return decode_body(QueueEntriesBody, reply.body)


async def test_entries_lead_to_their_messages(live: LiveBroker) -> None:
    """As many as are asked for and there are, from the offset that is asked for."""
    found = await entries(live)
    assert (found.min_queue_index, found.max_queue_index) == (0, 2)
    assert found.subscription_data is None and found.filter_data is None
    assert found.queue_data is not None and len(found.queue_data) == 2
    for number, entry in enumerate(found.queue_data):
        reply = await live.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": entry.physic_offset})
        assert len(reply.body) == entry.physic_size
        assert decode_record(reply.body).queue_offset == number
    assert (await entries(live, index=1)).queue_data == found.queue_data[1:]
    assert (await entries(live, count=1)).queue_data == found.queue_data[:1]
    for count in (0, -1, -(2**31)):
        assert (await entries(live, count=count)).queue_data == []


async def test_more_entries_than_one_answer_has(live: LiveBroker) -> None:
    """The number is bounded; who wants more asks again."""
    queue = live.broker.context.store.find_queue("t", 0)
    assert queue is not None
    for number in range(ENTRIES_MAX):
        queue.add(number, 100, number)
    found = await entries(live, count=2**31 - 1)
    assert found.queue_data is not None and len(found.queue_data) == ENTRIES_MAX
    assert found.max_queue_index == ENTRIES_MAX + 2
    queue.take_back(2)


async def test_who_reads_the_queue(live: LiveBroker) -> None:
    """Tags have no filter data; a group that is away has neither; SQL is shown as text."""
    found = await entries(live, consumerGroup="g")
    assert found.subscription_data is not None
    assert (found.subscription_data.sub_string, found.filter_data) == ("a || b", "null")
    found = await entries(live, consumerGroup="away")
    assert found.subscription_data is None and found.filter_data == "away@t is not online!"
    wish = SubscriptionData(topic="t", sub_string="a > 1", sub_version=1, expression_type="SQL92")
    beat = HeartbeatData(
        client_id="c2",
        consumer_data_set=[ConsumerData(group_name="sql", subscription_data_set=[wish])],
    )
    await live.ask(RequestCode.HEART_BEAT, body=beat)
    found = await entries(live, consumerGroup="sql")
    assert found.filter_data is not None
    assert json.loads(found.filter_data)["expression"] == "a > 1"


async def test_what_is_not_there(live: LiveBroker) -> None:
    """No such queue is an error, no such offset is an answer without entries, as in RocketMQ."""
    for topic, queue_id in (("no", 0), ("t", 3), ("t", 77), ("../t", 0), ("", 0)):
        fields = {"topic": topic, "queueId": queue_id, "index": 0, "count": 1}
        reply = await live.ask(RequestCode.QUERY_CONSUME_QUEUE, fields)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == f"{queue_id}@{topic} is not exist!"
    for index in (-1, 2, 2**63 - 1):
        fields = {"topic": "t", "queueId": 0, "index": index, "count": 1}
        reply = await live.ask(RequestCode.QUERY_CONSUME_QUEUE, fields)
        assert (reply.code, reply.remark) == (0, f"Index {index} of 0@t is not exist!")
        assert not reply.body
