"""A lite pull consumer hands out batches, and loses or skips nothing."""

import asyncio
from collections import Counter

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    LitePullSettings,
    MessageQueue,
    PullSettings,
    ReceivedMessage,
)
from aerobee.remoting.codes import PullSysFlag, RequestCode

A0, A1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
PULL = PullSettings(batch_messages=10, error_delay_ms=20, suspended_delay_ms=10, suspend_ms=5000)
MANUAL = LitePullSettings(auto_commit=False, handover_timeout_ms=100, pull=PULL)
AUTO = LitePullSettings(auto_commit_interval_ms=20, handover_timeout_ms=100, pull=PULL)


def fill(cluster: FakeCluster, queue: MessageQueue, count: int, tags: str = "") -> None:
    """Store messages b"0", b"1", ... in one queue."""
    broker = next(each for each in cluster.brokers if each.name == queue.broker_name)
    properties = f"TAGS\x01{tags}\x02".encode() if tags else b""
    for at in range(count):
        broker.store(queue.topic, queue.queue_id, b"%d" % at, properties)


def consumer(
    cluster: FakeCluster, settings: LitePullSettings = AUTO, *, group: str = "g"
) -> LitePullConsumer:
    """Return a consumer that begins at the first message."""
    return LitePullConsumer(
        group, namesrv=cluster.namesrv, settings=settings, consume_from=ConsumeFrom.FIRST
    )


async def polled(member: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    """Poll until there are `count` messages."""
    messages: list[ReceivedMessage] = []
    while len(messages) < count:
        batch = await member.poll()
        assert batch, f"only {len(messages)} of {count} messages came"
        messages += batch
    return messages


async def test_everything_is_polled_and_committed(cluster: FakeCluster) -> None:
    """Batches keep each queue's order; a clean exit commits the last one, too."""
    cluster.create("t", 2)
    fill(cluster, A0, 25)
    fill(cluster, A1, 15)
    member = consumer(cluster)
    member.subscribe("t")
    async with member:
        messages = await polled(member, 40)
        assert len(member.assignment()) == 4
        assert await member.poll(20) == []
    for queue, count in ((A0, 25), (A1, 15)):
        offsets = [each.queue_offset for each in messages if each.queue == queue]
        assert offsets == list(range(count))
    committed = cluster.brokers[0].committed
    assert (committed["g", "t", 0], committed["g", "t", 1]) == (25, 15)


async def test_requests_are_lite_pulls(cluster: FakeCluster) -> None:
    """Code 361, with the subscription and without an offset to commit."""
    cluster.create("t", 1)
    fill(cluster, A0, 1, tags="a")
    member = consumer(cluster)
    member.subscribe("t", tags="a")
    async with member:
        await polled(member, 1)
    request = cluster.brokers[0].requests(RequestCode.LITE_PULL_MESSAGE)[0]
    flags = int(request.ext["sysFlag"])
    assert flags == PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL
    assert request.ext["subscription"] == "a"


async def test_what_was_not_finished_comes_again(cluster: FakeCluster) -> None:
    """After an error the batch at hand is not committed, the one before it is."""
    cluster.create("t", 1)
    fill(cluster, A0, 30)
    member = consumer(cluster)
    member.subscribe("t")
    with pytest.raises(ZeroDivisionError):
        async with member:
            await member.poll()
            second = await member.poll()
            raise ZeroDivisionError
    assert cluster.brokers[0].committed["g", "t", 0] == second[0].queue_offset == 10


async def test_iterating_finishes_message_by_message(cluster: FakeCluster) -> None:
    """Leaving the loop counts the message at hand as consumed, and no later one."""
    cluster.create("t", 1)
    fill(cluster, A0, 30)
    member = consumer(cluster)
    member.subscribe("t")
    async with member:
        async for message in member:
            if message.queue_offset == 16:
                break
    assert cluster.brokers[0].committed["g", "t", 0] == 17


async def test_iterating_ends_with_the_consumer(cluster: FakeCluster) -> None:
    """Who waits for the next message is let go by a close."""
    cluster.create("t", 1)
    member = consumer(cluster)
    member.subscribe("t")

    async def read() -> list[ReceivedMessage]:
        return [message async for message in member]

    await member.start()
    reading = asyncio.ensure_future(read())
    await until(lambda: bool(member.assignment()))
    await member.close()
    assert await asyncio.wait_for(reading, 5) == []


async def test_offsets_are_committed_by_hand(cluster: FakeCluster) -> None:
    """Without auto-commit only `commit` stores offsets, all of them or given ones."""
    cluster.create("t", 1)
    fill(cluster, A0, 30)
    committed = cluster.brokers[0].committed
    async with consumer(cluster, MANUAL) as member:
        await member.assign([A0])
        await polled(member, 20)
        assert await member.committed(A0) is None
        await member.commit({A0: 7})
        assert await member.committed(A0) == 7
        await member.commit()
        assert await member.committed(A0) == 20
        await member.poll()
        with pytest.raises(InvalidUse, match="is not assigned"):
            await member.commit({A1: 1})
    assert committed["g", "t", 0] == 20


async def test_auto_commit_stores_what_is_done(cluster: FakeCluster) -> None:
    """In its interval, up to the batch at hand."""
    cluster.create("t", 1)
    fill(cluster, A0, 30)
    committed = cluster.brokers[0].committed
    async with consumer(cluster) as member:
        await member.assign([A0])
        await member.poll()
        await member.poll()
        await until(lambda: committed.get(("g", "t", 0)) == 10)


async def test_a_seek_discards_what_was_fetched(cluster: FakeCluster) -> None:
    """The next message is the sought one, whatever was fetched or on its way."""
    cluster.create("t", 1)
    fill(cluster, A0, 100)
    async with consumer(cluster, MANUAL) as member:
        await member.assign([A0])
        await polled(member, 30)
        await until(lambda: member.statistics()[A0].messages >= 60)
        await member.seek(A0, 12)
        assert (await member.poll())[0].queue_offset == 12
        await member.seek_to_begin(A0)
        assert (await member.poll())[0].queue_offset == 0
        await member.seek_to_end(A0)
        assert await member.poll(30) == []
        fill(cluster, A0, 1)
        assert (await member.poll())[0].queue_offset == 100
        with pytest.raises(InvalidUse, match=r"offset 500: the broker has \d+ to 101"):
            await member.seek(A0, 500)
        with pytest.raises(InvalidUse, match="is not assigned"):
            await member.seek(A1, 0)


async def test_assigning_replaces_the_queues(cluster: FakeCluster) -> None:
    """Messages of queues that were taken away are not handed out; others begin as committed."""
    cluster.create("t", 2)
    fill(cluster, A0, 50)
    fill(cluster, A1, 5)
    cluster.brokers[0].committed["g", "t", 1] = 3
    async with consumer(cluster, MANUAL) as member:
        await member.assign([A0])
        await polled(member, 10)
        await member.assign([A1])
        assert member.assignment() == [A1]
        messages = await polled(member, 2)
        assert [each.queue_offset for each in messages] == [3, 4]
        assert {each.queue for each in messages} == {A1}
    assert not cluster.brokers[0].members["g"], "an assigned consumer is no member of the group"


async def test_paused_queues_are_not_fetched(cluster: FakeCluster) -> None:
    """Until they are resumed; the others go on."""
    cluster.create("t", 2)
    async with consumer(cluster, MANUAL) as member:
        member.pause([A0])
        await member.assign([A0, A1])
        fill(cluster, A0, 5)
        fill(cluster, A1, 5)
        assert {each.queue for each in await polled(member, 5)} == {A1}
        assert await member.poll(30) == []
        member.resume([A0])
        assert {each.queue for each in await polled(member, 5)} == {A0}


async def test_fetching_ahead_has_a_limit(cluster: FakeCluster) -> None:
    """Of all queues together; what is polled makes room."""
    cluster.create("t", 1)
    fill(cluster, A0, 300)
    settings = LitePullSettings(auto_commit=False, fetched_messages_max=50, pull=PULL)
    async with consumer(cluster, settings) as member:
        await member.assign([A0])
        await until(lambda: member.statistics()[A0].messages > 50)
        await asyncio.sleep(0.05)
        assert member.statistics()[A0].messages == 60
        assert len(await polled(member, 300)) == 300


async def test_a_moved_offset_is_followed(cluster: FakeCluster) -> None:
    """Where the broker no longer has the offset it says where to go on."""
    cluster.create("t", 1)
    cluster.brokers[0].first_offset["t", 0] = 500
    fill(cluster, A0, 3)
    async with consumer(cluster, MANUAL) as member:
        await member.assign([A0])
        assert [each.queue_offset for each in await polled(member, 3)] == [500, 501, 502]


async def test_members_share_the_queues(cluster: FakeCluster) -> None:
    """Two poll at the same time; everything comes to one of them."""
    cluster.create("t", 2)
    one, two = consumer(cluster), consumer(cluster)
    bodies: Counter[bytes] = Counter()

    async def read(member: LitePullConsumer) -> None:
        async for message in member:
            bodies[message.body + b"@%d" % message.queue.queue_id] += 1

    for member in (one, two):
        member.subscribe("t")
    async with one, two:
        await until(lambda: len(one.assignment()) == len(two.assignment()) == 2)
        reading = [asyncio.ensure_future(read(member)) for member in (one, two)]
        for queue in (A0, A1):
            fill(cluster, queue, 40)
            fill(cluster, queue._replace(broker_name="broker-b"), 40)
        await until(lambda: sum(bodies.values()) == 160)
    await asyncio.gather(*reading)
    assert set(bodies.values()) == {2}


async def test_looking_up_offsets_and_queues(cluster: FakeCluster) -> None:
    """Queues of a topic, offsets by time."""
    cluster.create("t", 2)
    fill(cluster, A0, 10)
    async with consumer(cluster) as member:
        assert len(await member.fetch_queues("t")) == 4
        assert await member.offset_for_timestamp(A0, 1_700_000_000_006) == 6


async def test_subscribe_and_assign_exclude_each_other(cluster: FakeCluster) -> None:
    """Both ways round, and nothing works before the start."""
    cluster.create("t", 2)
    member = consumer(cluster)
    with pytest.raises(InvalidUse, match="not started"):
        await member.poll()
    member.subscribe("t")
    async with member:
        with pytest.raises(InvalidUse, match="exclude each other"):
            await member.assign([A0])
    async with consumer(cluster) as other:
        await other.assign([A0])
        with pytest.raises(InvalidUse, match="exclude each other"):
            other.subscribe("t")
    unstarted = consumer(cluster)
    await unstarted.assign([A0])
    with pytest.raises(InvalidUse, match="exclude each other"):
        unstarted.subscribe("t")
