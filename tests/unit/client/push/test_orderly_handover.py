"""An ordered queue that is lost: whose lock counts, what is committed, and who handles next."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.waiting import until

from aerobee.client import (
    ByConfig,
    ClientSettings,
    ConsumeFrom,
    MessageQueue,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.remoting import bodies
from aerobee.remoting.codes import RequestCode

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
CLIENT = ClientSettings(rebalance_interval_ms=50, rebalance_gap_ms=20)
FIRST, SECOND = (MessageQueue("t", "broker-a", number) for number in range(2))
LOCK_OF_FIRST = "g", bodies.QueueBody("t", "broker-a", 0)
OFFSET_OF_FIRST = "g", "t", 0
Handle = Callable[[ReceivedMessage], Awaitable[None]]


class Given(ByConfig):
    """Queues that may become others."""

    def give(self, *queues: MessageQueue) -> None:
        """Let the next round share out these."""
        self._queues = list(queues)


class Slow:
    """A handler that, in the first queue, begins nothing further before `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun: list[tuple[int, int]] = []  # queue, offset
        self.running = 0  # in the first queue
        self.most = 0

    async def handle(self, message: ReceivedMessage) -> None:
        """Handle a message once it may."""
        self.begun.append((message.queue.queue_id, message.queue_offset))
        if message.queue.queue_id == 1:
            return
        self.running += 1
        self.most = max(self.most, self.running)
        await self.go.wait()
        self.running -= 1


def two_queues(cluster: FakeCluster, messages: int) -> FakeBroker:
    """Make a topic of two queues on the only broker, with messages in the first."""
    cluster.create("t", 2)
    cluster.brokers.pop()
    for at in range(messages):
        cluster.brokers[0].store("t", 0, b"%d" % at)
    return cluster.brokers[0]


def ordered(
    cluster: FakeCluster, slow: Slow, strategy: Given | None = None, **options: object
) -> PushConsumer:
    """Return an ordered consumer that asks for its locks all the time."""
    given = {"lock_interval_ms": 10, "lock_retry_ms": 10, **options}
    pull = PullSettings(error_delay_ms=20, suspend_ms=200)
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(pull=pull, **given),  # type: ignore[arg-type]
        client=CLIENT,
        strategy=strategy or Given((FIRST, SECOND)),
        consume_from=ConsumeFrom.FIRST,
        ordered=True,
    )
    member.subscribe("t", slow.handle)
    return member


async def rounds(broker: FakeBroker) -> None:
    """Wait until the locks have been asked for some more times, and answered."""
    asked = len(broker.requests(LOCK))
    await until(lambda: len(broker.requests(LOCK)) > asked + 3)


async def lose_lock(broker: FakeBroker) -> None:
    """Let another member have the lock of the first queue, and commit more than this one has."""
    broker.owners.locks[LOCK_OF_FIRST] = "another"
    await rounds(broker)
    broker.committed[OFFSET_OF_FIRST] = 6


async def test_a_lost_lock_does_not_come_back_to_a_queue_that_is_given_up(
    cluster: FakeCluster,
) -> None:
    """What its last handler did is not committed: the other member has got further."""
    broker = two_queues(cluster, 3)
    slow, strategy = Slow(), Given((FIRST, SECOND))
    async with ordered(cluster, slow, strategy) as member:
        await until(lambda: slow.running == 1 and len(member.queues()) == 2)
        await lose_lock(broker)
        strategy.give(SECOND)
        await until(lambda: member.queues() == [SECOND])
        commits = len(broker.requests(COMMIT))
        del broker.owners.locks[LOCK_OF_FIRST]
        await rounds(broker)
        assert LOCK_OF_FIRST not in broker.owners.locks
        slow.go.set()
        await until(lambda: OFFSET_OF_FIRST in broker.owners.released)
        of_first = [each.ext["queueId"] for each in broker.requests(COMMIT)[commits:]]
        assert "0" not in of_first
    assert broker.committed[OFFSET_OF_FIRST] == 6


async def test_the_lock_is_kept_while_the_last_handler_ends(cluster: FakeCluster) -> None:
    """It is renewed, so that nobody begins, and what is done counts."""
    broker = two_queues(cluster, 3)
    slow, strategy = Slow(), Given((FIRST, SECOND))
    async with ordered(cluster, slow, strategy) as member:
        await until(lambda: slow.running == 1 and len(member.queues()) == 2)
        strategy.give(SECOND)
        await until(lambda: member.queues() == [SECOND])
        await rounds(broker)
        body = bodies.decode_body(bodies.LockBatchBody, broker.requests(LOCK)[-1].body)
        assert LOCK_OF_FIRST[1] in body.mq_set
        slow.go.set()
        await until(lambda: OFFSET_OF_FIRST in broker.owners.released)
    assert broker.committed[OFFSET_OF_FIRST] == 1


async def test_each_handler_is_committed_only_under_the_lock(cluster: FakeCluster) -> None:
    """With commit="each" too: another member may have got further."""
    broker = two_queues(cluster, 3)
    slow = Slow()
    async with ordered(cluster, slow, commit="each") as member:
        await until(lambda: slow.running == 1)
        await lose_lock(broker)
        slow.go.set()
        await until(lambda: member.statistics().handlers.succeeded == 1)
        await until(lambda: member.statistics().handlers.running == 0)
    assert broker.committed[OFFSET_OF_FIRST] == 6
    assert slow.begun == [(0, 0)]


async def reset(member: PushConsumer, broker: FakeBroker) -> None:
    """Begin the first queue anew, as an operator wants it."""
    await member.reset_offsets({FIRST: 0})


async def subscribe_again(member: PushConsumer, broker: FakeBroker) -> None:
    """Give the topic up, and come back to it when its queues are given up."""
    handler: Any = member._handlers["t"].call
    member.unsubscribe("t")
    await until(lambda: OFFSET_OF_FIRST in broker.owners.released)
    member.subscribe("t", handler)


@pytest.mark.parametrize("lose", [reset, subscribe_again])
async def test_a_queue_that_comes_back_waits_for_its_last_handler(
    cluster: FakeCluster, lose: Callable[[PushConsumer, FakeBroker], Awaitable[None]]
) -> None:
    """However long that takes: two handlers never run in one queue of one member."""
    broker = two_queues(cluster, 3)
    slow = Slow()
    async with ordered(cluster, slow, handover_timeout_ms=50) as member:
        await until(lambda: slow.running == 1)
        broker.committed[OFFSET_OF_FIRST] = 0
        before = member.ownership.queues[FIRST] if member.ownership is not None else None
        await lose(member, broker)

        def fetched() -> bool:
            assert member.ownership is not None
            now = member.ownership.queues.get(FIRST)
            return now is not None and now is not before and now.count == 3

        await until(fetched)
        broker.store("t", 1, b"behind those")
        await until(lambda: (1, 0) in slow.begun)
        assert slow.begun == [(0, 0), (1, 0)]
        slow.go.set()
        await until(lambda: len(slow.begun) == 5)
    assert slow.begun[2:] == [(0, 0), (0, 1), (0, 2)]
    assert slow.most == 1
