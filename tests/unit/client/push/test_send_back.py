"""What fails goes back to the brokers and comes again, or else is handled again here."""

import asyncio
import itertools
from collections import Counter

import pytest
from support.consumers import QUICK, Seen, consumer, fill
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    ConsumeResult,
    Later,
    MessageQueue,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Outcome

BACK = RequestCode.CONSUMER_SEND_MSG_BACK
SEND = RequestCode.SEND_MESSAGE_V2


class Failing:
    """A handler that fails the first `times` times that it gets a body."""

    def __init__(self, body: bytes, times: int, answer: ConsumeResult | Later | None) -> None:
        self.body = body
        self.times = times
        self.answer = answer
        self.got: Counter[bytes] = Counter()
        self.seen: list[ReceivedMessage] = []

    async def handle(self, message: ReceivedMessage) -> ConsumeResult | Later | None:
        """Raise where no answer is given."""
        self.got[message.body] += 1
        if message.body == self.body:
            self.seen.append(message)
            if len(self.seen) <= self.times:
                if self.answer is None:
                    raise ValueError("handler fails")
                return self.answer
        return None


@pytest.mark.parametrize("answer", [None, ConsumeResult.LATER, Later(delay_level=3)])
async def test_a_failed_message_comes_again_through_the_broker(
    cluster: FakeCluster, answer: ConsumeResult | Later | None
) -> None:
    """Under its own topic, with one more time on the count; the queue goes on meanwhile."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 3)
    broker = cluster.brokers[0]
    failing = Failing(b"1", 2, answer)
    async with consumer(cluster, failing.handle) as member:
        await until(lambda: failing.got[b"1"] == 3)
        await until(lambda: member.statistics().handlers.succeeded == 3)
        statistics = member.statistics()
    assert [message.reconsume_times for message in failing.seen] == [0, 1, 2]
    assert {message.topic for message in failing.seen} == {"t"}
    assert failing.seen[1].queue == MessageQueue("%RETRY%g", "broker-a", 0)
    assert (failing.got[b"0"], failing.got[b"2"]) == (1, 1)
    assert broker.committed["g", "t", 0] == 3
    assert broker.committed["g", "%RETRY%g", 0] == 2
    first = broker.requests(BACK)[0].ext
    assert first == {
        "offset": str(failing.seen[0].position),
        "group": "g",
        "delayLevel": str(answer.delay_level) if isinstance(answer, Later) else "0",
        "originMsgId": failing.seen[0].message_id,
        "originTopic": "t",
        "unitMode": "false",
        "maxReconsumeTimes": "16",
    }
    assert (statistics.topics["t"].failed, statistics.topics["%RETRY%g"].failed) == (1, 1)


async def test_where_sending_back_fails_a_copy_goes_to_the_retry_topic(
    cluster: FakeCluster,
) -> None:
    """With everything that a redelivered message carries, and its sender's properties.

    It is no half message because it was one, and waits for no time but that of the retry.
    """
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker = cluster.brokers[0]
    broker.refuse(BACK, ResponseCode.SYSTEM_ERROR)
    was = b"TRAN_MSG\x01true\x02TIMER_DELAY_MS\x015\x02"
    broker.store("t", 0, b"x", was + b"TAGS\x01blue\x02UNIQ_KEY\x01ABC\x02mine\x017\x02")
    failing = Failing(b"x", 1, ConsumeResult.LATER)
    async with consumer(cluster, failing.handle):
        await until(lambda: failing.got[b"x"] == 2)
    again = failing.seen[1]
    assert (again.topic, again.tags, again.reconsume_times) == ("t", "blue", 1)
    assert (again.properties["mine"], again.message_id) == ("7", "ABC")
    (sent,) = broker.requests(SEND)
    assert (sent.ext["b"], sent.ext["j"], sent.ext["l"]) == ("%RETRY%g", "1", "16")
    assert parse_properties(sent.ext["i"]) == {
        "TAGS": "blue",
        "UNIQ_KEY": "ABC",
        "mine": "7",
        "ORIGIN_MESSAGE_ID": "ABC",
        "RETRY_TOPIC": "t",
        "RECONSUME_TIME": "1",
        "MAX_RECONSUME_TIMES": "16",
        "DELAY": "3",
    }
    assert broker.committed["g", "t", 0] == 1


async def test_where_that_fails_too_it_is_handled_again_here(cluster: FakeCluster) -> None:
    """Its queue goes on, but the offset waits for it."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 3)
    broker = cluster.brokers[0]
    broker.refuse(BACK, ResponseCode.SYSTEM_ERROR, times=1000)
    broker.refuse(SEND, ResponseCode.SYSTEM_ERROR, times=1000)
    failing = Failing(b"0", 3, None)
    async with consumer(cluster, failing.handle) as member:
        await until(lambda: len(failing.seen) == 2 and failing.got[b"2"] == 1)
        await member.persist_offsets()
        await until(lambda: broker.committed.get(("g", "t", 0)) == 0)
        await until(lambda: member.statistics().handlers.succeeded == 3)
    assert len(failing.seen) == 4
    assert failing.seen[0].reconsume_times == 3  # the same object each time
    assert broker.committed["g", "t", 0] == 3


async def test_of_a_batch_the_rest_goes_back(cluster: FakeCluster) -> None:
    """A handler of lists may say how many from the front it has done."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 10)
    broker = cluster.brokers[0]
    sizes: list[int] = []
    bodies: Counter[bytes] = Counter()

    async def handle(messages: list[ReceivedMessage]) -> Later | None:
        sizes.append(len(messages))
        bodies.update(message.body for message in messages)
        return Later(succeeded=2) if len(sizes) == 1 else None

    member = PushConsumer(
        "g", namesrv=cluster.namesrv, settings=QUICK, consume_from=ConsumeFrom.FIRST
    )
    member.subscribe("t", handle, batch=4)
    async with member:
        await until(lambda: member.statistics().handlers.succeeded == 10)
    assert sizes[:3] == [4, 4, 2]
    assert {body for body, times in bodies.items() if times == 2} == {b"2", b"3"}
    assert broker.committed["g", "t", 0] == 10


async def test_plain_functions_may_get_batches_and_ask_for_later(cluster: FakeCluster) -> None:
    """In their thread."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 3)
    calls: list[list[bytes]] = []

    def handle(messages: list[ReceivedMessage]) -> ConsumeResult:
        calls.append([message.body for message in messages])
        return ConsumeResult.LATER if len(calls) == 1 else ConsumeResult.SUCCESS

    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(batch=8),
        consume_from=ConsumeFrom.FIRST,
    )
    member.subscribe("t", handle)  # type: ignore[arg-type]  # the settings say that it is batches
    async with member:
        await until(lambda: member.statistics().handlers.succeeded == 3)
    assert calls[0] == [b"0", b"1", b"2"]
    assert sorted(itertools.chain(*calls[1:])) == [b"0", b"1", b"2"]


async def test_after_too_many_times_it_is_dead(cluster: FakeCluster) -> None:
    """The consumer says how many; the broker puts the message to the dead letters."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 1)
    broker = cluster.brokers[0]
    failing = Failing(b"0", 99, None)
    member = PushConsumer(
        "g",
        namesrv=cluster.namesrv,
        settings=PushSettings(max_reconsume_times=2),
        consume_from=ConsumeFrom.FIRST,
    )
    member.subscribe("t", failing.handle)
    async with member:
        await until(lambda: bool(broker.log["%DLQ%g", 0]))
    assert len(failing.seen) == 3
    assert {command.ext["maxReconsumeTimes"] for command in broker.requests(BACK)} == {"2"}


async def test_a_retried_message_without_handler_goes_back(cluster: FakeCluster) -> None:
    """Another member, or a later version of this one, may know its topic."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    broker = cluster.brokers[0]
    broker.topics["%RETRY%g"] = 1
    broker.store("%RETRY%g", 0, b"x", b"RETRY_TOPIC\x01other\x02", reconsume_times=16)
    seen = Seen()
    async with consumer(cluster, seen.handle):
        await until(lambda: bool(broker.log["%DLQ%g", 0]))
    assert not seen.messages


async def test_closing_waits_for_what_is_given_back(cluster: FakeCluster) -> None:
    """A message whose handler failed has left this member before the queue does."""
    cluster.create("t", 1)
    cluster.brokers.pop()
    fill(cluster, "t", 1)
    broker = cluster.brokers[0]
    asked, answer = asyncio.Event(), asyncio.Event()

    def hold(connection: Connection, command: Command) -> Outcome:
        async def later() -> None:
            await answer.wait()
            connection.send(command.reply(ResponseCode.SUCCESS))

        asked.set()
        tasks.append(asyncio.ensure_future(later()))
        return None

    tasks: list[asyncio.Future[None]] = []
    broker.script[BACK].append(hold)
    failing = Failing(b"0", 1, ConsumeResult.LATER)
    member = consumer(cluster, failing.handle)
    await member.start()
    await asked.wait()
    closing = asyncio.ensure_future(member.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    assert broker.committed.get(("g", "t", 0), 0) == 0
    answer.set()
    await closing
    assert broker.committed["g", "t", 0] == 1
