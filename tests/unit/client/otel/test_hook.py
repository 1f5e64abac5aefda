"""Spans and metrics of a real send and its handling, by the SDK's in-memory exporters."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.trace import SpanKind, StatusCode
from support.stand_ins.telemetry import Service, at, links
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    Later,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendFailed,
)
from aerobee.client.otel import attributes
from aerobee.client.otel.messages import address_attributes, carry, own_message, sent_attributes
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX
from aerobee.testing import EmbeddedCluster

CLIENT = ClientSettings(rebalance_gap_ms=20, instance_name="shop")
USERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def push(cluster: EmbeddedCluster, service: Service, handle: Any, **options: Any) -> PushConsumer:
    """Return a consumer of topic "t" that is watched."""
    consumer = PushConsumer(
        "c", namesrv=cluster.namesrv_addr, client=CLIENT, consume_from=ConsumeFrom.FIRST,
        hooks=[service.hook],
    )  # fmt: skip
    consumer.subscribe("t", handle, **options)
    return consumer


async def test_one_trace_goes_through_two_services(tmp_path: Path) -> None:
    """The shop's span, its send, the handling at the store, what that does, its own send."""
    shop, store = Service("shop"), Service("store")
    seen: list[Any] = []

    async def handle(message: ReceivedMessage) -> None:
        with store.tracer.start_as_current_span("book"):
            await answering.send(Message("u", b"booked"))
        seen.append(baggage.get_baggage("customer"))

    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        addresses = cluster.namesrv_addr
        answering = Producer("q", namesrv=addresses, client=CLIENT, hooks=[store.hook])
        sending = Producer("p", namesrv=addresses, client=CLIENT, hooks=[shop.hook])
        message = Message("t", b"order", tags="A", keys="k1 k2", delay_level=0)
        async with sending, answering, push(cluster, store, handle):
            token = context.attach(baggage.set_baggage("customer", "c-7"))
            with shop.tracer.start_as_current_span("checkout"):
                result = await sending.send(message)
            context.detach(token)
            await until(lambda: seen, 20, what="the message to be handled")
            await until(lambda: store.spans("process t"), what="the span to end")
        assert message.properties == {}, "the user's message is left as it was"
        (checkout,), (send,) = shop.spans("checkout"), shop.spans("send t")
        (process,) = store.spans("process t")
        (book,) = store.spans("book")
        (again,) = store.spans("send u")
        assert len({at(span)[0] for span in (checkout, send, process, book, again)}) == 1
        parents = [span.parent and span.parent.span_id for span in (send, process, book, again)]
        assert parents == [at(checkout)[1], at(send)[1], at(process)[1], at(book)[1]]
        assert links(process) == [at(send)[1]] and seen == ["c-7"]
        kinds = [span.kind for span in (send, process, again)]
        assert kinds == [SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.PRODUCER]
        host, port = cluster.broker_addrs[0].split(":")
        assert dict(send.attributes or {}) == {
            "messaging.system": "rocketmq",
            "messaging.client.id": f"{host}@shop",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": "t",
            "messaging.destination.partition.id": "0",
            "messaging.message.id": result.message_id,
            "messaging.message.body.size": 5,
            "messaging.rocketmq.namespace": "",
            "messaging.rocketmq.message.tag": "A",
            "messaging.rocketmq.message.keys": ("k1", "k2"),
            "messaging.rocketmq.message.type": "normal",
            "server.address": host,
            "server.port": int(port),
        }
        said = process.attributes or {}
        assert said["messaging.consumer.group.name"] == "c"
        assert said["messaging.message.id"] == result.message_id
        assert [span.status.status_code for span in (send, process)] == [StatusCode.UNSET] * 2
        (sent,) = shop.points("messaging.client.sent.messages")
        (consumed,) = store.points("messaging.client.consumed.messages")
        (duration,) = store.points("messaging.process.duration")
        assert (sent.value, consumed.value, duration.count) == (1, 1, 1)
        assert "messaging.message.id" not in sent.attributes


async def test_batches_link_each_message_to_its_own_span(tmp_path: Path) -> None:
    """One send with a link for each; a handler of several, and a poll, link to each as well."""
    service, handled, polled = Service("s"), [0], list[bytes]()

    async def handle(messages: list[ReceivedMessage]) -> None:
        handled[0] += len(messages)

    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        producer = Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT, hooks=[service.hook])
        lite = LitePullConsumer(
            "l", namesrv=cluster.namesrv_addr, client=CLIENT, consume_from=ConsumeFrom.FIRST,
            hooks=[service.hook],
        )  # fmt: skip
        lite.subscribe("t")
        async with producer:
            await producer.send_many([Message("t", b"%d" % number) for number in range(3)])
            async with push(cluster, service, handle, batch=8), lite:
                await until(lambda: handled[0] == 3, 20, what="all to be handled")
                while len(polled) < 3:
                    polled += [message.body for message in await lite.poll()]
                await until(lambda: service.spans("process t"), what="the span to end")
    (send,) = service.spans("send t")
    created = [at(span)[1] for span in service.spans("create t")]
    assert send.kind is SpanKind.CLIENT and links(send) == created and len(created) == 3
    assert (send.attributes or {})["messaging.batch.message_count"] == 3
    for name, kind in (("process t", SpanKind.CONSUMER), ("receive t", SpanKind.CLIENT)):
        spans = service.spans(name)
        assert sorted(link for span in spans for link in links(span)) == sorted(created)
        assert all(span.kind is kind for span in spans)


async def test_what_goes_wrong_is_said(tmp_path: Path) -> None:
    """Each attempt of a send, a handler that raises, one that asks for the message again."""
    service, outcomes = Service("s"), Counter[int]()

    async def handle(message: ReceivedMessage) -> Later | None:
        outcomes[message.reconsume_times] += 1
        if message.reconsume_times == 0:
            raise ValueError("not yet")
        return Later() if message.reconsume_times == 1 else None

    settings = {"message_delay_level": "1s 1s 1s 1s"}
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        await cluster.create_topic("t", 1)
        producer = Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT, hooks=[service.hook])
        async with producer:
            async with push(cluster, service, handle):
                await producer.send(Message("t", b"x"))
                await until(lambda: outcomes[2], 20, what="the third time")
                await until(lambda: len(service.spans("process t")) == 3, what="the span to end")
            raised, asked, good = service.spans("process t")
            assert (raised.attributes or {})["error.type"] == "builtins.ValueError"
            assert (asked.attributes or {})["error.type"] == "failed"
            assert [event.name for event in raised.events] == ["exception"]
            assert [span.status.status_code for span in (raised, asked, good)] == [
                StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET
            ]  # fmt: skip


async def test_each_attempt_of_a_send_is_a_span(tmp_path: Path) -> None:
    """A broker that accepts nothing yet is asked three times; the last error is the caller's."""
    service = Service("s")
    settings = {"start_accept_send_request_time_stamp": 2**50}
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        await cluster.create_topic("t", 1)
        producer = Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT, hooks=[service.hook])
        async with producer:
            with pytest.raises(SendFailed):
                await producer.send(Message("t", b"x"))
    attempts = service.spans("send t")
    assert len({at(span) for span in attempts}) == len(attempts) == 3
    assert {span.status.status_code for span in attempts} == {StatusCode.ERROR}
    assert {(span.attributes or {})["error.type"] for span in attempts} == {
        "aerobee.client.errors.BrokerRefused"
    }


async def test_a_context_of_the_user_stays(tmp_path: Path) -> None:
    """It is sent as it is, and linked to; one-way sends carry one, too."""
    service, got = Service("s"), list[ReceivedMessage]()

    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        producer = Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT, hooks=[service.hook])
        consumer = PushConsumer(
            "c", namesrv=cluster.namesrv_addr, client=CLIENT, consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe("t", got.append)
        async with producer, consumer:
            await producer.send(Message("t", b"1", properties={"traceparent": USERS}))
            await producer.send_oneway(Message("t", b"2"))
            await until(lambda: len(got) == 2, 20, what="both messages")
    with_users, oneway = service.spans("send t")
    assert with_users.kind is SpanKind.CLIENT and links(with_users) == [0xB7AD6B7169203331]
    first, second = sorted(got, key=lambda message: message.body)
    assert first.properties["traceparent"] == USERS
    assert second.properties["traceparent"].split("-")[2] == f"{at(oneway)[1]:016x}"


def test_properties_that_would_be_too_long_stay_as_they_are() -> None:
    """A message that can be sent can be sent with telemetry, too."""
    tracer = Service("s").tracer
    context = trace.set_span_in_context(tracer.start_span("x"))
    full = Message("t", b"x", properties={"a": "b" * (PROPERTIES_BYTES_MAX - 60)})
    assert carry(full, context) is full
    carried = carry(Message("t", b"x", tags="A"), context)
    assert carried.tags == "A" and "traceparent" in carried.properties
    assert own_message(carried).properties == {}


@pytest.mark.parametrize(
    "digits", ["9" * 5000, "\N{ARABIC-INDIC DIGIT ONE}", "\N{SUPERSCRIPT TWO}"]
)
def test_numbers_of_others_are_believed_within_bounds(digits: str) -> None:
    """A property or an address with more digits than a number has says nothing."""
    said = sent_attributes([Message("t", b"x", properties={"TIMER_DELIVER_MS": digits})])
    assert attributes.DELIVERY_TIMESTAMP not in said
    assert address_attributes(f"h:{digits}") == {attributes.SERVER_ADDRESS: "h"}


async def test_telemetry_that_fails_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sends and handlers go on without it."""
    service, got = Service("s"), list[bytes]()

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no telemetry today")

    monkeypatch.setattr(service.hook._tracer, "start_span", broken)
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        producer = Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT, hooks=[service.hook])
        async with producer, push(cluster, service, lambda message: got.append(message.body)):
            await producer.send(Message("t", b"x"))
            await until(lambda: got == [b"x"], 20, what="the message")


async def test_contexts_of_handlers_do_not_mix(tmp_path: Path) -> None:
    """Many run at a time, in tasks and threads: each sees its own span."""
    service, wrong, done = Service("s"), list[str](), Counter[str]()

    def check(message: ReceivedMessage) -> None:
        parent = message.properties["traceparent"].split("-")[1]
        own = trace.get_current_span().get_span_context().trace_id
        done[message.body.decode()] += 1
        if f"{own:032x}" != parent:
            wrong.append(message.body.decode())

    async def handle(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.001)
        check(message)

    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 4)
        producer = Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT, hooks=[service.hook])
        threads = PushConsumer(
            "d", namesrv=cluster.namesrv_addr, client=CLIENT, consume_from=ConsumeFrom.FIRST,
            hooks=[service.hook],
        )  # fmt: skip
        threads.subscribe("t", check)
        async with producer, push(cluster, service, handle), threads:
            await asyncio.gather(*(producer.send(Message("t", b"%d" % n)) for n in range(100)))
            await until(lambda: done.total() == 200, 20, what="all of them, twice")
    assert not wrong and not trace.get_current_span().get_span_context().is_valid


def test_names_are_those_of_the_conventions() -> None:
    """The newest package that has them says the same."""
    known = {value for name, value in vars(messaging_attributes).items() if name.isupper()}
    ours = {
        value
        for name, value in vars(attributes).items()
        if name.isupper() and name[0] != "_" and str(value).startswith("messaging.")
    }
    metrics = {
        attributes.OPERATION_DURATION, attributes.PROCESS_DURATION, attributes.SENT_MESSAGES,
        attributes.CONSUMED_MESSAGES,
    }  # fmt: skip
    assert ours - metrics <= known


def test_nothing_of_it_is_imported_before_it_is_wanted() -> None:
    """A client without it works where OpenTelemetry is not installed."""
    code = "import sys, aerobee.client; print([m for m in sys.modules if 'opentelemetry' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
