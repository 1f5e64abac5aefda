"""What `help()` shows of producers, results and errors: each has an example that runs."""

import ast
import datetime as dt
import re
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.stand_ins.fake_cluster import FakeCluster

import aerobee.client
from aerobee.client import (
    BadAddress,
    BadBody,
    BrokerRefused,
    CallTimedOut,
    ClientError,
    ClientSettings,
    ConnectionLost,
    ConsumeFrom,
    InvalidHandler,
    InvalidMessage,
    InvalidSetting,
    InvalidUse,
    Message,
    MessageQueue,
    NoReply,
    NotConnected,
    Producer,
    PushConsumer,
    ReceivedMessage,
    ReplierRefused,
    ReplyConnectionLost,
    ReplyNotTaken,
    RequestProducer,
    RouteMissing,
    SendFailed,
    SendQueueFull,
    SendResult,
    SendStatus,
    TransactionNotBegun,
    Unavailable,
)
from aerobee.testing import EmbeddedCluster

QUEUE = MessageQueue("orders", "broker-a", 1)
RESULT = SendResult(SendStatus.SEND_OK, "ID", "0A", QUEUE, 17)
REPLY = ReceivedMessage(QUEUE, b"-", 17, 0, 0, 0, 0, 0, 0, 0, b"", bytes(8), bytes(8))
ERRORS: list[ClientError] = [
    BadAddress("'x' is not of the form host:port"),
    BadBody("int", "17 of orders", ValueError("no number")),
    BrokerRefused(2, "busy", "a:1"),
    CallTimedOut("no reply"),
    ConnectionLost("gone"),
    InvalidHandler("it takes no message"),
    InvalidMessage("too large"),
    InvalidSetting("compression='rar'"),
    InvalidUse("closed"),
    NoReply("orders", 3_000, RESULT),
    NotConnected("refused"),
    ReplierRefused("no", REPLY),
    ReplyConnectionLost("orders", 3_000, RESULT),
    ReplyNotTaken("gone"),
    RouteMissing("orders", "a:1", no_broker=True),
    SendQueueFull(9, 1_000),
    SendQueueFull(64, 2**26),
    SendFailed("orders", ["broker-a"], 5, {"broker-a": Unavailable("away")}),
    SendQueueFull(3, 384),
    TransactionNotBegun("orders", "ID", "FLUSH_DISK_TIMEOUT"),
    Unavailable("away"),
]
EXAMPLES = {  # and how what they print begins
    "Message": "",
    "Producer": "SEND_OK ",
    "Producer.send": "",
    "Producer.send_many": "",
    "Producer.send_oneway": "",
    "Producer.fetch_queues": "",
    "Producer.recall": "",
    "ProducerSettings": "",
    "SendResult": "",
    "TransactionProducer": "",
    "JsonCodec": "",
    "MsgpackCodec": "",
    "BodyCodec": "",
    "ReceivedMessage.decode": "",
    "ClientError": "",
}


def example(name: str) -> str:
    """Return the indented blocks of a name's documentation, as one program."""
    thing: Any = aerobee.client
    for part in name.split("."):
        thing = getattr(thing, part)
    indent = " " * (8 if isinstance(thing, type) else 12)  # getdoc takes it away from some
    text = (thing.__doc__ or "").rstrip()
    blocks = re.findall(rf"(?:^{indent}.*\n|^\n(?={indent}))+", text + "\n", re.MULTILINE)
    assert blocks, f"{name} has no example"
    return textwrap.dedent("".join(blocks))


@pytest.fixture
async def names(cluster: FakeCluster) -> AsyncIterator[dict[str, Any]]:
    """What the examples speak of, beside all that the client exports."""
    cluster.brokers.pop()  # what is sent is found there
    cluster.create("orders", 2)
    order = ReceivedMessage(QUEUE, b"7", 17, 0, 0, 0, 0, 0, 0, 0, b"", bytes(8), bytes(8))
    async with Producer("names", namesrv=cluster.namesrv) as producer:
        yield {
            **{name: getattr(aerobee.client, name) for name in aerobee.client.__all__},
            "Order": int,
            "T": Any,
            "database": set(),
            "message": order,
            "producer": producer,
            "timedelta": dt.timedelta,
        }


async def run(program: str, names: dict[str, Any]) -> None:
    """Run a program that awaits at its top."""
    code = compile(program, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, names)
    if running is not None:
        await running


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_examples_of_producers_run(
    cluster: FakeCluster, names: dict[str, Any], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they stand, but for the nameserver's address."""
    program = example(name).replace("127.0.0.1:9876", cluster.namesrv)
    if name.startswith(("Producer.", "SendResult", "ClientError")):
        names["message"] = Message("orders", b"x")
    if name == "BodyCodec":
        names["message"].body = b"42"
    await run(program, names)
    assert capsys.readouterr().out.startswith(EXAMPLES[name])


async def test_the_example_of_requests_runs(
    tmp_path: Path, names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """With a replier at a real broker."""
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("prices", 1)
        namesrv = cluster.namesrv_addr
        other = ClientSettings(instance_name="other")

        async def handle(request: ReceivedMessage) -> None:
            await replier.reply(request, b"re:" + request.body)

        consumer = PushConsumer("r", namesrv=namesrv, consume_from=ConsumeFrom.FIRST, client=other)
        consumer.subscribe("prices", handle)
        async with RequestProducer("r", namesrv=namesrv, client=other) as replier, consumer:
            await run(example("RequestProducer").replace("127.0.0.1:9876", namesrv), names)
    assert capsys.readouterr().out == "b're:apples'\n"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_the_examples_of_errors_run(
    names: dict[str, Any], error: ClientError, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each catches its error, and has something to say of it."""
    names["error_to_raise"] = error
    await run("try:\n    raise error_to_raise\n" + example(type(error).__name__), names)
    assert len(capsys.readouterr().out) > 2


def test_every_error_is_shown() -> None:
    """All that a client exports; one of them where consumers are."""
    exported = [getattr(aerobee.client, name) for name in aerobee.client.__all__]
    errors = {each for each in exported if isinstance(each, type) and issubclass(each, Exception)}
    assert errors - {type(error) for error in ERRORS} == {ClientError}  # consumers'


def test_results_and_messages_are_shown_shortly() -> None:
    """What matters, by name, and nothing of the inside."""
    assert repr(RESULT) == (
        "SendResult(SEND_OK, topic='orders', broker='broker-a', queue_id=1, queue_offset=17,"
        " message_id='ID')"
    )
    assert repr(Message("orders", b"x", tags="a")) == (
        "Message(topic='orders', body=b'x', tags='a')"
    )
    assert repr(SendFailed("t", ["a", "b"], 5, {"b": Unavailable("away")})) == (
        "SendFailed(\"sending to topic 't' failed 2 times in 5 ms (b: away)\")"
    )
