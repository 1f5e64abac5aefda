"""Operators see what a consumer does, and may have it handle a message."""

import asyncio

import pytest
from support.consumers import Seen, consumer, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    ConsumeResult,
    InvalidUse,
    MessageQueue,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.remoting import bodies
from aerobee.remoting.bodies import ConsumerRunningInfo, decode_body, encode_body
from aerobee.remoting.clocks import wall_clock_ms

QUEUE = bodies.QueueBody("t", "broker-a", 0)


def message(body: bytes, topic: str = "t", properties: bytes = b"") -> ReceivedMessage:
    """Build a message of the topic."""
    return ReceivedMessage(
        MessageQueue(topic, "broker-a", 0),
        body,
        *(0, 0, 0, 0, 0, 0, 0, 0),
        properties,
        bytes(8),
        bytes(8),
    )


async def test_the_running_info_tells_of_queues_and_rates(cluster: FakeCluster) -> None:
    """As Java's tools read it."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 10)
    stuck = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        if message.queue_offset == 6:
            await stuck.wait()

    member = PushConsumer(
        "g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST, ordered=True
    )
    member.subscribe("t", handle, tags="*")
    before = wall_clock_ms()
    with pytest.raises(InvalidUse):
        member.running_info()
    async with member:
        await until(lambda: member.statistics().handlers.running == 1)
        info = decode_body(ConsumerRunningInfo, encode_body(member.running_info(), strict=False))
        stuck.set()
    state = info.mq_table[QUEUE]
    assert (state.commit_offset, state.cached_msg_min_offset) == (6, 6)
    assert (state.cached_msg_max_offset, state.cached_msg_count) == (9, 4)
    assert state.locked and not state.droped
    for time_ms in (
        state.last_lock_timestamp,
        state.last_pull_timestamp,
        state.last_consume_timestamp,
        int(info.properties["PROP_CONSUMER_START_TIMESTAMP"]),
    ):
        assert before - 1000 <= time_ms <= wall_clock_ms()
    assert info.properties["PROP_CONSUMEORDERLY"] == "true"
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info.properties["PROP_NAMESERVER_ADDR"] == cluster.namesrv
    assert {each.topic for each in info.subscription_set} == {"t", "%RETRY%g"}
    assert info.status_table["t"].pull_tps > 0
    assert info.status_table["t"].consume_ok_tps > 0
    assert info.status_table["%RETRY%g"].pull_tps == 0


@pytest.mark.parametrize(
    ("body", "outcome"),
    [(b"ok", "CR_SUCCESS"), (b"later", "CR_LATER"), (b"bad", "CR_THROW_EXCEPTION")],
)
@pytest.mark.parametrize("batch", [None, 4])
async def test_a_message_is_handled_on_demand(
    cluster: FakeCluster, body: bytes, outcome: str, batch: int | None
) -> None:
    """Its outcome is told; nothing is sent back."""
    cluster.create("t", 1)

    async def handle(given: ReceivedMessage | list[ReceivedMessage]) -> ConsumeResult | None:
        one = given[0] if isinstance(given, list) else given
        if one.body == b"bad":
            raise ValueError("cannot read it")
        return ConsumeResult.LATER if one.body == b"later" else None

    member = PushConsumer("g", namesrv=cluster.namesrv)
    member.subscribe("t", handle, batch=batch)
    async with member:
        result = await member.consume_directly(message(body, "%RETRY%g", b"RETRY_TOPIC\x01t\x02"))
    assert (result.consume_result, result.order, result.auto_commit) == (outcome, False, True)
    assert result.remark == ("ValueError: cannot read it" if body == b"bad" else None)
    assert not any(broker.requests(36) for broker in cluster.brokers)


async def test_a_message_of_another_topic_is_not_handled(cluster: FakeCluster) -> None:
    """The answer names the topic."""
    seen = Seen()
    async with consumer(cluster, seen.handle) as member:
        result = await member.consume_directly(message(b"x", "other"))
    assert result.consume_result == "CR_THROW_EXCEPTION"
    assert result.remark is not None and "'other'" in result.remark
    assert not seen.messages
