"""Queues are fetched from the right offset, in spite of faults, and never too far ahead."""

import asyncio
import itertools

import pytest
from support.consumers import Seen, consumer, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    MessageQueue,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.net.routes import Reply

PULL = RequestCode.PULL_MESSAGE


async def test_a_moved_offset_is_followed(cluster: FakeCluster) -> None:
    """OFFSET_ILLEGAL: the broker's offset is stored, the queue dropped and taken again."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker = cluster.brokers[0]
    broker.first_offset["t", 0] = 1000
    fill(cluster, "t", 5)
    seen = Seen()
    async with consumer(cluster, seen.handle):  # FIRST begins at 0, which is gone
        await until(lambda: len(seen.bodies) == 5)
    assert seen.messages[0].queue_offset == 1000
    assert broker.committed["g", "t", 0] == 1005


async def _seen_behind(gate: asyncio.Event, seen: Seen, message: ReceivedMessage) -> None:
    await gate.wait()
    await seen.handle(message)


async def test_what_is_left_of_a_shorter_log_comes_again(cluster: FakeCluster) -> None:
    """A broker that lost its newest messages: those before, not handled yet, are not passed."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker = cluster.brokers[0]
    fill(cluster, "t", 40)
    gate, seen = asyncio.Event(), Seen()
    async with consumer(cluster, lambda message: _seen_behind(gate, seen, message)) as member:
        await until(lambda: member.statistics().handlers.waiting > 0 and _next(member) == 40)
        del broker.log["t", 0][30:]
        broker.store("t", 0, b"new")
        await until(lambda: not member.queues())
        gate.set()
        await until(lambda: seen.bodies[b"new"] > 0)
        await until(lambda: len(seen.bodies) == 31)
    assert broker.committed["g", "t", 0] == 31


async def test_what_was_fetched_before_it_expired_is_handled(cluster: FakeCluster) -> None:
    """A slow handler: the broker deletes what was not fetched yet, and what was, too."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker = cluster.brokers[0]
    fill(cluster, "t", 40)
    gate, seen = asyncio.Event(), Seen()
    async with consumer(cluster, lambda message: _seen_behind(gate, seen, message)) as member:
        await until(lambda: member.statistics().handlers.waiting > 0 and _next(member) == 40)
        broker.log["t", 0].clear()
        broker.first_offset["t", 0] = 1000
        broker.store("t", 0, b"new")
        await until(lambda: _next(member) == 1001)
        gate.set()
        await until(lambda: len(seen.bodies) == 41)
    assert set(seen.bodies.values()) == {1}
    assert broker.committed["g", "t", 0] == 1001


def _next(member: PushConsumer) -> int:
    """From where a member pulls its only queue; -1 while it has none."""
    queues = member.statistics().queues.values()
    return max((each.next_offset for each in queues), default=-1)


@pytest.mark.parametrize(
    ("consume_from", "timestamp_ms", "first"),
    [
        (ConsumeFrom.FIRST, None, 0),
        (ConsumeFrom.LAST, None, 10),
        (ConsumeFrom.TIMESTAMP, 1_700_000_000_004, 4),
    ],
)
async def test_a_new_group_begins_where_it_says(
    cluster: FakeCluster, consume_from: ConsumeFrom, timestamp_ms: int | None, first: int
) -> None:
    """The first, the next, or the first message of a time."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 10)
    seen = Seen()
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        consume_from=consume_from,
        consume_timestamp_ms=timestamp_ms,
    )
    member.subscribe("t", seen.handle)
    async with member:
        await until(lambda: bool(member.queues()))
        fill(cluster, "t", 1)
        await until(lambda: bool(seen.messages))
    assert seen.messages[0].queue_offset == first


async def test_a_committed_offset_wins(cluster: FakeCluster) -> None:
    """Wherever a new group would begin."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 10)
    cluster.brokers[0].committed["g", "t", 0] = 7
    seen = Seen()
    async with consumer(cluster, seen.handle):
        await until(lambda: len(seen.messages) == 3)
    assert seen.messages[0].queue_offset == 7


async def test_an_error_for_the_offset_is_not_taken_for_none(cluster: FakeCluster) -> None:
    """The queue is not begun anywhere until the broker answers."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 10)
    broker = cluster.brokers[0]
    broker.committed["g", "t", 0] = 7
    broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR, times=2)
    seen = Seen()
    client = ClientSettings(rebalance_gap_ms=10)
    member = PushConsumer(
        "g", namesrv=cluster.namesrv, client=client, consume_from=ConsumeFrom.FIRST
    )
    member.subscribe("t", seen.handle)
    async with member:
        await until(lambda: len(seen.messages) == 3)
    assert seen.messages[0].queue_offset == 7


async def test_failing_pulls_are_tried_again(cluster: FakeCluster) -> None:
    """Flow control, errors, damaged bodies and silence all pass."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 3)
    broker = cluster.brokers[0]
    broker.refuse(PULL, ResponseCode.FLOW_CONTROL)
    broker.refuse(PULL, ResponseCode.SYSTEM_ERROR)
    damaged = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "3",
        "minOffset": "0",
        "maxOffset": "3",
    }
    broker.script[PULL].append(lambda *_: Reply(ext=damaged, body=b"\0\0\0\x10garbage"))
    seen = Seen()
    async with consumer(cluster, seen.handle):
        await until(lambda: len(seen.bodies) == 3)
    assert len(broker.requests(PULL)) >= 4


async def test_a_lost_connection_brings_the_member_back(cluster: FakeCluster) -> None:
    """The first request on the next connection is a heartbeat, and messages flow again."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker = cluster.brokers[0]
    seen = Seen()
    async with consumer(cluster, seen.handle) as member:
        await until(lambda: len(broker.requests(PULL)) > 0)
        for connection in list(broker.members["g"]):
            connection.close("test")
        at = len(broker.seen)
        await until(lambda: bool(broker.members["g"]) and bool(member.queues()))
        fill(cluster, "t", 5)
        await until(lambda: len(seen.bodies) == 5)
        codes = [command.code for command in broker.seen[at:]]
        assert codes.index(RequestCode.HEART_BEAT) < codes.index(PULL)


async def test_flow_control_stops_fetching_ahead(cluster: FakeCluster) -> None:
    """While a handler is stuck no more than the limit and one pull is fetched."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 300)
    go = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await go.wait()

    pull = PullSettings(batch_messages=10, queue_messages_max=40, flow_control_delay_ms=5)
    settings = PushSettings(concurrency=1, pull=pull)
    member = PushConsumer(
        "g", namesrv=cluster.namesrv, settings=settings, consume_from=ConsumeFrom.FIRST
    )
    member.subscribe("t", handle)
    queue = MessageQueue("t", "broker-a", 0)
    async with member:
        await until(
            lambda: bool(member.queues()) and member.statistics().queues[queue].messages > 40
        )
        await asyncio.sleep(0.05)
        assert member.statistics().queues[queue].messages == 50
        go.set()
        await until(lambda: member.statistics().handlers.succeeded == 300)


async def test_suspended_consumers_pull_nothing(cluster: FakeCluster) -> None:
    """Until they are resumed."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    seen = Seen()
    member = consumer(cluster, seen.handle)
    member.suspend()
    async with member:
        fill(cluster, "t", 5)
        await until(lambda: bool(member.queues()))
        await asyncio.sleep(0.05)
        assert not cluster.brokers[0].requests(PULL)
        member.resume()
        await until(lambda: len(seen.bodies) == 5)


async def test_failures_in_a_row_wait_longer_and_longer(cluster: FakeCluster) -> None:
    """Each wait is twice the one before, up to the limit; a success starts over."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 1)
    broker = cluster.brokers[0]
    loop = asyncio.get_running_loop()
    pulled: list[float] = []

    def fail(*_: object) -> Reply:
        pulled.append(loop.time())
        return Reply(code=ResponseCode.SYSTEM_ERROR, remark="as the test wants")

    broker.script[PULL].extend([fail] * 6)
    seen = Seen()
    pull = PullSettings(error_delay_min_ms=10, error_delay_ms=40)
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(pull=pull),
        consume_from=ConsumeFrom.FIRST,
    )
    member.subscribe("t", seen.handle)
    async with member:
        await until(lambda: len(seen.bodies) == 1)
    waits = [later - earlier for earlier, later in itertools.pairwise(pulled)]
    assert all(
        wait >= least
        for wait, least in zip(waits, [0.009, 0.019, 0.039, 0.039, 0.039], strict=True)
    )
    assert len(pulled) == 6
