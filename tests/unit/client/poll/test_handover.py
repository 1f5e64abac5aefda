"""A queue that a lite pull consumer loses goes when its polled batch is done."""

from collections.abc import AsyncIterator

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    LitePullSettings,
    MessageQueue,
    PullSettings,
)
from aerobee.remoting.codes import RequestCode

PULL = PullSettings(batch_messages=10, error_delay_ms=20, suspended_delay_ms=10, suspend_ms=200)
CLIENT = ClientSettings(rebalance_interval_ms=50, rebalance_gap_ms=20)
A0 = MessageQueue("t", "broker-a", 0)
KEY = ("g", "t", 0)


class Stranger:
    """Stands for a member's connection."""

    def send(self, command: object) -> None:
        """Hear nothing."""


@pytest.fixture
async def handing(cluster: FakeCluster) -> AsyncIterator[FakeCluster]:
    """A cluster whose brokers keep queues for their owners; 30 messages in A0."""
    cluster.create("t", 1)
    for at in range(30):
        cluster.brokers[0].store("t", 0, b"%d" % at)
    for broker in cluster.brokers:
        broker.handover = True
    yield cluster


def member(cluster: FakeCluster, **more: object) -> LitePullConsumer:
    """Return a consumer of t."""
    settings = LitePullSettings(pull=PULL, **more)  # type: ignore[arg-type]
    made = LitePullConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=settings,
        client=CLIENT,
        consume_from=ConsumeFrom.FIRST,
    )
    made.subscribe("t")
    return made


async def lose(cluster: FakeCluster, only: LitePullConsumer) -> None:
    """Let A0 fall to another member."""
    for each in cluster.brokers:
        each.members["g"][Stranger()] = "0.0.0.0@first"  # type: ignore[index]
    await until(lambda: only.assignment() == [A0._replace(broker_name="broker-b")])


async def rounds(cluster: FakeCluster) -> None:
    """Wait for some more rounds of sharing."""
    broker = cluster.brokers[0]
    asked = len(broker.requests(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
    await until(lambda: len(broker.requests(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) > asked + 3)


async def test_the_next_poll_lets_a_lost_queue_go(handing: FakeCluster) -> None:
    """With what was handed out committed, and without handing out the rest."""
    owners = handing.brokers[0].owners
    async with member(handing) as only:
        assert len(await only.poll()) == 10
        await lose(handing, only)
        await rounds(handing)
        assert KEY not in owners.released
        assert await only.poll(30) == []
        await until(lambda: KEY in owners.released)
        assert handing.brokers[0].committed[KEY] == 10


async def test_a_commit_lets_a_lost_queue_go(handing: FakeCluster) -> None:
    """After the broker has the offset; committed by hand, of all queues."""
    broker = handing.brokers[0]
    async with member(handing, auto_commit=False) as only:
        assert len(await only.poll()) == 10
        await lose(handing, only)
        await rounds(handing)
        assert KEY not in broker.owners.released
        await only.commit()
        await until(lambda: KEY in broker.owners.released)
        codes = [command.code for command in broker.seen]
        assert broker.committed[KEY] == 10
        assert codes.index(RequestCode.UPDATE_CONSUMER_OFFSET) < codes.index(
            RequestCode.UNLOCK_BATCH_MQ
        )
        with pytest.raises(InvalidUse, match="another member"):
            await only.commit({A0: 10})


async def test_a_commit_that_names_the_lost_queue_lets_it_go(handing: FakeCluster) -> None:
    """Once it names all of the batch."""
    broker = handing.brokers[0]
    async with member(handing, auto_commit=False) as only:
        assert len(await only.poll()) == 10
        await lose(handing, only)
        await only.commit({A0: 4})
        await rounds(handing)
        assert broker.committed[KEY] == 4 and KEY not in broker.owners.released
        await only.commit({A0: 10})
        await until(lambda: KEY in broker.owners.released)
        assert broker.committed[KEY] == 10


async def test_a_user_who_does_not_come_back_is_not_waited_for(handing: FakeCluster) -> None:
    """After the time-out the queue goes as it was before the batch."""
    broker = handing.brokers[0]
    async with member(handing, handover_timeout_ms=50) as only:
        assert len(await only.poll()) == 10
        await lose(handing, only)
        await until(lambda: KEY in broker.owners.released)
        assert broker.committed[KEY] == 0
        assert await only.poll(10) == []
        await rounds(handing)
        assert broker.committed[KEY] == 0


async def test_looking_at_an_offset_takes_nothing(handing: FakeCluster) -> None:
    """A member that only wants to know is no asker for the queue."""
    broker = handing.brokers[0]
    owner = Stranger()
    broker.committed[KEY] = 7
    async with member(handing) as only:
        await until(lambda: len(only.assignment()) == 2)
        await lose(handing, only)
        await until(lambda: KEY in broker.owners.released)
        broker.owners.owner[KEY] = owner  # type: ignore[assignment]
        assert await only.committed(A0) == 7
        broker.owners.release(KEY, owner)  # type: ignore[arg-type]
        assert not broker.owners.owner, "it was still the stranger's"
