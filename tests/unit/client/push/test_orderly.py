"""Ordered queues: one message after the other, under a lock, and again until it is done."""

import asyncio
import itertools
from collections import defaultdict

from support.consumers import fill
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.stand_ins.fake_connection import FakeConnection
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    ConsumeResult,
    Later,
    MessageQueue,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.remoting import bodies
from aerobee.remoting.codes import RequestCode, ResponseCode

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
QUEUE = MessageQueue("t", "broker-a", 0)


def ordered(
    cluster: FakeCluster, handle: object, *, batch: int | None = None, **options: object
) -> PushConsumer:
    """Return an ordered consumer from the first message on; `options` are its settings."""
    given = {"suspend_ms": 10, "pull": PullSettings(error_delay_ms=20), **options}
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(**given),  # type: ignore[arg-type]
        consume_from=ConsumeFrom.FIRST,
        ordered=True,
    )
    member.subscribe("t", handle, batch=batch)  # type: ignore[call-overload]
    return member


def one_queue(cluster: FakeCluster, messages: int) -> FakeBroker:
    """Make a topic of one queue on the only broker."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", messages)
    return cluster.brokers[0]


def holder(broker: FakeBroker) -> str | None:
    """Return the client that has the lock of the queue."""
    return broker.owners.locks.get(("g", bodies.QueueBody("t", "broker-a", 0)))


async def test_each_queue_goes_one_by_one_all_queues_side_by_side(cluster: FakeCluster) -> None:
    """Whatever handlers wait for, no queue's messages overlap or overtake each other."""
    cluster.create("t", 2)
    fill(cluster, "t", 80)
    begun: dict[MessageQueue, list[int]] = defaultdict(list)
    running: set[MessageQueue] = set()
    most = 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal most
        assert message.queue not in running
        running.add(message.queue)
        most = max(most, len(running))
        begun[message.queue].append(message.queue_offset)
        await asyncio.sleep(0.001)
        running.remove(message.queue)

    async with ordered(cluster, handle) as member:
        await until(lambda: member.statistics().handlers.succeeded == 80)
        assert member.statistics().handlers.failed == 0
    assert most == 4
    assert all(offsets == list(range(20)) for offsets in begun.values())
    assert all(broker.committed["g", "t", 1] == 20 for broker in cluster.brokers)


async def test_queues_are_locked_before_they_are_pulled_and_unlocked_after(
    cluster: FakeCluster,
) -> None:
    """41, the offset, pulls; and when the member leaves its offset, then 42."""
    broker = one_queue(cluster, 3)
    seen: list[int] = []
    member = ordered(cluster, lambda message: seen.append(message.queue_offset))
    async with member:
        await until(lambda: len(seen) == 3)
        assert holder(broker) == member.client_id
    assert holder(broker) is None
    of_topic = [
        command.code
        for command in broker.seen
        if command.ext.get("topic") == "t" or command.code in (LOCK, UNLOCK)
    ]
    first = [of_topic.index(code) for code in (LOCK, 14, RequestCode.PULL_MESSAGE)]
    assert first == sorted(first)
    assert of_topic.index(UNLOCK) > of_topic.index(RequestCode.UPDATE_CONSUMER_OFFSET)


async def test_a_queue_that_another_member_has_is_not_begun(cluster: FakeCluster) -> None:
    """Until its lock is free."""
    broker = one_queue(cluster, 3)
    key = "g", bodies.QueueBody("t", "broker-a", 0)
    broker.owners.locks[key] = "another"
    seen: list[int] = []
    async with ordered(cluster, lambda message: seen.append(message.queue_offset)) as member:
        await until(lambda: bool(broker.requests(LOCK)))
        await asyncio.sleep(0.05)
        assert not seen
        del broker.owners.locks[key]
        await until(lambda: seen == [0, 1, 2])
        assert member.queues() == [QUEUE]


async def test_a_failure_stops_the_queue_for_a_moment(cluster: FakeCluster) -> None:
    """The same message comes again, with one more on its count, before those behind it."""
    broker = one_queue(cluster, 4)
    seen: list[tuple[int, int]] = []
    times: list[float] = []

    async def handle(message: ReceivedMessage) -> ConsumeResult | Later | None:
        seen.append((message.queue_offset, message.reconsume_times))
        times.append(asyncio.get_running_loop().time())
        if message.queue_offset == 1 and message.reconsume_times < 3:
            if message.reconsume_times == 0:
                raise ValueError("fails")
            return ConsumeResult.LATER if message.reconsume_times == 1 else Later(suspend_ms=60)
        return None

    async with ordered(cluster, handle, suspend_ms=30) as member:
        await until(lambda: member.statistics().handlers.succeeded == 4)
        assert member.statistics().handlers.failed == 3
    assert seen == [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (3, 0)]
    assert times[2] - times[1] >= 0.029
    assert times[4] - times[3] >= 0.059
    assert not broker.requests(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert broker.committed["g", "t", 0] == 4


async def test_after_too_many_times_it_goes_to_the_retry_topic(cluster: FakeCluster) -> None:
    """With a count above the limit, by which the broker knows a dead letter."""
    broker = one_queue(cluster, 3)
    broker.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_ERROR)
    seen: list[tuple[int, int]] = []

    async def handle(message: ReceivedMessage) -> ConsumeResult | None:
        if message.queue.topic == "t":
            seen.append((message.queue_offset, message.reconsume_times))
            return ConsumeResult.LATER if message.queue_offset == 1 else None
        return None

    async with ordered(cluster, handle, max_reconsume_times=1):
        await until(lambda: bool(broker.log["%RETRY%g", 0]) and (2, 0) in seen)
    # the first attempt to give it up failed: it was handled once more
    assert seen == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0)]
    sent = broker.requests(RequestCode.SEND_MESSAGE_V2)[-1].ext
    assert (sent["b"], sent["j"], sent["l"]) == ("%RETRY%g", "3", "1")
    assert broker.committed["g", "t", 0] == 3


async def test_of_a_batch_the_rest_stays(cluster: FakeCluster) -> None:
    """A handler of lists goes on behind what it has done."""
    one_queue(cluster, 6)
    calls: list[list[int]] = []

    async def handle(messages: list[ReceivedMessage]) -> Later | None:
        calls.append([message.queue_offset for message in messages])
        return Later(succeeded=1) if len(calls) == 1 else None

    async with ordered(cluster, handle, batch=4) as member:
        await until(lambda: member.statistics().handlers.succeeded == 6)
    assert calls == [[0, 1, 2, 3], [1, 2, 3, 4], [5]]


async def test_a_busy_queue_lets_others_have_the_worker(cluster: FakeCluster) -> None:
    """With fewer workers than queues none has to wait for the end of another."""
    cluster.create("t", 2)
    cluster.brokers.pop()
    fill(cluster, "t", 200)
    order: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        order.append(message.queue.queue_id)
        await asyncio.sleep(0.002)

    async with ordered(cluster, handle, concurrency=1, continuous_ms_max=20):
        await until(lambda: len(order) == 200)
    changes = sum(one != two for one, two in itertools.pairwise(order))
    assert changes > 3


async def test_locks_are_renewed_and_not_trusted_without(cluster: FakeCluster) -> None:
    """While the broker refuses nothing begins; when the lock is back the queue goes on."""
    broker = one_queue(cluster, 0)
    seen: list[int] = []
    member = ordered(
        cluster,
        lambda message: seen.append(message.queue_offset),
        lock_interval_ms=10,
        lock_retry_ms=10,
    )
    key = "g", bodies.QueueBody("t", "broker-a", 0)
    async with member:
        await until(lambda: member.queues() == [QUEUE])
        await until(lambda: len(broker.requests(LOCK)) > 5)
        broker.owners.locks[key] = "another"
        asked = len(broker.requests(LOCK))
        await until(lambda: len(broker.requests(LOCK)) > asked + 2)
        fill(cluster, "t", 3)
        await asyncio.sleep(0.05)
        assert not seen
        del broker.owners.locks[key]
        await until(lambda: seen == [0, 1, 2])


async def test_what_another_member_did_meanwhile_is_not_done_again(cluster: FakeCluster) -> None:
    """A lock that comes back is worth nothing where the offset has gone on."""
    broker = one_queue(cluster, 2)
    seen: list[int] = []
    member = ordered(
        cluster,
        lambda message: seen.append(message.queue_offset),
        lock_interval_ms=10,
        lock_retry_ms=10,
    )
    key = "g", bodies.QueueBody("t", "broker-a", 0)
    async with member:
        await until(lambda: seen == [0, 1])
        broker.owners.locks[key] = "another"
        asked = len(broker.requests(LOCK))
        await until(lambda: len(broker.requests(LOCK)) > asked + 2)
        fill(cluster, "t", 5)
        broker.committed["g", "t", 0] = 6  # the other one has handled four of them
        del broker.owners.locks[key]
        await until(lambda: seen == [0, 1, 6])
    assert broker.committed["g", "t", 0] == 7


async def test_a_queue_whose_lock_comes_back_may_be_somebody_elses(cluster: FakeCluster) -> None:
    """Who looks how far it got does not take it: it is dropped, and taken in its turn."""
    broker = one_queue(cluster, 2)
    broker.handover, broker.handover_wait_s = True, 0.02
    owners, at = broker.owners, ("g", "t", 0)
    seen: list[int] = []
    member = ordered(
        cluster,
        lambda message: seen.append(message.queue_offset),
        lock_interval_ms=10,
        lock_retry_ms=10,
    )
    key = "g", bodies.QueueBody("t", "broker-a", 0)
    async with member:
        await until(lambda: seen == [0, 1])
        owners.locks[key] = "another"
        asked = len(broker.requests(LOCK))
        await until(lambda: len(broker.requests(LOCK)) > asked + 2)
        fill(cluster, "t", 5)
        broker.committed[at] = 6
        commits = len(broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET))
        another = owners.owner[at] = FakeConnection()
        del owners.locks[key]
        await until(lambda: not member.queues())
        assert len(broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == commits
        assert owners.owner[at] is another
        owners.release(at, another)
        await until(lambda: seen == [0, 1, 6])
    assert broker.committed[at] == 7


async def test_an_old_lock_is_not_trusted(cluster: FakeCluster) -> None:
    """However long ago a renewal should have come."""
    one_queue(cluster, 0)
    seen: list[int] = []
    member = ordered(cluster, lambda message: seen.append(message.queue_offset), lock_trusted_ms=1)
    async with member:
        await until(lambda: member.queues() == [QUEUE])
        await asyncio.sleep(0.01)
        fill(cluster, "t", 3)
        await asyncio.sleep(0.05)
        assert not seen


async def test_a_second_member_goes_on_where_the_first_stopped(cluster: FakeCluster) -> None:
    """Nothing twice, nothing out of order, one member at a time."""
    broker = one_queue(cluster, 200)
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.001)
        seen.append(message.queue_offset)

    first, second = ordered(cluster, handle), ordered(cluster, handle)
    await first.start()
    await until(lambda: len(seen) > 20)
    async with second:
        await first.close()
        await until(lambda: len(seen) == 200)
    assert seen == list(range(200))
    assert broker.committed["g", "t", 0] == 200
