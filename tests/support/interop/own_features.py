"""What our client promises of transactions, times and searches, against whatever cluster."""

import asyncio
import contextlib
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import pytest

from aerobee.client import (
    BrokerRefused,
    ConsumeFrom,
    FoundMessages,
    HalfMessage,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    TransactionListener,
    TransactionProducer,
    TransactionSettings,
    TransactionState,
)
from aerobee.remoting.codes import ResponseCode
from support.waiting import until

SECONDS_MAX: Final = 60  # that anything may take on a busy machine
SETTINGS: Final = {
    "transactionTimeOut": "2000",  # longer than a cold broker takes for a transaction
    "transactionCheckInterval": "2000",
    "transactionOpBatchInterval": "200",  # or RocketMQ asks again, and commits again, before it
    "recallMessageEnable": "true",
}
"""Of a broker that asks about half messages soon, as the lines of its configuration."""


class Ledger(TransactionListener):
    """Knows of each message by its body how its transaction ended; counts how often it is asked."""

    def __init__(self) -> None:
        self.states: dict[bytes, TransactionState] = {}
        self.asked: Counter[bytes] = Counter()

    async def execute(self, half: HalfMessage, argument: object) -> TransactionState:
        """Answer what is given."""
        assert isinstance(argument, TransactionState)
        return argument

    async def check(self, message: ReceivedMessage) -> TransactionState:
        """Answer as the ledger says."""
        self.asked[message.body] += 1
        return self.states.get(message.body, TransactionState.UNKNOWN)


class Reader:
    """What consumers see of a topic, and when."""

    def __init__(self) -> None:
        self.seen: Counter[bytes] = Counter()
        self.messages: dict[bytes, ReceivedMessage] = {}
        self.at_s: dict[bytes, float] = {}

    async def handle(self, message: ReceivedMessage) -> None:
        """Note a message."""
        self.seen[message.body] += 1
        self.messages[message.body] = message
        self.at_s.setdefault(message.body, time.time())


def new_topic() -> str:
    """Return a name that no other test uses."""
    return f"own-{uuid.uuid4().hex[:12]}"


@contextlib.asynccontextmanager
async def reading(namesrv: str, topic: str) -> AsyncIterator[Reader]:
    """Make a topic, and read it from its first message on."""
    reader = Reader()
    async with Producer(namesrv=namesrv) as producer:
        await producer.send(Message(topic, b"made"))
    consumer = PushConsumer(topic, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(topic, reader.handle)
    async with consumer:
        await until(lambda: reader.seen[b"made"], SECONDS_MAX)
        yield reader


async def consumers_see_what_is_committed(namesrv: str) -> None:
    """By the end of a block, an exception, an execute, and the answers to checks; each once.

    What the group's last process left open is asked of the next one.
    """
    topic, ledger = new_topic(), Ledger()
    large = b"large" * 4_000  # travels compressed, also in the question
    ledger.states = {
        b"left, then committed": TransactionState.COMMIT,
        b"left, then rolled back": TransactionState.ROLLBACK,
        large: TransactionState.COMMIT,
    }
    group = f"g-{topic}"
    async with reading(namesrv, topic) as reader:
        async with TransactionProducer(group, namesrv=namesrv, listener=ledger) as producer:
            async with producer.transaction(Message(topic, b"block", tags="a", keys="k")) as half:
                assert half.result.transaction_id in (None, half.message_id)
            with pytest.raises(ValueError, match="no"):
                async with producer.transaction(Message(topic, b"raised")):
                    raise ValueError("no")
            for state in TransactionState:
                body = state.name.encode()
                await producer.send_in_transaction(Message(topic, body), state)
            for body in ledger.states:
                with contextlib.suppress(TimeoutError):
                    async with producer.transaction(Message(topic, body), key="k"):
                        raise TimeoutError
            await until(lambda: reader.seen[b"block"] and reader.seen[b"COMMIT"], SECONDS_MAX)
            message = reader.messages[b"block"]
            assert (message.message_id, message.tags, message.keys) == (
                half.message_id,
                "a",
                ["k"],
            )
            assert message.queue == half.result.queue
        heir = TransactionProducer(
            group,
            namesrv=namesrv,
            listener=ledger,
            settings=TransactionSettings(topics=(topic,)),
        )
        async with heir:
            await until(lambda: reader.seen[b"left, then committed"], SECONDS_MAX)
            await until(lambda: reader.seen[large], SECONDS_MAX)
            await until(lambda: ledger.asked[b"left, then rolled back"], SECONDS_MAX)
            await until(lambda: ledger.asked[b"UNKNOWN"] >= 2, SECONDS_MAX)
    seen = {body: times for body, times in reader.seen.items() if body != b"made"}
    expected = [b"block", b"COMMIT", b"left, then committed", large]
    assert seen == dict.fromkeys(expected, 1)
    assert ledger.asked.keys() <= {*ledger.states, b"UNKNOWN"}


async def a_long_block_is_not_asked_about(namesrv: str) -> None:
    """The broker asks while it is at work; the listener, who would roll back, hears nothing."""
    topic, ledger = new_topic(), Ledger()
    ledger.states[b"slow"] = TransactionState.ROLLBACK
    producer = TransactionProducer(f"g-{topic}", namesrv=namesrv, listener=ledger)
    async with reading(namesrv, topic) as reader, producer:
        asked = 0
        check = producer.check

        def counted(*question: object) -> None:
            nonlocal asked
            asked += 1
            check(*question)  # type: ignore[arg-type]

        producer.check = counted  # type: ignore[method-assign, assignment]
        async with producer.transaction(Message(topic, b"slow")):
            await until(lambda: asked, SECONDS_MAX)
        await until(lambda: reader.seen[b"slow"], SECONDS_MAX)
    assert not ledger.asked


async def what_was_committed_can_be_sent_on(namesrv: str) -> None:
    """With the user's properties: it is no half again, and everybody sees it."""
    topic, onward = new_topic(), new_topic()
    async with reading(namesrv, topic) as first, reading(namesrv, onward) as second:
        async with TransactionProducer(f"g-{topic}", namesrv=namesrv, listener=Ledger()) as sender:
            async with sender.transaction(Message(topic, b"x", properties={"colour": "red"})):
                pass
            await until(lambda: first.seen[b"x"], SECONDS_MAX)
            message = first.messages[b"x"]
            assert message.properties["TRAN_MSG"] == "true"
            assert message.user_properties == {"colour": "red"}
            await sender.send(Message(onward, b"x", properties=message.user_properties))
        await until(lambda: second.seen[b"x"], SECONDS_MAX)
        assert second.messages[b"x"].user_properties == {"colour": "red"}


async def messages_come_at_their_time_unless_taken_back(namesrv: str) -> None:
    """Never early, RocketMQ's up to a second and a bit late; recalls are for what still waits."""
    topic = new_topic()
    async with reading(namesrv, topic) as reader, Producer(namesrv=namesrv) as producer:
        began_s = time.time()
        due = datetime.now(UTC) + timedelta(seconds=3)
        results = {
            body: await producer.send(Message(topic, body), **times)  # type: ignore[arg-type]
            for body, times in {
                b"delay": {"delay": timedelta(seconds=2.5)},
                b"moment": {"deliver_at": due},
                b"past": {"deliver_at": due - timedelta(days=1)},
                b"taken back": {"delay": timedelta(seconds=6)},
                b"taken back, too": {"delay": timedelta(seconds=6)},
                b"last": {"delay": timedelta(seconds=8)},
            }.items()
        }
        assert results[b"past"].recall_handle is None
        taken = results[b"taken back"]
        assert await producer.recall(taken) == taken.message_id
        handle = results[b"taken back, too"].recall_handle
        assert handle is not None
        assert await producer.recall(handle) == results[b"taken back, too"].message_id
        with pytest.raises(BrokerRefused) as refused:
            await producer.send(Message(topic, b"x"), delay=timedelta(days=30))
        assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
        await until(lambda: reader.seen[b"last"], SECONDS_MAX)
        with pytest.raises(BrokerRefused) as refused:
            await producer.recall(results[b"delay"])
        assert refused.value.code == ResponseCode.ILLEGAL_OPERATION
    del reader.seen[b"made"]
    assert reader.seen == Counter([b"delay", b"moment", b"past", b"last"])
    late_s = {
        b"delay": reader.at_s[b"delay"] - began_s - 2.5,
        b"moment": reader.at_s[b"moment"] - due.timestamp(),
    }
    assert all(0 <= late < 10 for late in late_s.values()), late_s


async def messages_are_found(namesrv: str) -> None:
    """By key, in pages, within times, and by either id."""
    topic = new_topic()
    async with Producer(namesrv=namesrv) as producer:
        one = await producer.send(Message(topic, b"one", keys="k1 k2", tags="a"))
        async with PullConsumer("finders", namesrv=namesrv) as consumer:

            async def found(count: int, **wanted: object) -> FoundMessages:
                """Look until the index has them: it is built behind the log."""
                async with asyncio.timeout(SECONDS_MAX):
                    while True:
                        answer = await consumer.find(topic, **wanted)  # type: ignore[arg-type]
                        if len(answer) >= count:
                            return answer
                        await asyncio.sleep(0.05)

            for wanted in (
                {"key": "k1"},
                {"key": "k2"},
                {"message_id": one.message_id},
                {"message_id": one.offset_message_id},
            ):
                (message,) = await found(1, **wanted)
                assert (message.body, message.queue, message.queue_offset, message.tags) == (
                    b"one",
                    one.queue,
                    one.queue_offset,
                    "a",
                )
            assert not await consumer.find(topic, key="k3")
            stored = datetime.fromtimestamp(message.store_timestamp_ms / 1000, UTC)
            assert len(await consumer.find(topic, key="k1", since=stored, until=stored)) == 1
            later = stored + timedelta(milliseconds=1)
            assert not await consumer.find(topic, key="k1", since=later)
            earlier = stored - timedelta(milliseconds=1)
            assert not await consumer.find(topic, key="k1", until=earlier)
            for at in range(120):  # never more of one second than a page holds, wherever it begins
                if at % 30 == 0:
                    since_s = time.monotonic()
                    await until(partial(_is_over, since_s))
                await producer.send(Message(topic, b"%d" % at, keys="many"))
            many = await found(120, key="many", messages_max=500)
            assert many.complete and not many.failed
            assert sorted(int(each.body) for each in many) == list(range(120))
            times = [each.store_timestamp_ms for each in many]
            assert times == sorted(times)


def _is_over(since_s: float) -> bool:
    """Whether a second has passed."""
    return time.monotonic() > since_s + 1


CASES: Final[list[Callable[[str], Awaitable[None]]]] = [
    consumers_see_what_is_committed,
    a_long_block_is_not_asked_about,
    what_was_committed_can_be_sent_on,
    messages_come_at_their_time_unless_taken_back,
    messages_are_found,
]
"""All of them; each gets the nameserver's address."""
