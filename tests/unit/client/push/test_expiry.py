"""A handler that takes too long loses its message to the broker."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.consumers import fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    ConsumeResult,
    MessageModel,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.client.handlers import Handler
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.pulls.statistics import TopicCounters
from aerobee.client.push.concurrently import EXPIRED_MAX, HandlerPool, MessageExpiry
from aerobee.client.push.failures import DropFailed
from aerobee.client.push.handling import HandlingTerms, Running
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


class Takes(DropFailed):
    """Lets a function of the test say what is given back."""

    def __init__(
        self, take: Callable[[list[ReceivedMessage], int], Awaitable[list[ReceivedMessage]]]
    ) -> None:
        super().__init__(PushSettings())
        self._take = take

    async def give_back(
        self, messages: list[ReceivedMessage], delay_level: int = 0
    ) -> list[ReceivedMessage]:
        """Ask the function."""
        return await self._take(messages, delay_level)


def a_batch(count: int) -> tuple[ProcessQueue, Running]:
    """Return a queue, and a worker whose handler has had all its messages for long."""
    messages = [
        ReceivedMessage(QUEUE, b"x", at, 0, 0, 0, 0, 0, 0, 1, b"", bytes(8), bytes(8))
        for at in range(count)
    ]
    task = asyncio.current_task()
    assert task is not None
    process, running = ProcessQueue(0), Running(task)
    process.put(messages, count)
    running.take(process, messages)
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

    expiry = MessageExpiry([Running(running.task), running], Takes(give_back), 500)
    await expiry.sweep({QUEUE: process})
    assert given == list(range(EXPIRED_MAX))
    await expiry.sweep({QUEUE: process})
    assert (given[-1], process.committable) == (19, 20)


async def test_what_is_recent_or_lost_stays() -> None:
    """Neither a handler in time nor a queue that is given up is touched."""

    async def give_back(messages: list[ReceivedMessage], level: int) -> list[ReceivedMessage]:
        raise AssertionError("nothing is to be given back")

    process, running = a_batch(1)
    await MessageExpiry([running], Takes(give_back), 5000).sweep({QUEUE: process})
    process.drop()
    await MessageExpiry([running], Takes(give_back), 500).sweep({QUEUE: process})
    assert process.committable == 0


class Brokers(DropFailed):
    """Takes messages back when the test lets it, or does not take them."""

    def __init__(self) -> None:
        super().__init__(PushSettings())
        self.asked: list[int] = []
        self.go = asyncio.Event()
        self.takes = True

    async def give_back(
        self, messages: list[ReceivedMessage], delay_level: int = 0
    ) -> list[ReceivedMessage]:
        """Note what comes."""
        self.asked += [message.queue_offset for message in messages]
        takes = self.takes
        await self.go.wait()
        return [] if takes else messages


class Stuck:
    """A message in its handler's hands, and a sweep that is giving it back."""

    def __init__(self) -> None:
        self.brokers = Brokers()
        self.pool = HandlerPool(HandlingTerms("g", PushSettings(), Hooks()), self.brokers)
        self.process = ProcessQueue(0)
        self.ends = asyncio.Event()
        self.answer = ConsumeResult.LATER
        self.sweeping = asyncio.ensure_future(self._sweep())

    async def _handle(self, message: ReceivedMessage) -> ConsumeResult:
        await self.ends.wait()
        return self.answer

    async def _sweep(self) -> None:
        message = ReceivedMessage(QUEUE, b"x", 0, 0, 0, 0, 0, 0, 0, 1, b"", bytes(8), bytes(8))
        self.process.put([message], 1)
        self.pool.submit(self.process, Handler(self._handle), TopicCounters(), [message])
        await until(lambda: self.pool.statistics().running == 1)
        await MessageExpiry(self.pool.running, self.brokers, 0).sweep({QUEUE: self.process})


async def test_what_fails_while_it_is_given_back_goes_once() -> None:
    """Its handler ends while the cleaner waits for the broker."""
    stuck = Stuck()
    await until(lambda: stuck.brokers.asked == [0])
    stuck.ends.set()
    await until(lambda: stuck.pool.statistics().failed == 1 or stuck.pool.running[0].settling)
    stuck.brokers.go.set()
    await stuck.sweeping
    await until(lambda: stuck.pool.statistics().running == 0)
    assert stuck.brokers.asked == [0]
    assert (stuck.process.committable, stuck.pool.statistics().failed) == (1, 1)
    await stuck.pool.close()


async def test_what_the_cleaner_cannot_give_back_the_handlers_answer_does() -> None:
    """Its failure is not forgotten over the one of the broker."""
    stuck = Stuck()
    stuck.brokers.takes = False
    await until(lambda: stuck.brokers.asked == [0])
    stuck.brokers.takes = True
    stuck.ends.set()
    await until(lambda: stuck.pool.running[0].settling)
    stuck.brokers.go.set()
    await stuck.sweeping
    await until(lambda: stuck.pool.statistics().running == 0)
    assert (stuck.brokers.asked, stuck.process.committable) == ([0, 0], 1)
    await stuck.pool.close()


async def test_a_queue_is_not_given_up_before_the_broker_has_answered() -> None:
    """The handler has ended well meanwhile; the message is still on its way."""
    stuck = Stuck()
    await until(lambda: stuck.brokers.asked == [0])
    stuck.answer = ConsumeResult.SUCCESS
    stuck.ends.set()
    await until(lambda: stuck.pool.statistics().running == 0)
    assert not await stuck.process.wait_idle(0.01)
    stuck.brokers.go.set()
    assert await stuck.process.wait_idle(10)
    await stuck.sweeping
    await stuck.pool.close()


async def test_an_answer_that_is_seen_to_does_not_expire() -> None:
    """However long that takes: what is on its way is not given back twice."""
    process, running = a_batch(1)
    running.settling = True

    async def give_back(messages: list[ReceivedMessage], level: int) -> list[ReceivedMessage]:
        raise AssertionError("nothing is to be given back")

    await MessageExpiry([running], Takes(give_back), 500).sweep({QUEUE: process})
    assert process.committable == 0
