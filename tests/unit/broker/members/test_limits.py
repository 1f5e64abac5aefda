"""Heartbeats cannot fill the broker's memory: what they leave behind is counted and limited."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.servers.live_broker import live_broker
from support.stand_ins.fake_connection import FakeConnection

from aerobee.broker.members.group import Client
from aerobee.broker.members.limits import MemberLimits, size
from aerobee.broker.members.registry import Members
from aerobee.remoting.bodies import ConsumerData, SubscriptionData
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError


def client(number: int = 1) -> Client:
    """Return a client with a connection of its own."""
    return Client(FakeConnection(), f"client-{number}", 0, 0)


def consumer(group: str, *topics: str, version: int = 1, codes: int = 0) -> ConsumerData:
    """Return one group of a heartbeat."""
    subscriptions = [
        SubscriptionData(
            topic=topic, sub_string="A", code_set=list(range(codes)), sub_version=version
        )
        for topic in topics
    ]
    return ConsumerData(group_name=group, subscription_data_set=subscriptions)


def members(**limits: int) -> Members:
    """Return registries with limits that a test can reach."""
    return Members(lambda group, told: None, lambda: 0, limits=MemberLimits(**limits))


def test_memberships_are_limited_and_given_back() -> None:
    """Of consumers and producers together; a client that is a member already may come again."""
    table = members(memberships_max=3)
    first = client()
    for _ in range(2):
        table.register_consumer(first, consumer("g", "t"), notified=True)
        table.register_producer(first, "p")
    table.register_producer(first, "q")
    with pytest.raises(RequestError, match="membershipsMax"):
        table.register_producer(first, "r")
    with pytest.raises(RequestError, match="membershipsMax"):
        table.register_consumer(client(2), consumer("g", "t"), notified=True)
    table.closed(first.connection)
    assert table.limits.memberships == 0
    assert table.producers() == {}
    table.register_consumer(client(2), consumer("g", "t"), notified=True)


@pytest.mark.parametrize(
    "end",
    [
        lambda table, who: table.closed(who.connection),
        lambda table, who: table.unregister_consumer(who.connection, "g"),
    ],
)
def test_subscriptions_are_limited_by_their_size(end: Callable[[Members, Client], Any]) -> None:
    """A newer version takes the place of the old one; what is gone is given back."""
    table = members(subscription_bytes_max=200_000)
    one = client()
    for version in range(1, 9):
        data = consumer("g", "t", "u", version=version, codes=500)
        table.register_consumer(one, data, notified=True)
    with pytest.raises(RequestError, match="subscriptionBytesMax"):
        table.register_consumer(one, consumer("h", "t", codes=5_000), notified=True)
    table.register_consumer(one, consumer("g", "t", version=9), notified=True)
    table.unregister_consumer(one.connection, "h")
    assert 0 < table.limits.subscription_bytes < 5_000
    end(table, one)
    assert table.limits.subscription_bytes == 0


async def test_a_heartbeat_that_is_too_large_is_told_so(tmp_path: Path) -> None:
    """By a broker, with the limit's name, and the connection goes on."""
    async with live_broker(tmp_path, subscription_bytes_max=100_000) as broker:
        group = {"groupName": "g", "subscriptionDataSet": [{"topic": "t" * 200_000}]}
        body = json.dumps({"clientID": "c", "consumerDataSet": [group]}).encode()
        reply = await broker.ask(RequestCode.HEART_BEAT, body=body)
        assert reply.code == ResponseCode.SYSTEM_BUSY
        assert "subscriptionBytesMax" in (reply.remark or "")
        body = json.dumps({"clientID": "c" * 5_000, "producerDataSet": []}).encode()
        reply = await broker.ask(RequestCode.HEART_BEAT, body=body)
        assert reply.code == ResponseCode.INVALID_PARAMETER
        assert "clientIdCharsMax" in (reply.remark or "")


def test_expressions_count_for_what_they_become() -> None:
    """A compiled expression takes much more than its text, and tags of that length do not."""
    text = "a = 1 OR " * 100 + "b = 2"
    tags = SubscriptionData(topic="t", sub_string=text)
    expression = SubscriptionData(topic="t", sub_string=text, expression_type="SQL92")
    assert size(expression) > size(tags) + 100 * len(text)
