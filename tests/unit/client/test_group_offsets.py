"""Commits of a group's offsets: in order, one at a time for each queue."""

import asyncio

from aerobee.client import MessageQueue
from aerobee.client.offsets import GroupOffsets
from aerobee.remoting.command import Command
from aerobee.remoting.headers._fields import Header
from aerobee.remoting.headers.offsets import UpdateConsumerOffsetRequest

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


async def test_what_a_pull_has_outdated_is_not_sent() -> None:
    """A commit that waits for the one before it would take the offset back."""
    broker = SlowBroker()
    offsets = GroupOffsets(broker, "g", 1000)
    first = asyncio.create_task(offsets.commit_or_log(QUEUE, 10))
    await asyncio.sleep(0)
    second = asyncio.create_task(offsets.commit_or_log(QUEUE, 20))
    await asyncio.sleep(0)
    offsets.carried(QUEUE)  # by a pull, which carries 30
    broker.first_may_go.set()
    await asyncio.gather(first, second)
    await offsets.commit(QUEUE, 40)
    assert broker.stored == [10, 40]


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
