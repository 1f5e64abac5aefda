"""Fetching stops at the limits, and a topic's limits are shared by its queues."""

import asyncio
import logging

import pytest
from support.consumers import fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    MessageQueue,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.client.pulls.flow_control import WARN_EVERY, FlowControl
from aerobee.client.pulls.process_queue import ProcessQueue

QUEUE = MessageQueue("t", "broker-a", 0)


def holding(offsets: list[int], body_bytes: int = 10) -> ProcessQueue:
    """Return a queue with messages that are not done."""
    process = ProcessQueue(0)
    process.put(
        [
            ReceivedMessage(
                QUEUE, b"", at, 0, 0, 0, 0, 0, 0, 1, b"", b"", b"", held_bytes=body_bytes
            )
            for at in offsets
        ],
        offsets[-1] + 1,
    )
    return process


def test_each_limit_counts() -> None:
    """One more than the limit is too many; an ordered queue has no limit of the span."""
    settings = PullSettings(queue_messages_max=3, queue_bytes_max=100, queue_span_max=50)
    flow = FlowControl(QUEUE, settings)
    assert flow.exceeded(holding([0, 1, 50])) is None
    assert flow.exceeded(holding([0, 1, 2, 3])) == "messages"
    assert flow.exceeded(holding([0, 1], 50)) is None
    assert flow.exceeded(holding([0, 1], 51)) == "bytes"
    assert flow.exceeded(holding([0, 51])) == "span"
    assert FlowControl(QUEUE, settings, ordered=True).exceeded(holding([0, 51])) is None


def test_the_limits_of_a_topic_are_divided() -> None:
    """They replace those of the queue; each queue has one message at least."""
    settings = PullSettings(
        queue_messages_max=1, queue_bytes_max=1, topic_messages_max=9, topic_bytes_max=90
    )
    sharers = 3
    flow = FlowControl(QUEUE, settings, sharers=lambda: sharers)
    assert flow.exceeded(holding([0, 1, 2])) is None
    assert flow.exceeded(holding([0, 1, 2, 3])) == "messages"
    assert flow.exceeded(holding([0, 1], 16)) == "bytes"
    sharers = 100
    assert flow.exceeded(holding([0], 1)) is None
    assert flow.exceeded(holding([0, 1], 1)) == "messages"


async def test_every_thousandth_time_is_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """With the numbers; each limit is counted by itself."""
    settings = PullSettings(queue_messages_max=3, queue_span_max=2, flow_control_delay_ms=0)
    flow, process = FlowControl(QUEUE, settings), holding([5, 6, 7, 8])
    with caplog.at_level(logging.WARNING):
        for _ in range(WARN_EVERY):
            await flow.wait(process, "messages")
        await flow.wait(process, "span")
        assert len(caplog.records) == 2
        await flow.wait(process, "messages")
    assert flow.times == {"messages": WARN_EVERY + 1, "span": 1}
    first, span, again = (record.getMessage() for record in caplog.records)
    assert "messages_max=3 messages=4 bytes=40 span=3 oldest=5 newest=8 next_offset=9" in first
    assert "span_max=2" in span
    assert again.endswith(f"times={WARN_EVERY}")


async def test_queues_of_a_topic_share_its_limit(cluster: FakeCluster) -> None:
    """Four queues fetch a quarter each, and one pull more."""
    cluster.create("t", 2)
    fill(cluster, "t", 800)
    go = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await go.wait()

    pull = PullSettings(batch_messages=10, topic_messages_max=80, flow_control_delay_ms=5)
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(concurrency=1, pull=pull),
        consume_from=ConsumeFrom.FIRST,
    )
    member.subscribe("t", handle)

    def fetched() -> list[int]:
        queues = member.statistics().queues
        return [state.messages for queue, state in queues.items() if queue.topic == "t"]

    async with member:
        await until(lambda: fetched() == [30] * 4)
        await asyncio.sleep(0.05)
        assert fetched() == [30] * 4
        go.set()
        await until(lambda: member.statistics().handlers.succeeded == 800)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queue_messages_max", 65_536),
        ("queue_span_max", 0),
        ("topic_messages_max", 0),
    ],
)
def test_limits_have_limits(name: str, value: int) -> None:
    """Those of Java's client: a consumer that never pulls is not what anybody wants."""
    with pytest.raises(ValueError, match=f"{name}={value}: allowed are 1 to"):
        PullSettings(**{name: value})
