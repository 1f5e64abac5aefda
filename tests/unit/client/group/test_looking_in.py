"""What a person sees of clients and messages: in a debugger, in a log, when they are forgotten."""

import asyncio
import sys
from typing import Any

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.client.received import MessageDamage
from aerobee.testing import ClusterProcesses, ClusterThread, EmbeddedCluster

NAMESRV = "127.0.0.1:9876"
NOBODY = "127.0.0.1:1"


def message(**fields: Any) -> ReceivedMessage:
    """Return one with a tag, two keys and an id."""
    properties = b"UNIQ_KEY\x010A00\x02TAGS\x01paid\x02KEYS\x01order-1 order-2\x02"
    given: dict[str, Any] = {"raw_properties": properties, "body": b"hello", "reconsume_times": 0}
    return ReceivedMessage(
        queue=MessageQueue("orders", "broker-a", 3), queue_offset=12, position=0,
        born_timestamp_ms=0, store_timestamp_ms=0, flag=0, sys_flag=0, body_bytes=5,
        raw_born_host=b"\xc0", raw_store_host=b"", **given | fields,
    )  # fmt: skip


def test_a_message_shows_what_a_person_looks_for() -> None:
    """And none of its raw bytes; a long body is cut, a redelivery and damage are seen."""
    assert repr(message()) == (
        "ReceivedMessage(topic='orders', tags='paid', keys=['order-1', 'order-2'],"
        " message_id='0A00', queue='broker-a:3', queue_offset=12, body=b'hello')"
    )
    long = repr(message(body=b"x" * 1_000_000, reconsume_times=2))
    assert f"reconsume_times=2, body={b'x' * 64!r}... (1000000 bytes))" in long
    damaged = repr(message(raw_properties=b"", damage=MessageDamage("bits flipped", False)))
    assert "tags=None, keys=[], message_id=None," in damaged
    assert "damage='bits flipped'" in damaged


async def test_a_consumer_shows_its_group_and_what_it_reads(cluster: FakeCluster) -> None:
    """Before, while and after it is in use."""
    cluster.create("orders", 2)
    push = PushConsumer("g", namesrv=cluster.namesrv)
    assert repr(push) == "<PushConsumer 'g': not started, of nothing>"
    push.subscribe("orders", lambda message: None)
    async with push:
        await until(lambda: len(push.queues()) == 4)
        assert repr(push) == "<PushConsumer 'g': started, 4 queues of orders>"
    assert repr(push) == "<PushConsumer 'g': closed, of orders>"
    async with LitePullConsumer("l", namesrv=cluster.namesrv) as lite:
        assert repr(lite) == "<LitePullConsumer 'l': started, 0 assigned queues>"
    async with PullConsumer("p", namesrv=cluster.namesrv) as pull:
        assert repr(pull) == "<PullConsumer 'p': started>"


async def test_a_cluster_for_tests_shows_where_it_is() -> None:
    """Whatever it runs in."""
    assert repr(ClusterThread()) == "<ClusterThread not started>"
    assert repr(ClusterProcesses(brokers=2)) == "<ClusterProcesses not started>"
    async with EmbeddedCluster() as cluster:
        assert repr(cluster) == f"<EmbeddedCluster at {cluster.namesrv_addr}, 1 broker>"


FORGETFUL = """
import asyncio, sys
from aerobee.client import *

async def main():
    push = PushConsumer("forgotten", namesrv=sys.argv[1])
    push.subscribe("orders", lambda message: None)
    await push.start()
    pull = PullConsumer("another", namesrv=sys.argv[1])
    await pull.start()
    async with PullConsumer("closed", namesrv=sys.argv[1]):
        pass

asyncio.run(main())
"""


async def test_a_client_that_nobody_closed_is_named(cluster: FakeCluster) -> None:
    """At the latest at the end of the process; one that was closed is not."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "default", "-c", FORGETFUL, cluster.namesrv, stderr=-1
    )
    async with asyncio.timeout(30):
        _, errors = await child.communicate()
    lines = errors.decode().splitlines()
    named = sorted(line.partition("Warning: ")[2] for line in lines if "unclosed " in line)
    assert [each for each in named if each.startswith(("unclosed P", "unclosed L"))] == [
        "unclosed PullConsumer 'another'",
        "unclosed PushConsumer 'forgotten'",
    ]


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
def test_wrong_words_are_refused_by_name(kind: Any) -> None:
    """At the call, with the right ones."""
    with pytest.raises(
        InvalidUse, match=r"consume_from must .*'earliest'.*FIRST \(what others call"
    ):
        kind("g", namesrv=NAMESRV, consume_from="earliest")
    with pytest.raises(InvalidUse, match=r"model must .*'BROADCASTING'"):
        kind("g", namesrv=NAMESRV, model="BROADCASTING")
    with pytest.raises(InvalidUse, match=r"consume_timestamp_ms must .*'now'"):
        kind("g", namesrv=NAMESRV, consume_from=ConsumeFrom.TIMESTAMP, consume_timestamp_ms="now")


async def test_clients_say_what_fails_now(cluster: FakeCluster) -> None:
    """Each what is its own trouble, and no more when it is over."""
    cluster.create("orders", 2)
    producer, consumer = Producer(namesrv=cluster.namesrv), PushConsumer("g", namesrv=NOBODY)
    consumer.subscribe("orders", lambda message: None)
    lite = LitePullConsumer("l", namesrv=cluster.namesrv)
    lite.subscribe("orders")
    assert producer.trouble() == ["it is not started"] == consumer.trouble()
    async with producer, consumer, lite:
        await until(lambda: any("looking for routes" in each for each in consumer.trouble()))
        await until(lambda: not lite.trouble() and lite.assignment())
        assert producer.trouble() == []
        producer._outages.failed("consuming in group 'l'", "it is away")
        producer._outages.failed("sending to broker-a", "busy")
        assert producer.trouble() == ["sending to broker-a: busy"]
        assert lite.trouble() == ["consuming in group 'l': it is away"]
        producer._outages.over("sending to broker-a")
        assert producer.trouble() == []
    assert producer.trouble() == ["it is closed"]
