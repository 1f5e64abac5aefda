"""Wrong arguments are refused by name, at the call, by errors that ClientError catches."""

import asyncio
import dataclasses
import math
import re
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from support.programs import run_program
from support.stand_ins.fake_cluster import FakeCluster

import aerobee.client.sync
from aerobee.client import (
    BadAddress,
    ClientError,
    ClientSettings,
    InvalidMessage,
    InvalidSetting,
    InvalidUse,
    LatencySettings,
    LitePullConsumer,
    LitePullSettings,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullConsumerSettings,
    PullSettings,
    PushConsumer,
    PushSettings,
    RequestProducer,
    TransactionProducer,
    TransactionSettings,
)
from aerobee.remoting.codes import RequestCode

A = cast(Any, None)  # lets a test hand over what type checkers would find


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("x", "body must be bytes, is str 'x': write body.encode()"),
        (None, "body must be bytes, is None"),
        (7, "body must be bytes, is int 7: write json=... for its JSON"),
        ({"a": 1}, "body must be bytes, is dict: write json=..."),
        (["a"], "body must be bytes, is list: write json=..."),
    ],
)
async def test_a_body_that_is_no_bytes_is_refused(
    cluster: FakeCluster, body: Any, text: str
) -> None:
    """Where the message is made, and where it was set since."""
    with pytest.raises(InvalidMessage) as caught:
        Message("t", body)
    assert str(caught.value).startswith(text)
    message = Message("t", b"x")
    message.body = body
    async with Producer(namesrv=cluster.namesrv) as producer:
        for send in (producer.send(message), producer.send_many([message])):
            with pytest.raises(InvalidMessage) as caught:
                await send
            assert str(caught.value).startswith(text)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_other_bytes_are_copied(kind: Callable[[bytes], Any]) -> None:
    """A buffer may be used again while the message waits."""
    buffer = bytearray(b"one")
    message = Message("t", kind(buffer))  # type: ignore[arg-type]
    buffer[:] = b"two"
    assert message.body == b"one"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"topic": None}, "the topic must be a text, is None"),
        ({"topic": 7}, "the topic must be a text, is int 7"),
        ({"topic": ["t"]}, "the topic must be a text, is list"),
        ({"topic": "a.b"}, "the topic 'a.b' has '.'; allowed: letters, digits"),
        ({"tags": "a b"}, "tags='a b': a message has one tag, without blanks"),
        ({"tags": " a"}, "tags=' a': a message has one tag"),
        ({"tags": "a||b"}, "tags='a||b': a message has one tag"),
        ({"tags": ["a"]}, "tags must be a text, is list: a message has one tag"),
        ({"tags": 7}, "tags must be a text, is int 7"),
        ({"keys": 7}, "keys must be a text or texts, is int 7"),
        ({"keys": [7]}, "keys must be a text or texts, is list"),
        ({"properties": {"n": 1}}, "a property's value must be a text, is int 1: of 'n'"),
        ({"properties": {"n": None}}, "a property's value must be a text, is None: of 'n'"),
        ({"properties": {1: "n"}}, "a property's name must be a text, is int 1: of 1"),
        ({"properties": None}, "properties must be a dict of texts, is None"),
        ({"properties": [("a", "b")]}, "properties must be a dict of texts, is list"),
        ({"delay_level": 19}, "delay_level=19: allowed are 0 to 18"),
        ({"delay_level": -1}, "delay_level=-1: allowed are 0 to 18"),
        ({"delay_level": "3"}, "delay_level='3': allowed are 0 to 18"),
        ({"flag": "x"}, "flag='x': it must be an int of 32 bits"),
        ({"flag": 2**31}, "flag=2147483648: it must be an int of 32 bits"),
    ],
)
async def test_wrong_fields_of_a_message_are_named(
    cluster: FakeCluster, fields: dict[str, Any], text: str
) -> None:
    """By each kind of send; nothing has reached a broker, and the producer goes on."""
    cluster.create("t", 1)
    message = Message(**{"topic": "t", "body": b"x", **fields})
    sends: list[Callable[[Producer], Awaitable[Any]]] = [
        lambda producer: producer.send(message),
        lambda producer: producer.send(message, key="k"),
        lambda producer: producer.send_oneway(message),
        lambda producer: producer.send_many([Message("t", b"y"), message]),
    ]
    async with Producer(namesrv=cluster.namesrv) as producer:
        for send in sends:
            with pytest.raises(InvalidMessage) as caught:
                await send(producer)
            assert str(caught.value).startswith(text) or "one topic" in str(caught.value)
        assert not any(broker.requests(RequestCode.SEND_MESSAGE_V2) for broker in cluster.brokers)
        await producer.send(Message("t", b"x", tags="a", keys=["k", "l"], properties={"n": "1"}))


async def test_more_delay_levels_are_a_setting(cluster: FakeCluster) -> None:
    """For brokers whose messageDelayLevel has more of them."""
    cluster.create("t", 1)
    settings = ProducerSettings(delay_level_max=20)
    async with Producer(namesrv=cluster.namesrv, settings=settings) as producer:
        await producer.send(Message("t", b"x", delay_level=20))
        with pytest.raises(InvalidMessage, match="allowed are 0 to 20"):
            await producer.send(Message("t", b"x", delay_level=21))


async def test_wrong_arguments_of_sends_are_named(cluster: FakeCluster) -> None:
    """Messages that are none, queues, keys, selectors and times."""
    cluster.create("t", 1)
    good = Message("t", b"x")
    async with Producer(namesrv=cluster.namesrv) as producer:
        calls = {
            "message must be a Message, is str 'x': write Message": producer.send(cast(Any, "x")),
            "message must be a Message, is None": producer.send(A),
            "message must be a Message, is bytes": producer.send_oneway(cast(Any, b"x")),
            "messages must be a sequence of messages, is Message: write [message]": (
                producer.send_many(cast(Any, good))
            ),
            "messages must be a sequence of messages, is None": producer.send_many(A),
            "queue must be a MessageQueue, of fetch_queues, is int 1": (
                producer.send(good, queue=cast(Any, 1))
            ),
            "key must be a text or an int, is float 1.5": producer.send(good, key=cast(Any, 1.5)),
            "selector must be a function": producer.send(good, selector=cast(Any, 7)),
            "timeout_ms must be a whole number, 1 to 2147483647, is str '9'": (
                producer.send(good, timeout_ms=cast(Any, "9"))
            ),
        }
        for text, call in calls.items():
            with pytest.raises(ClientError) as caught:
                await call
            assert str(caught.value).startswith(text)
        many = (Message("t", b"%d" % at) for at in range(3))
        assert (await producer.send_many(cast(Any, many))).queue_offset == 0


@pytest.mark.parametrize("kind", [Producer, RequestProducer, PushConsumer, LitePullConsumer])
@pytest.mark.parametrize(
    ("namesrv", "text"),
    [
        ("127.0.0.1", "address '127.0.0.1' is not of the form host:port"),
        ("a:1;b", "address 'b' is not of the form host:port"),
        ("a:99999", "a port is 1 to 65535"),
        ("ftp://a:1", "an address server has an HTTP URL"),
        (["a:1", 7], "namesrv must be 'host:port;host:port' or a sequence of these, is list"),
        (7, "namesrv must be 'host:port;host:port' or a sequence of these, is int 7"),
        (b"a:1", "namesrv must be 'host:port;host:port'"),
        ("", "write for example namesrv='127.0.0.1:9876', or set NAMESRV_ADDR"),
        (None, "write for example namesrv='127.0.0.1:9876', or set NAMESRV_ADDR"),
    ],
)
def test_wrong_nameservers_are_refused_at_once(
    kind: type[Any], namesrv: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is connected."""
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ClientError) as caught:
        kind("g", namesrv=namesrv)
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", [Producer, PushConsumer, LitePullConsumer, PullConsumer])
async def test_the_environment_names_nameservers(
    kind: type[Any], cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NAMESRV_ADDR, as for RocketMQ's clients; what is given wins; what is wrong there is told."""
    cluster.create("t", 1)
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    async with Producer() as producer:
        await producer.send(Message("t", b"x"))
    client = kind("g")
    assert client._namesrv == (cluster.namesrv,)
    assert kind("g", namesrv="127.0.0.1:1")._namesrv == ("127.0.0.1:1",)
    monkeypatch.setenv("NAMESRV_ADDR", "nonsense")
    with pytest.raises(BadAddress, match=r"NAMESRV_ADDR='nonsense': address 'nonsense' is not"):
        kind("g")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Producer(cast(Any, 7), namesrv="a:1"), "the group must be a text, is int 7"),
        (lambda: Producer("a b", namesrv="a:1"), "the group 'a b' has ' '"),
        (
            lambda: Producer(namesrv="a:1", settings=cast(Any, ClientSettings())),
            "settings must be a ProducerSettings, is ClientSettings",
        ),
        (
            lambda: Producer(namesrv="a:1", client=cast(Any, {})),
            "client must be a ClientSettings, is dict",
        ),
        (lambda: Producer(namesrv="a:1", hooks=cast(Any, 7)), "hooks must be a sequence"),
        (
            lambda: Producer(namesrv="a:1", hooks=cast(Any, [print])),
            "a producer's hook must be a SendHook, is builtin_function_or_method",
        ),
        (
            lambda: TransactionProducer("g", namesrv="a:1", listener=A),
            "listener must be a TransactionListener, is None",
        ),
        (
            lambda: PushConsumer("g", namesrv="a:1", consume_from=cast(Any, "earliest")),
            "consume_from must be a ConsumeFrom, is str 'earliest': write ConsumeFrom.FIRST",
        ),
        (
            lambda: LitePullConsumer("g", namesrv="a:1", consume_from=A),
            "consume_from must be a ConsumeFrom, is None",
        ),
        (
            lambda: PushConsumer("g", namesrv="a:1", consume_timestamp_ms=cast(Any, "now")),
            "consume_timestamp_ms must be a whole number, 0 to 9223372036854775807, is str 'now'",
        ),
        (
            lambda: PushConsumer("g", namesrv="a:1", model=cast(Any, "BROADCASTING")),
            "model must be a MessageModel, is str 'BROADCASTING'",
        ),
    ],
)
def test_wrong_arguments_of_clients_are_named(make: Callable[[], object], text: str) -> None:
    """By an error that says what to write."""
    with pytest.raises(ClientError) as caught:
        make()
    assert str(caught.value).startswith(text)


def test_wrong_settings_are_client_errors_and_value_errors() -> None:
    """As they were before there was a class for them."""
    with pytest.raises(ValueError, match="compression='rar'") as caught:
        ProducerSettings(compression="rar")
    assert isinstance(caught.value, InvalidSetting)
    assert isinstance(caught.value, ClientError)
    with pytest.raises(InvalidSetting, match="check_concurrency=0"):
        TransactionSettings(check_concurrency=0)


@pytest.mark.parametrize(
    ("settings", "name", "value", "said"),
    [
        (PushSettings, "concurrency", "4", "concurrency must be int, is str '4'"),
        (PushSettings, "batch", "16", "batch must be int or None, is str '16'"),
        (ProducerSettings, "send_timeout_ms", 3.5, "send_timeout_ms must be int, is float 3.5"),
        (TransactionSettings, "retries_max", None, "retries_max must be int, is None"),
        (LitePullSettings, "pull", PushSettings(), "pull must be PullSettings, is PushSettings"),
        (ClientSettings, "enable_trace", "no", "enable_trace must be bool, is str 'no'"),
    ],
)
def test_settings_of_another_kind_are_refused_by_name(
    settings: Callable[..., object], name: str, value: object, said: str
) -> None:
    """Where they are written, and not by what happens to compare them first."""
    with pytest.raises(InvalidSetting, match=re.escape(said)):
        settings(**{name: value})


@pytest.mark.parametrize(
    "settings",
    [
        ClientSettings,
        LatencySettings,
        LitePullSettings,
        ProducerSettings,
        PullConsumerSettings,
        PullSettings,
        PushSettings,
        TransactionSettings,
    ],
)
def test_each_setting_refuses_what_cannot_be(settings: Callable[..., Any]) -> None:
    """Times, counts and sizes that are none; nothing is told by another setting's name."""
    for each in dataclasses.fields(cast(Any, settings)):
        wrong: tuple[object, ...] = (math.nan, math.inf, 1.5, "9", b"9", [1], object())
        if each.type is not bool:
            wrong += (True,)
        if each.type in (int, int | None):
            wrong += (-2, 2**63)
        if each.type is str:
            wrong = (7, b"x", True, None, ["x"])
        for value in wrong:
            with pytest.raises(InvalidSetting, match=f"^{each.name}(=| must be )") as caught:
                settings(**{each.name: value})
            assert isinstance(caught.value, ClientError)


async def test_a_closed_producer_says_so(cluster: FakeCluster) -> None:
    """And one that was not started says that."""
    producer = Producer(namesrv=cluster.namesrv)
    with pytest.raises(InvalidUse, match="the producer is not started; use `async with`"):
        await producer.send(Message("t", b"x"))
    async with producer:
        pass
    for call in (producer.send(Message("t", b"x")), producer.send_many([Message("t", b"x")])):
        with pytest.raises(InvalidUse, match="the producer is closed"):
            await call


def test_a_producer_in_another_event_loop_says_so() -> None:
    """Whatever is called there; closing one whose loop has ended is no error."""
    made: list[Producer] = []

    async def begin() -> None:
        async with FakeCluster() as cluster:
            cluster.create("t", 1)
            producer = Producer(namesrv=cluster.namesrv)
            await producer.start()
            await producer.send(Message("t", b"x"))
            made.append(producer)

    async def go_on() -> None:
        for call in (made[0].send(Message("t", b"x")), made[0].find("t", key="k")):
            with pytest.raises(InvalidUse, match="in another event loop, which has ended"):
                await call
        await made[0].close()
        with pytest.raises(InvalidUse, match="the producer is closed"):
            await made[0].send(Message("t", b"x"))

    asyncio.run(begin())
    asyncio.run(go_on())


async def test_a_producer_of_a_loop_that_runs_elsewhere_says_so(cluster: FakeCluster) -> None:
    """In a thread: it may not even be closed from there."""
    cluster.create("t", 1)

    async def elsewhere() -> None:
        for call in (producer.send(Message("t", b"x")), producer.close()):
            with pytest.raises(InvalidUse, match="in another event loop, which runs elsewhere"):
                await call

    async with Producer(namesrv=cluster.namesrv) as producer:
        await asyncio.to_thread(asyncio.run, elsewhere())
        await producer.send(Message("t", b"x"))


async def test_the_other_kind_of_client_is_named(cluster: FakeCluster) -> None:
    """Who writes `with` for `async with`, or the reverse, has most often imported the other one."""
    waiting = aerobee.client.sync.Producer(namesrv=cluster.namesrv)
    with pytest.raises(TypeError, match=r"Producer of aerobee.client.sync is used by `with`"):
        async with cast(Any, waiting):
            pass
    with (
        pytest.raises(TypeError, match=r"Producer of aerobee.client is used by `async with`"),
        cast(Any, Producer(namesrv=cluster.namesrv)),
    ):
        pass
    reader = LitePullConsumer("g", namesrv=cluster.namesrv)
    with pytest.raises(TypeError, match=r"LitePullConsumer of aerobee.client is read by `async"):
        list(cast(Any, reader))


def test_an_address_for_a_group_is_told() -> None:
    """The first argument is the group, be it the one that newcomers give first."""
    with pytest.raises(InvalidMessage, match=r"for an address write namesrv='127\.0\.0\.1:9876'"):
        Producer("127.0.0.1:9876")
    with pytest.raises(InvalidMessage, match=r"allowed: letters, digits, %\|-_$"):
        Producer("a b")


def test_a_name_of_the_client_is_looked_for_where_it_is() -> None:
    """Not in the package itself."""
    said = "write: from aerobee.client import Producer"
    assert said in run_program("from aerobee import Producer", code=1)
    assert "no attribute 'Prducer'" in run_program("import aerobee; aerobee.Prducer", code=1)
