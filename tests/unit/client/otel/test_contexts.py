"""Whose span is whose: transactions, requests, handlers, sends that are given up."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import StatusCode
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.telemetry import Service, at, links
from support.stand_ins.transacting import Answers
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    InvalidMessage,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RequestProducer,
    TransactionProducer,
)
from aerobee.client.hooks import SendContext, SendHook
from aerobee.client.otel.messages import carry
from aerobee.remoting.codes import RequestCode
from aerobee.testing import EmbeddedCluster

CLIENT = ClientSettings(rebalance_gap_ms=20)
OTHER = ClientSettings(rebalance_gap_ms=20, instance_name="other")


def consumer_of(cluster: EmbeddedCluster, topic: str, service: Service) -> PushConsumer:
    """Return a consumer that is watched and reads a topic from its beginning."""
    return PushConsumer(
        f"{topic}-g", namesrv=cluster.namesrv_addr, client=OTHER, consume_from=ConsumeFrom.FIRST,
        hooks=[service.hook],
    )  # fmt: skip


async def test_a_transaction_is_one_trace(tmp_path: Path) -> None:
    """What consumers get of a committed half message continues the trace of its send."""
    shop, store, got = Service("shop"), Service("store"), list[ReceivedMessage]()
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        producer = TransactionProducer(
            "p", namesrv=cluster.namesrv_addr, client=CLIENT, listener=Answers(), hooks=[shop.hook]
        )
        consumer = consumer_of(cluster, "t", store)
        consumer.subscribe("t", got.append)
        async with producer, consumer:
            with shop.tracer.start_as_current_span("pay"):
                async with producer.transaction(Message("t", b"paid")):
                    assert not got
            await until(lambda: store.spans("process t"), 20, what="the message to be handled")
    (pay,), (send,), (process,) = (
        shop.spans("pay"), shop.spans("send t"), store.spans("process t"),
    )  # fmt: skip
    assert len({at(span)[0] for span in (pay, send, process)}) == 1
    assert process.parent is not None and process.parent.span_id == at(send)[1]
    assert (send.attributes or {})["messaging.rocketmq.message.type"] == "transaction"
    assert links(process) == [at(send)[1]]


async def test_a_request_and_its_reply_are_one_trace(tmp_path: Path) -> None:
    """The replier's work is within it, and the reply says by which span it was sent."""
    asks, answers = Service("asks"), Service("answers")
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        address = cluster.namesrv_addr
        asking = RequestProducer("a", namesrv=address, client=CLIENT, hooks=[asks.hook])
        answering = RequestProducer("b", namesrv=address, client=OTHER, hooks=[answers.hook])
        consumer = consumer_of(cluster, "t", answers)

        async def handle(message: ReceivedMessage) -> None:
            await answering.reply(message, b"yes")

        consumer.subscribe("t", handle)
        async with asking, answering, consumer:
            with asks.tracer.start_as_current_span("ask") as ask:
                reply = await asking.request(Message("t", b"?"), timeout_ms=20_000)
            await until(lambda: answers.spans("process t"), what="the handler to end")
    (request,), (process,) = asks.spans("send t"), answers.spans("process t")
    (answer,) = answers.spans("send DefaultCluster_REPLY_TOPIC")
    traces = {at(span)[0] for span in (request, process, answer)}
    assert traces == {ask.get_span_context().trace_id}
    parents = [span.parent and span.parent.span_id for span in (process, answer)]
    assert parents == [at(request)[1], at(process)[1]]
    assert reply.properties["traceparent"].split("-")[2] == f"{at(answer)[1]:016x}"


@pytest.mark.parametrize("options", [{}, {"batch": 4}], ids=["one", "batch"])
async def test_handlers_are_not_of_what_has_started_the_consumer(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """A message without a context begins a trace of its own, without anybody's baggage."""
    service, seen = Service("s"), list[tuple[Any, int]]()

    async def handle(_: Any) -> None:
        seen.append(
            (baggage.get_baggage("of"), trace.get_current_span().get_span_context().span_id)
        )

    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        consumer = consumer_of(cluster, "t", service)
        consumer.subscribe("t", handle, **options)
        token = context.attach(baggage.set_baggage("of", "the start"))
        with service.tracer.start_as_current_span("start") as start:
            await consumer.start()
        context.detach(token)
        async with Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT) as producer:
            await producer.send(Message("t", b"x"))
            await until(lambda: service.spans("process t"), 20, what="the message to be handled")
        await consumer.close()
    (process,) = service.spans("process t")
    assert process.parent is None and at(process)[0] != start.get_span_context().trace_id
    assert seen == [(None, at(process)[1])]


def test_only_a_context_keeps_a_context_away() -> None:
    """A word of the program's own does not; what looks like a context is not written over."""
    span = Service("s").tracer.start_span("x")
    token = context.attach(baggage.set_baggage("customer", "c-7"))
    within = trace.set_span_in_context(span)
    context.detach(token)
    own = carry(Message("t", b"x", properties={"baggage": "two suitcases"}), within).properties
    assert own["baggage"] == "two suitcases" and "traceparent" in own
    assert carry(Message("t", b"x"), within).properties["baggage"] == "customer=c-7"
    for name, value in (("traceparent", "damaged"), ("tracestate", "a=b")):
        message = Message("t", b"x", properties={name: value})
        carried = carry(message, within).properties
        assert carried[name] == value
        assert name == "tracestate" or carry(message, within) is message


class Refuses(SendHook):
    """A hook that wants no message to be sent."""

    def before(self, context: SendContext) -> None:
        """Say so."""
        raise ValueError("not this one")

    def after(self, context: SendContext) -> None:
        """Hear nothing of what it has not let through."""
        raise AssertionError("it had not begun")


class Spoils(SendHook):
    """A hook that makes of a message what cannot be sent."""

    def before(self, context: SendContext) -> None:
        """Give it a property that has no value."""
        context.messages[0] = Message("t", b"x", properties={"a": ""})


async def test_a_send_that_is_given_up_ends_its_span(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Once: nobody waits for it any more, or another hook refuses the message, or spoils it."""
    cluster.create("t", 1)
    for broker in cluster.brokers:
        broker.script[RequestCode.SEND_MESSAGE_V2].append(lambda *_: None)
    service = Service("s")
    hooks = [service.hook]
    async with Producer("p", namesrv=cluster.namesrv, hooks=hooks) as producer:
        sending = asyncio.create_task(producer.send(Message("t", b"x")))
        await until(
            lambda: any(each.requests(RequestCode.SEND_MESSAGE_V2) for each in cluster.brokers)
        )
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    (cancelled,) = service.spans("send t")
    async with Producer("p", namesrv=cluster.namesrv, hooks=[*hooks, Refuses()]) as producer:
        for send in (producer.send, producer.send_oneway):
            with pytest.raises(ValueError, match="not this one"):
                await send(Message("t", b"x"))
    async with Producer("p", namesrv=cluster.namesrv, hooks=[*hooks, Spoils()]) as producer:
        for send in (producer.send, producer.send_oneway):
            with pytest.raises(InvalidMessage):
                await send(Message("t", b"x"))
    assert not caplog.records
    spans = service.spans("send t")
    assert [(span.attributes or {})["error.type"] for span in spans] == [
        "asyncio.exceptions.CancelledError", "builtins.ValueError", "builtins.ValueError",
        "aerobee.client.errors.InvalidMessage", "aerobee.client.errors.InvalidMessage",
    ]  # fmt: skip
    assert spans[0] is cancelled
    assert {span.status.status_code for span in spans} == {StatusCode.ERROR}
