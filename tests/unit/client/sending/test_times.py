"""Messages with a time of their own, and taking them back."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster

from aerobee.client import (
    BrokerRefused,
    InvalidMessage,
    InvalidUse,
    Message,
    MessageQueue,
    Producer,
    RouteMissing,
    SendResult,
    SendStatus,
    Unavailable,
)
from aerobee.client.sending.due import due
from aerobee.client.sending.recalls import read_handle
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Outcome, Reply

GOLDEN_HANDLE = (
    "djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgMEEwMDAwMDEwMDAwMkE5RjAwMDAwMDAwMDAwMDAx"
)
HANDLE = base64.urlsafe_b64encode(b"v1 t broker-b 1700000000001 0A01").decode()


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"delay": timedelta(seconds=1.5)}, ("TIMER_DELAY_MS", "1500")),
        ({"delay": timedelta(microseconds=1)}, ("TIMER_DELAY_MS", "1")),
        ({"delay": timedelta(0)}, ("TIMER_DELAY_MS", "0")),
        ({"delay": timedelta(days=3)}, ("TIMER_DELAY_MS", "259200000")),
        (
            {"deliver_at": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)},
            ("TIMER_DELIVER_MS", "1700000000000"),
        ),
        (
            {"deliver_at": datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC)},
            ("TIMER_DELIVER_MS", "1700000000001"),
        ),
        (
            {"deliver_at": datetime(2023, 11, 15, 6, 13, 20, tzinfo=timezone(timedelta(hours=8)))},
            ("TIMER_DELIVER_MS", "1700000000000"),
        ),
    ],
)
async def test_a_time_travels_as_a_property(
    cluster: FakeCluster, times: dict[str, Any], expected: tuple[str, str]
) -> None:
    """A moment in any zone, a delay by the broker's clock: never too early."""
    cluster.create("t", 1)
    message = Message("t", b"x", properties={"mine": "1"})
    async with Producer(namesrv=cluster.namesrv) as producer:
        result = await producer.send(message, **times)
    broker = next(each for each in cluster.brokers if each.name == result.queue.broker_name)
    properties = parse_properties(broker.log["t", 0][0].properties)
    assert properties.items() >= {expected, ("mine", "1")}
    assert message.properties == {"mine": "1"}, "the user's message is left as it is"


@pytest.mark.parametrize(
    ("times", "error", "why"),
    [
        ({"delay": timedelta(seconds=-1)}, InvalidUse, "delay=.*negative"),
        ({"delay": 5}, InvalidUse, "delay=5: it must be a timedelta"),
        ({"delay": 5.0}, InvalidUse, "delay=5.0: it must be a timedelta"),
        ({"deliver_at": 1_700_000_000}, InvalidUse, "deliver_at=1700000000: it must be a datetime"),
        ({"deliver_at": datetime(2030, 1, 1)}, InvalidUse, "deliver_at=.*no time zone"),
        ({"deliver_at": datetime(1969, 1, 1, tzinfo=UTC)}, InvalidUse, "not after 1970"),
        (
            {"deliver_at": datetime(2030, 1, 1, tzinfo=UTC), "delay": timedelta(1)},
            InvalidUse,
            "one of deliver_at and delay",
        ),
    ],
)
async def test_times_that_make_no_sense(
    cluster: FakeCluster, times: dict[str, Any], error: type[Exception], why: str
) -> None:
    """They are refused by name, and nothing is sent."""
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        with pytest.raises(error, match=why):
            await producer.send(Message("t", b"x"), **times)
    assert not any(broker.requests(RequestCode.SEND_MESSAGE_V2) for broker in cluster.brokers)


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"x", delay_level=1),
        Message("t", b"x", properties={"TIMER_DELAY_SEC": "1"}),
        Message("t", b"x", properties={"TIMER_DELIVER_MS": "1"}),
    ],
)
async def test_one_message_has_one_time(cluster: FakeCluster, message: Message) -> None:
    """RocketMQ's broker would take one of the two; in a batch it takes none of them."""
    with pytest.raises(InvalidMessage, match="has a time already"):
        due(message, None, timedelta(1))
    cluster.create("t", 1)
    async with Producer(namesrv=cluster.namesrv) as producer:
        with pytest.raises(InvalidMessage, match="not supported for batching"):
            await producer.send_many([message])


def sent(handle: str | None) -> SendResult:
    """Return a result of a send with this handle."""
    queue = MessageQueue("t", "broker-b", 0)
    return SendResult(SendStatus.SEND_OK, "0A01", "", queue, 0, recall_handle=handle)


def test_a_handle_says_what_waits_where() -> None:
    """As RocketMQ 5.5.0 writes it."""
    handle = read_handle(GOLDEN_HANDLE)
    assert handle.queue == MessageQueue("orders", "broker-a", 0)
    assert handle.deliver_ms == 1_700_000_000_001
    assert handle.message_id == "0A00000100002A9F00000000000001"


async def test_a_message_is_taken_back_where_it_waits(cluster: FakeCluster) -> None:
    """By the result of its send, or by the handle as text; the answer is its id."""

    def recalled(connection: Connection, command: Command) -> Outcome:
        return Reply(ext={"msgId": "0A01"})

    def stored(connection: Connection, command: Command) -> Outcome:
        ext = {"msgId": "7F" * 16, "queueId": "0", "queueOffset": "0", "recallHandle": HANDLE}
        return Reply(ext=ext)

    cluster.create("t", 1)
    broker = cluster.brokers[1]
    async with Producer("pg", namesrv=cluster.namesrv) as producer:
        broker.script[RequestCode.SEND_MESSAGE_V2].append(stored)
        queue = MessageQueue("t", "broker-b", 0)
        result = await producer.send(Message("t", b"x"), queue=queue, delay=timedelta(1))
        assert result.recall_handle == HANDLE
        for wanted in (result, HANDLE):
            broker.script[RequestCode.RECALL_MESSAGE].append(recalled)
            assert await producer.recall(wanted) == "0A01"
    asked = broker.requests(RequestCode.RECALL_MESSAGE)
    assert len(asked) == 2 and not cluster.brokers[0].requests(RequestCode.RECALL_MESSAGE)
    assert asked[0].ext == {"topic": "t", "recallHandle": HANDLE, "producerGroup": "pg"}


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("handle", "why"),
    [
        (sent(None), "no recall handle: only what was sent with"),
        (sent(""), "no recall handle: only what was sent with"),
        ("", "no recall handle: only what was sent with"),
        ("no base64!", "is no recall handle"),
        ("grün", "is no recall handle"),
        (HANDLE[:-3], "is no recall handle"),
        ("A" * 5_000, "is no recall handle"),
        (_encoded("v1 t broker-b 17"), "is no recall handle"),
        (_encoded("v2 t broker-b 17 0A01"), "is no recall handle"),
        (_encoded("v1 t broker-b soon 0A01"), "is no recall handle"),
        (_encoded("v1 t/u broker-b 17 0A01"), "'/'"),
        (_encoded("v1 %RETRY%g broker-b 17 0A01"), "nothing can be recalled"),
    ],
)
async def test_what_is_no_handle_is_refused(
    cluster: FakeCluster, handle: SendResult | str, why: str
) -> None:
    """By name, and no broker is asked."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        with pytest.raises(InvalidMessage, match=why):
            await producer.recall(handle)


def _refuse(broker: FakeBroker) -> None:
    broker.refuse(RequestCode.RECALL_MESSAGE, ResponseCode.NO_PERMISSION)


def _forget(broker: FakeBroker) -> None:
    for each in broker.cluster.brokers:
        each.topics.pop("t")


def _hide(broker: FakeBroker) -> None:
    broker.topics.pop("t")


@pytest.mark.parametrize(
    ("trouble", "error"),
    [(_refuse, BrokerRefused), (_forget, RouteMissing), (_hide, Unavailable)],
)
async def test_a_recall_that_fails_says_why(
    cluster: FakeCluster, trouble: Callable[[FakeBroker], None], error: type[Exception]
) -> None:
    """A refusal, a topic that is gone, a broker that no route names."""
    cluster.create("t", 1)
    trouble(cluster.brokers[1])
    async with Producer(namesrv=cluster.namesrv) as producer:
        with pytest.raises(error):
            await producer.recall(HANDLE)
