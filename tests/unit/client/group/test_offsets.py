"""Commits of a group's offsets: in order, one at a time for each queue."""

import asyncio

import pytest

from aerobee.client import BrokerRefused, MessageQueue, Unavailable
from aerobee.client.group.offsets import GroupOffsets
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.headers.offsets import UpdateConsumerOffsetRequest
from aerobee.remoting.headers.typed import Header

QUEUE = MessageQueue("t", "broker-a", 0)


class SlowBroker:
    """Stores the first commit late, as a server with many threads may do."""

    def __init__(self) -> None:
        self.stored: list[int] = []
        self.first_may_go = asyncio.Event()
        self.asked = 0

    async def call_broker(
        self, queue: MessageQueue, code: int, header: Header, timeout_ms: int
    ) -> Command:
        """Store an offset."""
        assert isinstance(header, UpdateConsumerOffsetRequest)
        self.asked += 1
        if self.asked == 1:
            await self.first_may_go.wait()
        self.stored.append(header.commit_offset)
        return Command(code)


async def test_no_commit_overtakes_another() -> None:
    """Neither a later one the one that is under way, nor one that is outdated a later one."""
    broker = SlowBroker()
    offsets = GroupOffsets(broker, "g", 1000)
    periodic = asyncio.create_task(offsets.commit_all({QUEUE: 0}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    awaited = asyncio.create_task(offsets.commit(QUEUE, 25))
    await asyncio.sleep(0)
    broker.first_may_go.set()
    await asyncio.gather(periodic, awaited)
    assert broker.stored == [0, 25]


async def test_what_is_outdated_is_not_sent() -> None:
    """A periodic commit gives way to one that was asked for after it and went first."""
    broker = SlowBroker()
    broker.first_may_go.set()
    offsets = GroupOffsets(broker, "g", 1000)
    periodic = asyncio.create_task(offsets.commit_all({QUEUE: 10}))
    await asyncio.sleep(0)  # its offsets are read, and nothing is sent yet
    await offsets.commit(QUEUE, 25)
    await periodic
    assert broker.stored == [25]


async def test_what_a_pull_has_outdated_is_sent_with_what_that_carries() -> None:
    """Its own offset would take the queue back; nothing would not do what was asked for."""
    broker = SlowBroker()
    offsets = GroupOffsets(broker, "g", 1000)
    first = asyncio.create_task(offsets.commit_or_log(QUEUE, 10))
    await asyncio.sleep(0)
    second = asyncio.create_task(offsets.commit_or_log(QUEUE, 20))
    await asyncio.sleep(0)
    offsets.carried(QUEUE, 30)  # by a pull, of which nobody knows whether it arrives
    broker.first_may_go.set()
    await asyncio.gather(first, second)
    await offsets.commit(QUEUE, 40)
    assert broker.stored == [10, 30, 40]


async def test_the_first_commit_of_a_topic_goes_alone() -> None:
    """Of two commits that begin a group's table together, RocketMQ forgets one."""
    broker = SlowBroker()
    offsets = GroupOffsets(broker, "g", 1000)
    queues = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(4)]
    committing = asyncio.create_task(offsets.commit_all(dict.fromkeys(queues, 25)))
    await asyncio.sleep(0)  # gather starts them
    await asyncio.sleep(0)
    await offsets.commit(MessageQueue("t", "broker-b", 0), 7)
    assert (broker.asked, broker.stored) == (2, [7])
    broker.first_may_go.set()
    await committing
    assert broker.stored == [7, 25, 25, 25, 25]


class SilentBroker:
    """Lets commits wait until the test says how they fail."""

    def __init__(self) -> None:
        self.asked: list[MessageQueue] = []
        self.error: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def call_broker(
        self, queue: MessageQueue, code: int, header: Header, timeout_ms: int
    ) -> Command:
        """Take no offset."""
        self.asked.append(queue)
        raise await asyncio.shield(self.error)


async def test_a_silent_broker_is_waited_for_once() -> None:
    """Not once for each queue: a consumer of hundreds would take an hour to close."""
    broker = SilentBroker()
    offsets = GroupOffsets(broker, "g", 1000)
    queues = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(9)]
    committing = [asyncio.create_task(offsets.commit(queue, 1)) for queue in queues]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    broker.error.set_result(Unavailable("no reply"))
    for outcome in await asyncio.gather(*committing, return_exceptions=True):
        assert isinstance(outcome, Unavailable)
    assert broker.asked == queues[:1]


async def test_one_queue_that_is_refused_stops_no_other() -> None:
    """Each is told of its own: the refusal may be about that queue alone."""
    broker = SilentBroker()
    offsets = GroupOffsets(broker, "g", 1000)
    broker.error.set_result(BrokerRefused(ResponseCode.SYSTEM_ERROR, "no such queue", "a:1"))
    queues = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(4)]
    await offsets.commit_all(dict.fromkeys(queues, 1))
    assert sorted(broker.asked) == queues


async def test_who_gives_up_the_first_commit_leaves_the_others_alone() -> None:
    """They wait on for the same answer."""
    broker = SlowBroker()
    offsets = GroupOffsets(broker, "g", 1000)
    queues = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(3)]
    committing = [asyncio.create_task(offsets.commit(queue, 7)) for queue in queues]
    await asyncio.sleep(0)
    committing[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing[0]
    broker.first_may_go.set()
    await asyncio.gather(*committing[1:])
    assert broker.stored == [7, 7, 7]


async def test_what_a_pull_has_outdated_while_the_first_commit_goes_is_sent_anew() -> None:
    """A commit that waits for the topic's first one would take the offset back."""
    broker = SlowBroker()
    offsets = GroupOffsets(broker, "g", 1000)
    other = MessageQueue("t", "broker-a", 1)
    first = asyncio.create_task(offsets.commit(QUEUE, 10))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(offsets.commit(other, 20))
    await asyncio.sleep(0)
    offsets.carried(other, 30)  # by a pull
    broker.first_may_go.set()
    await asyncio.gather(first, waiting)
    assert broker.stored == [10, 30]


async def test_periodic_commits_that_a_pull_has_outdated_are_not_sent() -> None:
    """Nobody waits for them, and the next round is near."""
    broker = SlowBroker()
    broker.first_may_go.set()
    offsets = GroupOffsets(broker, "g", 1000)
    periodic = asyncio.create_task(offsets.commit_all({QUEUE: 10}))
    await asyncio.sleep(0)
    offsets.carried(QUEUE, 30)
    await periodic
    assert broker.stored == []
