"""Handlers of FastStream with models, dependencies and middlewares, without a cluster."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from faststream import BaseMiddleware, Context, Depends
from faststream.exceptions import SetupError, SubscriberNotFound
from faststream.message import AckStatus
from faststream.specification import AsyncAPI
from pydantic import BaseModel, ValidationError

from aerobee.client import InvalidMessage
from aerobee.integrations.faststream import (
    AerobeeBroker,
    AerobeeMessage,
    AerobeeResponse,
    AerobeeRoute,
    AerobeeRoutePublisher,
    AerobeeRouter,
    TestAerobeeBroker,
    annotations,
)


class Order(BaseModel):
    """What is ordered."""

    number: int


class Bill(BaseModel):
    """What it costs."""

    number: int
    cents: int


async def test_a_handler_gets_a_model_and_what_it_depends_on() -> None:
    """And what it returns is published, with the publisher's tag and headers."""
    broker = AerobeeBroker(group="g")
    bills = broker.publisher("bills", tags="new", headers={"by": "me"})

    @bills
    @broker.subscriber("orders", tags="new || old")
    async def bill(
        order: Order,
        message: annotations.AerobeeMessage,
        cents: Annotated[int, Depends(lambda: 700)],
        named: Annotated[str, Context("message.raw_message.tags")],
    ) -> Bill:
        assert isinstance(message, AerobeeMessage) and named == "new"
        assert message.raw_message.keys == ["k1", "k2"]
        return Bill(number=order.number, cents=cents)

    @broker.subscriber("bills", group="others", tags="new")
    async def read(body: Bill, message: annotations.AerobeeMessage) -> None:
        assert message.raw_message.tags == "new" and message.headers["by"] == "me"

    async with TestAerobeeBroker(broker) as tested:
        await tested.publish(Order(number=7), "orders", tags="new", keys=["k1", "k2"])
        bill.mock.assert_called_once_with({"number": 7})
        bills.mock.assert_called_once_with({"number": 7, "cents": 700})
        await read.assert_called_once_with(Bill(number=7, cents=700), headers={"by": "me"})
        await tested.publish({"number": 8}, "orders", tags="neither")
        assert bill.mock.call_count == 1
        with pytest.raises(ValidationError):
            await tested.publish({"number": "seven"}, "orders", tags="old")
        with pytest.raises(InvalidMessage):
            await tested.publish(b"", "orders", tags="old")


async def test_nothing_is_something() -> None:
    """None and an empty text arrive as they were sent: no broker takes an empty body."""
    broker = AerobeeBroker(group="g")
    got: list[Any] = []

    @broker.publisher("answers")
    @broker.subscriber("t")
    async def handle(body: Any) -> None:
        got.append(body)

    async with TestAerobeeBroker(broker) as tested:
        for body in (None, "", "text", b"bytes", 7, [1], {"a": None}):
            await tested.publish(body, "t")
    assert got == [None, "", "text", b"bytes", 7, [1], {"a": None}]


async def test_middlewares_see_what_is_consumed_and_published() -> None:
    """With the client's message, and with the command that is published."""
    seen: list[str] = []

    class Watch(BaseMiddleware):
        async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: Any) -> Any:
            assert self.msg is not None
            seen.append(f"consume {self.msg.topic}")
            return await call_next(msg)

        async def publish_scope(self, call_next: Callable[[Any], Awaitable[Any]], cmd: Any) -> Any:
            seen.append(f"publish {cmd.destination}")
            cmd.headers["by"] = "middleware"
            return await call_next(cmd)

    broker = AerobeeBroker(group="g", middlewares=[Watch])

    @broker.subscriber("t")
    async def handle(body: str, by: Annotated[str, Context("message.headers.by")]) -> str:
        return by

    async with TestAerobeeBroker(broker) as tested:
        await tested.publish("x", "t")
        answer = await tested.request("x", "t")
        assert await answer.decode() == "middleware"
    assert seen[:2] == ["publish t", "consume t"]


async def test_routers_have_prefixes_and_routes() -> None:
    """Topics are behind the prefix, for subscribers as for publishers."""
    out: list[int] = []

    def double(number: int) -> int:
        return number * 2

    async def keep(number: int) -> None:
        out.append(number)

    route = AerobeeRoute(double, "in", group="g", publishers=[AerobeeRoutePublisher("out")])
    broker = AerobeeBroker(routers=[AerobeeRouter("eu-", [route])])
    broker.subscriber("eu-out", group="h")(keep)
    async with TestAerobeeBroker(broker) as tested:
        await tested.publish(21, "eu-in")
        with pytest.raises(SubscriberNotFound):
            await tested.request(21, "in")
    assert out == [42]
    with pytest.raises(TypeError, match="takes no colour"):
        AerobeeRouter(colour="red")
    with pytest.raises(TypeError, match="no AerobeeRouter"):
        broker.include_router(object())


async def test_batches_are_lists() -> None:
    """Up to so many bodies, and no answers."""
    broker = AerobeeBroker(group="g")
    got: list[list[int]] = []

    @broker.subscriber("t", batch=2)
    async def handle(numbers: list[int], message: annotations.AerobeeBatchMessage) -> None:
        assert [each["n"] for each in message.batch_headers] == ["1"] * len(numbers)
        got.append(numbers)

    async with TestAerobeeBroker(broker) as tested:
        await tested.publish_batch(1, 2, 3, topic="t", headers={"n": "1"})
    assert got == [[1, 2], [3]]


async def test_what_makes_no_batch_is_refused_as_by_a_cluster() -> None:
    """A batch without messages, which a program may come to by a query that found nothing."""
    async with TestAerobeeBroker(AerobeeBroker(group="g")) as tested:
        with pytest.raises(InvalidMessage, match="at least one message"):
            await tested.publish_batch(topic="t")
        with pytest.raises(InvalidMessage, match="the batch has 4194"):
            await tested.publish_batch(*[b"x" * (1 << 20)] * 4, topic="t")


async def test_an_answer_may_say_how_it_is_sent() -> None:
    """What a response says goes before what its publisher says."""
    broker = AerobeeBroker(group="g")

    @broker.publisher("out", tags="theirs", keys="k")
    @broker.subscriber("in")
    async def handle(body: str) -> AerobeeResponse:
        return AerobeeResponse(body, headers={"h": "1"}, tags="mine")

    @broker.subscriber("out")
    async def read(body: str, message: annotations.AerobeeMessage) -> None:
        assert (message.raw_message.tags, message.raw_message.keys) == ("mine", ["k"])

    async with TestAerobeeBroker(broker) as tested:
        await tested.publish("x", "in", correlation_id="c")
        await read.assert_called_once_with("x", headers={"h": "1"}, correlation_id="c")


async def test_the_first_word_on_a_message_counts() -> None:
    """Handlers may speak for themselves; FastStream's own acknowledgement is too late then."""
    broker = AerobeeBroker(group="g")
    said: list[AckStatus | None] = []

    @broker.subscriber("t")
    async def handle(word: str, message: annotations.AerobeeMessage) -> None:
        await getattr(message, word)()
        await message.ack()
        said.append(message.committed)

    async with TestAerobeeBroker(broker) as tested:
        for word in ("ack", "nack", "reject"):
            await tested.publish(word, "t")
    assert said == [AckStatus.ACKED, AckStatus.NACKED, AckStatus.REJECTED]


async def test_classes_are_no_annotations() -> None:
    """Who writes the class is told what to write."""
    broker = AerobeeBroker(group="g")

    @broker.subscriber("t")
    async def handle(body: str, message: AerobeeMessage) -> None: ...

    with pytest.raises(SetupError, match=r"faststream\.annotations import AerobeeMessage"):
        async with TestAerobeeBroker(broker):
            raise AssertionError("it started")


def test_documents_show_topics_and_payloads() -> None:
    """AsyncAPI, of both major versions."""
    broker = AerobeeBroker("ns1:9876;ns2:9876", group="g", description="all of it")

    @broker.publisher("bills", schema=Bill, title="Bills")
    @broker.subscriber("orders", description="what is ordered")
    async def bill(order: Order) -> Bill:
        return Bill(number=order.number, cents=1)

    for version in ("3.0.0", "2.6.0"):
        shown = AsyncAPI(broker, schema_version=version).to_specification().to_jsonable()
        assert "orders:Bill" in shown["channels"] and "Bills" in shown["channels"]
        assert set(shown["components"]["schemas"]) >= {"Order", "Bill"}
        server = next(iter(shown["servers"].values()))
        assert server["protocol"] == "rocketmq"
