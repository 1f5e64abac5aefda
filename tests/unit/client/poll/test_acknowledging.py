"""Messages are done when their taker says so, in each queue in order."""

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    Producer,
)
from aerobee.client.poll.acknowledging import Acknowledging

A0 = MessageQueue("t", "broker-a", 0)
B0 = MessageQueue("t", "broker-b", 0)


class Hand:
    """Holds a message until it is opened."""

    def __init__(self) -> None:
        self.open = False

    def done(self) -> bool:
        """Whether the message is done."""
        return self.open


async def consumer(cluster: FakeCluster) -> LitePullConsumer:
    """Return one that has three messages to read."""
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        for number in range(3):
            await producer.send(Message("t", b"%d" % number), queue=A0)
    settings = LitePullSettings(auto_commit=False, handover_timeout_ms=100)
    made = LitePullConsumer(
        "g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST, settings=settings
    )
    made.subscribe("t")
    return made


async def test_an_offset_passes_what_is_done(cluster: FakeCluster) -> None:
    """In order, whatever was done first; what another member has is not known here."""
    member = await consumer(cluster)
    taking = Acknowledging(member)
    assert not taking.count()
    with pytest.raises(InvalidUse, match="not started"):
        await taking.next(Hand())
    async with member:
        hands = [Hand() for _ in range(3)]
        messages = [await taking.next(hand) for hand in hands]
        assert [each.queue_offset for each in messages if each is not None] == [0, 1, 2]
        assert taking.unfinished == 3
        hands[1].open = True
        assert taking.count()
        assert (taking.unfinished, taking.reached(A0)) == (2, 0)
        hands[0].open = True
        taking.count()
        assert (taking.unfinished, taking.reached(A0)) == (1, 2)
        await until(lambda: taking.reached(B0) == 0)
        assert taking.reached(A0._replace(topic="u")) is None
        await taking.commit()
        await until(lambda: cluster.brokers[0].committed.get(("g", "t", 0)) == 2)
        await taking.leave()
        assert await taking.next(Hand()) is None
    assert not taking.count()


async def test_what_is_not_done_comes_again(cluster: FakeCluster) -> None:
    """After `leave`, at the next member of the group."""
    member = await consumer(cluster)
    async with member:
        taking = Acknowledging(member)
        first, second = Hand(), Hand()
        await taking.next(first)
        await taking.next(second)
        first.open = True
        taking.count()
        await taking.commit()
        await taking.leave()
    async with LitePullConsumer("g", namesrv=cluster.namesrv) as again:
        await again.assign([A0])
        assert [each.body for each in await again.poll()] == [b"1", b"2"]
