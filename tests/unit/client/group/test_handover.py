"""A queue goes from one member to the next when the first says that it is done with it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from support.consumers import Seen, fill
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
    Strategy,
)
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command

PULL = PullSettings(error_delay_ms=20, suspended_delay_ms=10, suspend_ms=200)
SETTINGS = PushSettings(handover_timeout_ms=5000, pull=PULL)
CLIENT = ClientSettings(rebalance_interval_ms=100, rebalance_gap_ms=20)
A0, A1 = (MessageQueue("t", "broker-a", number) for number in range(2))
B0 = MessageQueue("t", "broker-b", 0)


class Stranger:
    """Stands for a member's connection."""

    def send(self, command: Command) -> None:
        """Hear nothing."""


class Given:
    """A strategy that gives each client what the test says."""

    name = "GIVEN"

    def __init__(self) -> None:
        self.queues: dict[str, list[MessageQueue]] = {}

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """Return the client's queues."""
        return self.queues.get(client_id, [])


class Gate(Seen):
    """A handler that does not end before `open` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.begun: list[ReceivedMessage] = []

    async def handle(self, message: ReceivedMessage) -> None:
        """Handle a message once the gate is open."""
        self.begun.append(message)
        await self.open.wait()
        await super().handle(message)


@pytest.fixture
async def handing(cluster: FakeCluster) -> AsyncIterator[FakeCluster]:
    """A cluster whose brokers keep queues for their owners."""
    for broker in cluster.brokers:
        broker.handover = True
        broker.handover_wait_s = 0.02
    yield cluster


def member(
    cluster: FakeCluster,
    seen: Seen,
    group: str = "g",
    topic: str = "t",
    *,
    settings: PushSettings = SETTINGS,
    strategy: Strategy | None = None,
) -> PushConsumer:
    """Return a consumer from the first message on."""
    made = PushConsumer(
        group,
        namesrv=cluster.namesrv,
        settings=settings,
        client=CLIENT,
        strategy=strategy,
        consume_from=ConsumeFrom.FIRST,
    )
    made.subscribe(topic, seen.handle)
    return made


async def test_the_next_owner_waits_for_running_handlers(handing: FakeCluster) -> None:
    """It begins where they ended, and nothing is handled twice."""
    handing.create("t", 2)
    fill(handing, "t", 4)
    slow, quick = Gate(), Seen()
    async with member(handing, slow) as first:
        await until(lambda: len(slow.begun) == 4)
        async with member(handing, quick) as second:
            await until(lambda: len(first.queues()) == 2)
            pending = handing.brokers[1].requests(RequestCode.QUERY_CONSUMER_OFFSET)
            asked = len(pending)
            await until(
                lambda: (
                    len(handing.brokers[1].requests(RequestCode.QUERY_CONSUMER_OFFSET)) > asked + 2
                )
            )
            assert second.queues() == [] and not quick.bodies
            slow.open.set()
            await until(lambda: len(second.queues()) == 2)
            fill(handing, "t", 8)
            await until(lambda: len(slow.messages) + len(quick.messages) == 12)
    seen = [(each.queue, each.queue_offset) for each in slow.messages + quick.messages]
    assert len(seen) == len(set(seen)) == 12


async def test_members_announce_their_time_out_and_release_after_the_commit(
    handing: FakeCluster,
) -> None:
    """In this order: the offset, the release, the leave."""
    handing.create("t", 1)
    fill(handing, "t", 2)
    seen = Seen()
    async with member(handing, seen):
        await until(lambda: len(seen.messages) == 2)
        broker = handing.brokers[0]
        (announced,) = broker.heartbeats[-1].consumer_data_set
        assert announced.handover_timeout_millis == 5000
        at = len(broker.seen)
    last = [command.code for command in broker.seen[at:] if command.code != RequestCode.HEART_BEAT]
    assert last.index(RequestCode.UPDATE_CONSUMER_OFFSET) < last.index(RequestCode.UNLOCK_BATCH_MQ)
    assert last[-1] == RequestCode.UNREGISTER_CLIENT
    assert not any(command.is_oneway for command in broker.requests(RequestCode.UNLOCK_BATCH_MQ))
    assert broker.owners.released.count(("g", "t", 0)) == 1


async def test_other_brokers_hear_of_no_release(cluster: FakeCluster) -> None:
    """RocketMQ takes 42 for a lock that nobody has."""
    cluster.create("t", 1)
    async with member(cluster, Seen()) as only:
        await until(lambda: len(only.queues()) == 2)
    for broker in cluster.brokers:
        assert not broker.requests(RequestCode.UNLOCK_BATCH_MQ)


async def test_one_queue_that_is_waited_for_holds_up_no_other(handing: FakeCluster) -> None:
    """Nor a later round that gives queues up."""
    handing.create("t", 2)
    broker = handing.brokers[0]
    stranger = Stranger()
    broker.owners.owner["g", "t", 0] = stranger  # type: ignore[assignment]
    seen = Seen()
    async with member(handing, seen) as only:
        await until(lambda: len(only.queues()) == 3)
        await until(lambda: len(broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)) > 4)
        assert A0 not in only.queues()
        for each in handing.brokers:
            each.members["g"][stranger] = "0.0.0.0@first"  # type: ignore[index]
        await until(lambda: len(only.queues()) == 2 and A1 not in only.queues())
        await until(lambda: ("g", "t", 1) in broker.owners.released)
        asked = len(broker.requests(RequestCode.QUERY_CONSUMER_OFFSET))
        for each in handing.brokers:
            del each.members["g"][stranger]  # type: ignore[arg-type]
        del broker.owners.owner["g", "t", 0]
        await until(lambda: len(only.queues()) == 4)
        assert len(broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)) > asked


async def test_members_that_wait_for_each_other_get_on(handing: FakeCluster) -> None:
    """Each owns what falls to the other, and has handlers that run when that changes."""
    handing.create("t", 1)
    fill(handing, "t", 2)
    one, two = Gate(), Gate()
    given = Given()
    first, second = (member(handing, seen, strategy=given) for seen in (one, two))
    async with first, second:
        given.queues = {first.client_id: [A0], second.client_id: [B0]}
        await until(lambda: (first.queues(), second.queues()) == ([A0], [B0]))
        await until(lambda: len(one.begun) == len(two.begun) == 1)
        given.queues = {first.client_id: [B0], second.client_id: [A0]}
        await until(lambda: first.queues() == second.queues() == [])
        one.open.set()
        two.open.set()
        await until(lambda: (first.queues(), second.queues()) == ([B0], [A0]))
        fill(handing, "t", 2)
        await until(lambda: len(one.messages) + len(two.messages) == 4)


async def test_all_groups_lose_before_any_gains(handing: FakeCluster) -> None:
    """A queue that another group still works on holds up what this client wants to take."""
    handing.create("t", 1)
    handing.create("u", 1)
    fill(handing, "t", 2)
    slow, quick = Gate(), Seen()
    broker = handing.brokers[0]
    async with member(handing, slow, "g"), member(handing, quick, "h", "u") as gaining:
        await until(lambda: len(slow.begun) == 2 and len(gaining.queues()) == 2)
        stranger = Stranger()
        for each in handing.brokers:
            each.members["h"][stranger] = "0.0.0.0@first"  # type: ignore[index]
        await until(lambda: len(gaining.queues()) == 1)
        for each in handing.brokers:
            each.members["g"][stranger] = "0.0.0.0@first"  # type: ignore[index]
            each.members["h"].pop(stranger)  # type: ignore[call-overload]
        asked = len(broker.requests(RequestCode.QUERY_CONSUMER_OFFSET))
        rounds = len(broker.requests(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
        await until(
            lambda: len(broker.requests(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) > rounds + 8
        )
        assert len(broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)) == asked
        slow.open.set()
        await until(lambda: len(gaining.queues()) == 2)
        for each in handing.brokers:
            each.members["g"].pop(stranger)  # type: ignore[call-overload]


async def test_what_is_not_wanted_any_more_is_given_back(handing: FakeCluster) -> None:
    """The broker may have made it ours while the next round gave it to somebody else."""
    handing.create("t", 1)
    broker = handing.brokers[0]
    broker.handover_wait_s = 5
    stranger = Stranger()
    broker.owners.owner["g", "t", 0] = stranger  # type: ignore[assignment]
    async with member(handing, Seen()) as only:
        await until(lambda: bool(broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)))
        for each in handing.brokers:
            each.members["g"][stranger] = "0.0.0.0@first"  # type: ignore[index]
        await until(lambda: len(broker.requests(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) > 8)
        broker.owners.release(("g", "t", 0), stranger)  # type: ignore[arg-type]
        await until(lambda: ("g", "t", 0) in broker.owners.released)
        assert A0 not in only.queues() and ("g", "t", 0) not in broker.owners.owner
        for each in handing.brokers:
            each.members["g"].pop(stranger)  # type: ignore[call-overload]


async def test_a_handler_that_takes_too_long_is_not_waited_for(handing: FakeCluster) -> None:
    """After the time-out the queue is released with what is done."""
    handing.create("t", 1)
    fill(handing, "t", 2)
    slow = Gate()
    settings = PushSettings(handover_timeout_ms=50, pull=PULL)
    async with member(handing, slow, settings=settings) as first:
        await until(lambda: len(slow.begun) == 2)
        quick = Seen()
        async with member(handing, quick) as second:
            await until(lambda: len(second.queues()) == 1)
            await until(lambda: len(quick.messages) == 1)
            assert len(first.queues()) == 1


async def test_a_member_that_leaves_slowly_holds_up_no_other_group(handing: FakeCluster) -> None:
    """Its handlers run on while the others give queues up."""
    handing.create("t", 1)
    handing.create("u", 1)
    fill(handing, "t", 2)
    slow = Gate()
    leaving = member(handing, slow, "g")
    async with member(handing, Seen(), "h", "u") as staying:
        await leaving.start()
        await until(lambda: len(slow.begun) == 2 and len(staying.queues()) == 2)
        closing = asyncio.ensure_future(leaving.close())
        stranger = Stranger()
        for each in handing.brokers:
            each.members["h"][stranger] = "0.0.0.0@first"  # type: ignore[index]
        await until(lambda: len(staying.queues()) == 1)
        released = [each.owners.released for each in handing.brokers]
        await until(lambda: any(queue[0] == "h" for some in released for queue in some))
        assert not any(queue[:2] == ("g", "t") for some in released for queue in some)
        assert not closing.done()
        slow.open.set()
        await closing
        for each in handing.brokers:
            each.members["h"].pop(stranger)  # type: ignore[call-overload]


async def test_a_queue_that_was_to_come_back_is_kept_until_its_handler_ends(
    handing: FakeCluster,
) -> None:
    """A member leaves while it waits to take again what it has not quite given up."""
    handing.create("t", 1)
    fill(handing, "t", 1)
    slow, given = Gate(), Given()
    consumer = member(handing, slow, strategy=given)
    await consumer.start()
    given.queues[consumer.client_id] = [A0]
    await until(lambda: len(slow.begun) == 1)
    ownership = consumer.ownership
    assert ownership is not None
    given.queues[consumer.client_id] = []
    await until(lambda: A0 in ownership.ending)
    given.queues[consumer.client_id] = [A0]
    await until(lambda: A0 in ownership._taking)
    leaving = asyncio.create_task(consumer.close())
    owners = handing.brokers[0].owners
    await until(lambda: not ownership._gains)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.shield(leaving)
    assert ("g", "t", 0) not in owners.released
    slow.open.set()
    await leaving
    assert owners.released.count(("g", "t", 0)) == 1
