"""A handler that takes too long loses its message to the broker."""

import asyncio
from pathlib import Path

from support.consumers import fill
from support.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    ConsumeResult,
    MessageModel,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.client.expiry import ROUND_MESSAGES_MAX, Expiry
from aerobee.client.handling import Running
from aerobee.client.message import MessageQueue
from aerobee.client.process_queue import ProcessQueue
from aerobee.remoting.codes import RequestCode

BACK = RequestCode.CONSUMER_SEND_MSG_BACK
QUEUE = MessageQueue("t", "broker-a", 0)


async def test_a_stuck_message_goes_back_and_the_offset_on(cluster: FakeCluster) -> None:
    """At level 3; what its handler answers in the end changes nothing any more."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 3)
    broker = cluster.brokers[0]
    stuck, calls = asyncio.Event(), 0

    async def handle(message: ReceivedMessage) -> ConsumeResult | None:
        nonlocal calls
        calls += 1
        if message.body == b"0" and message.reconsume_times == 0:
            await stuck.wait()
            return ConsumeResult.LATER
        return None

    settings = PushSettings(consume_timeout_ms=50)
    member = PushConsumer(
        "g", namesrv=cluster.namesrv, settings=settings, consume_from=ConsumeFrom.FIRST
    )
    member.subscribe("t", handle)
    async with member:
        await until(lambda: calls == 4)
        await until(lambda: member.statistics().queues[QUEUE].oldest_offset is None)
        await member.persist_offsets()
        await until(lambda: broker.committed.get(("g", "t", 0)) == 3)
        stuck.set()
        await until(lambda: member.statistics().handlers.running == 0)
        assert member.statistics().queues[QUEUE].messages == 0
    assert [command.ext["delayLevel"] for command in broker.requests(BACK)] == ["3"]
    assert broker.committed["g", "t", 0] == 3


async def test_nobody_gives_back_what_is_broadcast(cluster: FakeCluster, tmp_path: Path) -> None:
    """However long a handler takes."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 1)
    ended = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.1)
        ended.set()

    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(consume_timeout_ms=10, offsets_folder=str(tmp_path)),
        consume_from=ConsumeFrom.FIRST,
        model=MessageModel.BROADCASTING,
    )
    member.subscribe("t", handle)
    async with member:
        await ended.wait()
    assert not cluster.brokers[0].requests(BACK)


def a_batch(count: int) -> tuple[ProcessQueue, Running]:
    """Return a queue, and a worker whose handler has had all its messages for long."""
    messages = [
        ReceivedMessage(QUEUE, b"x", at, 0, 0, 0, 0, 0, 0, 1, b"", bytes(8), bytes(8))
        for at in range(count)
    ]
    process, running = ProcessQueue(0), Running()
    process.put(messages, count)
    running.process, running.given = process, messages
    running.since_s = asyncio.get_running_loop().time() - 1
    return process, running


async def test_a_round_gives_back_so_many_and_stops_at_a_failure() -> None:
    """The next round goes on with the rest."""
    process, running = a_batch(40)
    given: list[int] = []

    async def give_back(messages: list[ReceivedMessage], level: int) -> list[ReceivedMessage]:
        assert level == 3
        if messages[0].queue_offset == 20:
            return messages
        given.append(messages[0].queue_offset)
        return []

    expiry = Expiry([Running(), running], give_back, 500)
    await expiry.sweep({QUEUE: process})
    assert given == list(range(ROUND_MESSAGES_MAX))
    await expiry.sweep({QUEUE: process})
    assert (given[-1], process.committable) == (19, 20)


async def test_what_is_recent_or_lost_stays() -> None:
    """Neither a handler in time nor a queue that is given up is touched."""

    async def give_back(messages: list[ReceivedMessage], level: int) -> list[ReceivedMessage]:
        raise AssertionError("nothing is to be given back")

    process, running = a_batch(1)
    await Expiry([running], give_back, 5000).sweep({QUEUE: process})
    process.drop()
    await Expiry([running], give_back, 500).sweep({QUEUE: process})
    assert process.committable == 0
