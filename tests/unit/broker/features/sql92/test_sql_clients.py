"""Our client subscribes by SQL92 to our broker: push and lite pull, refused and allowed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.client.cluster.directory import Cluster
from aerobee.client.errors import BrokerRefused
from aerobee.testing import EmbeddedCluster

WANTED = "color = 'red' AND price BETWEEN 10 AND 30"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A broker that filters by properties and has 40 messages in the four queues of topic t."""
    settings = {"enable_property_filter": True}
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        async with Cluster(cluster.namesrv_addr) as brokers:
            await brokers.create_topic("t", 4)
        async with Producer("p", namesrv=cluster.namesrv_addr) as producer:
            for price in range(40):
                color = "red" if price % 2 else "blue"
                properties = {"color": color, "price": str(price)}
                message = Message("t", b"%d" % price, properties=properties)
                await producer.send(message, key=price)
        yield cluster


def matching() -> list[int]:
    """The prices of what is wanted."""
    return [price for price in range(10, 31) if price % 2]


async def test_a_push_consumer_is_handed_what_matches(cluster: EmbeddedCluster) -> None:
    """And nothing else; what was skipped counts as consumed."""
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(int(message.body))

    consumer = PushConsumer(
        "g",
        namesrv=cluster.namesrv_addr,
        client=ClientSettings(rebalance_gap_ms=50),
        consume_from=ConsumeFrom.FIRST,
    )
    consumer.subscribe("t", handle, sql=WANTED)
    async with consumer:
        await until(lambda: len(seen) >= len(matching()), what="what matches was handled")
    assert sorted(seen) == matching()


async def test_a_lite_pull_consumer_polls_what_matches(cluster: EmbeddedCluster) -> None:
    """Its pulls bring the expression."""
    consumer = LitePullConsumer(
        "g",
        namesrv=cluster.namesrv_addr,
        client=ClientSettings(rebalance_gap_ms=50),
        consume_from=ConsumeFrom.FIRST,
    )
    consumer.subscribe("t", sql=WANTED)
    seen: list[int] = []
    async with consumer:
        while len(seen) < len(matching()):
            messages = await consumer.poll(5000)
            assert messages, f"only {seen} came"
            seen += [int(message.body) for message in messages]
    assert sorted(seen) == matching()


@pytest.mark.parametrize("sql", ["price >", "price > 'x'"])
async def test_a_bad_expression_is_known_at_the_start(cluster: EmbeddedCluster, sql: str) -> None:
    """The broker is asked before anything is consumed."""

    async def handle(message: ReceivedMessage) -> None:
        raise AssertionError("nothing may come")

    consumer = PushConsumer("g", namesrv=cluster.namesrv_addr)
    consumer.subscribe("t", handle, sql=sql)
    with pytest.raises(BrokerRefused, match="SUBSCRIPTION_PARSE_FAILED"):
        await consumer.start()
