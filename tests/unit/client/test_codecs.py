"""Values as bodies: JSON, MessagePack, structs, dataclasses, models, a codec of one's own."""

import dataclasses
import datetime as dt
from types import GenericAlias
from typing import Any, TypeVar, cast

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stand_ins.fake_cluster import FakeCluster

from aerobee.client import (
    JSON,
    MSGPACK,
    BadBody,
    BodyCodec,
    ClientError,
    InvalidMessage,
    Message,
    MessageQueue,
    Producer,
    ReceivedMessage,
)
from aerobee.client.cluster.decoding import decode_messages
from aerobee.remoting.message.record import encode_record

T = TypeVar("T")


class OrderStruct(msgspec.Struct):
    """As msgspec has it."""

    number: int
    paid: dt.datetime


class OrderModel(pydantic.BaseModel):
    """As pydantic has it, with an alias and a rule."""

    number: int = pydantic.Field(ge=0)
    paid: dt.datetime


@dataclasses.dataclass
class OrderData:
    """As the standard library has it."""

    number: int
    paid: dt.datetime


PAID = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
KINDS: list[type[Any]] = [OrderStruct, OrderModel, OrderData]
CODECS: list[BodyCodec] = [JSON, MSGPACK]
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=9,
)


async def received(cluster: FakeCluster, message: Message) -> ReceivedMessage:
    """Send a message, and return it as a consumer gets it."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        result = await producer.send(message)
    broker = next(each for each in cluster.brokers if each.name == result.queue.broker_name)
    record = broker.log[message.topic, result.queue.queue_id][result.queue_offset]
    (got,) = decode_messages(encode_record(record), result.queue)
    return got


@pytest.mark.parametrize("kind", KINDS)
async def test_json_arrives_as_what_it_is_read_as(cluster: FakeCluster, kind: type[Any]) -> None:
    """A struct, a model, a dataclass: also as another of them, and as plain data."""
    cluster.create("t", 1)
    order = kind(number=7, paid=PAID)
    got = await received(cluster, Message("t", json=order))
    assert got.body == b'{"number":7,"paid":"2026-01-02T03:04:05Z"}'
    assert got.json() == {"number": 7, "paid": "2026-01-02T03:04:05Z"}
    for other in KINDS:
        assert got.decode(other) == other(number=7, paid=PAID)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS)
def test_lists_and_dicts_of_values_come_back(codec: BodyCodec, kind: type[Any]) -> None:
    """By either codec."""
    orders = [kind(number=at, paid=PAID) for at in range(3)]
    many, named = GenericAlias(list, kind), GenericAlias(dict, (str, kind))
    assert codec.decode(codec.encode(orders), cast(Any, many)) == orders
    by_name = {"a": orders[1]}
    assert codec.decode(codec.encode(by_name), cast(Any, named)) == by_name


@given(PLAIN)
def test_plain_data_comes_back(value: Any) -> None:
    """Whatever it is, with the message's own writer and either codec."""
    message = Message("t", json=value)
    assert JSON.decode(message.body, Any) == value
    assert MSGPACK.decode(MSGPACK.encode(value), Any) == value


def test_what_has_no_json_is_refused_at_once() -> None:
    """With its kind, and as an error of the message."""
    with pytest.raises(InvalidMessage, match="a object cannot be JSON: no plain data"):
        Message("t", json=object())
    looped: list[Any] = []
    looped.append(looped)
    with pytest.raises(InvalidMessage, match="a list cannot be JSON"):
        Message("t", json=looped)
    with pytest.raises(InvalidMessage, match="a object cannot be MessagePack"):
        MSGPACK.encode(object())


def test_json_and_body_are_one_or_the_other() -> None:
    """Null is a value, too, and what was written is not changed by its maker later."""
    with pytest.raises(InvalidMessage, match="give one of body and json"):
        Message("t", b"x", json={})
    assert Message("t", json=None).body == b"null"
    value = {"a": 1}
    message = Message("t", json=value)
    value["a"] = 2
    assert message.body == b'{"a":1}'
    assert repr(message) == "Message(topic='t', body=b'{\"a\":1}')"


@pytest.mark.parametrize("kind", [*KINDS, int, list[int]])
@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"nonsense", b'{"number":"x"}', b"[" * 100_000, b'"' + b"x" * 9999]
)
def test_a_body_that_is_something_else_is_a_client_error(kind: type[Any], body: bytes) -> None:
    """Also what a hostile sender wrote; it names the message and what was wanted."""
    queue = MessageQueue("t", "broker-a", 3)
    message = ReceivedMessage(queue, body, 17, 0, 0, 0, 0, 0, 0, 0, b"", bytes(8), bytes(8))
    with pytest.raises(BadBody, match=r"the body is no .*") as caught:
        message.decode(kind)
    assert isinstance(caught.value, ClientError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.__cause__ is not None
    if body != b'{"number":"x"}':
        with pytest.raises(BadBody, match="message 17 of t, queue 3 of broker-a"):
            message.json()


class Roman:
    """Numbers as the Romans wrote them, up to three."""

    def encode(self, value: object) -> bytes:
        """Return as many strokes."""
        assert isinstance(value, int)
        return b"I" * value

    def decode(self, body: bytes, kind: type[T]) -> T:
        """Count them."""
        if body.strip(b"I"):
            raise ValueError(f"{body!r} is no number")
        return kind(len(body))  # type: ignore[call-arg]


async def test_a_codec_of_ones_own(cluster: FakeCluster) -> None:
    """It is two methods."""
    cluster.create("t", 1)
    codec: BodyCodec = Roman()
    got = await received(cluster, Message("t", codec.encode(3)))
    assert got.decode(int, codec) == 3
    got.body = b"IV"
    with pytest.raises(BadBody, match="the body is no int: b'IV' is no number"):
        got.decode(int, codec)
