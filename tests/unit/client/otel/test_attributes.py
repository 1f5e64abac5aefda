"""What spans say: who, how, of which message, and by whose names."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from support.stand_ins.telemetry import Service, at, links
from support.stand_ins.transacting import Answers
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    Later,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageModel,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
    TransactionProducer,
    Unavailable,
)
from aerobee.client.otel.attributes import OPT_IN
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.testing import EmbeddedCluster

SHOP = ClientSettings(rebalance_gap_ms=20, instance_name="shop")
STORE = ClientSettings(rebalance_gap_ms=20, instance_name="store")


def said(span: Any) -> dict[str, Any]:
    """Return a span's attributes."""
    return dict(span.attributes or {})


@pytest.mark.parametrize("model", list(MessageModel))
async def test_who_sends_and_how_a_group_reads(tmp_path: Path, model: MessageModel) -> None:
    """Client ids are those that brokers know; every span of a consumer has its model."""
    service, folder = Service("s"), str(tmp_path / "offsets")
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        address, handled = cluster.namesrv_addr, list[Any]()
        producer = Producer("p", namesrv=address, client=SHOP, hooks=[service.hook])
        push = PushConsumer(
            "c", namesrv=address, client=STORE, consume_from=ConsumeFrom.FIRST, model=model,
            settings=PushSettings(offsets_folder=folder), hooks=[service.hook],
        )  # fmt: skip
        push.subscribe("t", handled.append)
        lite = LitePullConsumer(
            "l", namesrv=address, client=STORE, consume_from=ConsumeFrom.FIRST, model=model,
            settings=LitePullSettings(offsets_folder=folder), hooks=[service.hook],
        )  # fmt: skip
        lite.subscribe("t")
        async with producer, push, lite:
            await producer.send(Message("t", b"x"))
            await until(lambda: handled, 20, what="the message to be handled")
            assert await lite.poll(20_000)
            await until(lambda: service.spans("process t"), what="the span to end")
    (send,), (process,), (receive,) = map(service.spans, ("send t", "process t", "receive t"))
    ids = [said(span)["messaging.client.id"].partition("@")[2] for span in (send, process, receive)]
    assert ids == ["shop", "store", "store"]
    word = "messaging.rocketmq.consumption_model"
    assert word not in said(send)
    assert {said(process)[word], said(receive)[word]} == {model.name.lower()}


async def test_what_kind_of_message_it_is(tmp_path: Path) -> None:
    """For senders and receivers: ordered ones, those that wait, those of transactions."""
    service = Service("s")
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        address = cluster.namesrv_addr
        producer = TransactionProducer(
            "p", namesrv=address, client=SHOP, listener=Answers(), hooks=[service.hook]
        )
        consumer = PushConsumer(
            "c", namesrv=address, client=STORE, consume_from=ConsumeFrom.FIRST, hooks=[service.hook]
        )
        consumer.subscribe("t", lambda _: None)
        async with producer, consumer:
            began_ms = wall_clock_ms()
            await producer.send(Message("t", b"1", properties={"__SHARDINGKEY": "g"}))
            await producer.send(Message("t", b"22", delay_level=1))
            await producer.send(Message("t", b"333"), delay=timedelta(milliseconds=300))
            async with producer.transaction(Message("t", b"4444")):
                pass
            await until(lambda: len(service.spans("process t")) == 4, 20, what="all to be handled")
    size, kind = "messaging.message.body.size", "messaging.rocketmq.message.type"
    sent = {said(span)[size]: said(span) for span in service.spans("send t")}
    got = {said(span)[size]: said(span) for span in service.spans("process t")}
    assert [sent[each][kind] for each in (1, 2, 3, 4)] == ["fifo", "delay", "delay", "transaction"]
    assert sent[1]["messaging.rocketmq.message.group"] == "g"
    assert got[1]["messaging.rocketmq.message.group"] == "g" and got[1][kind] == "fifo"
    assert sent[2]["messaging.rocketmq.message.delay_time_level"] == 1
    due_ms = sent[3]["messaging.rocketmq.message.delivery_timestamp"]
    assert began_ms + 300 <= due_ms <= wall_clock_ms() + 300
    assert got[4][kind] == "transaction"


async def test_the_end_of_a_transaction_is_a_span(tmp_path: Path) -> None:
    """Within the span of its program: commit, or rollback; each names the message."""
    service = Service("s")
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        producer = TransactionProducer(
            "p", namesrv=cluster.namesrv_addr, client=SHOP, listener=Answers(), hooks=[service.hook]
        )
        async with producer:
            with service.tracer.start_as_current_span("pay") as pay:
                async with producer.transaction(Message("t", b"paid")):
                    pass
                with pytest.raises(KeyError):
                    async with producer.transaction(Message("t", b"not paid")):
                        raise KeyError
        host, port = cluster.broker_addrs[0].split(":")
    sends = service.spans("send t")
    for span, send, name in zip(
        (*service.spans("commit t"), *service.spans("rollback t")),
        sends, ("commit", "rollback"), strict=True,
    ):  # fmt: skip
        assert span.kind is SpanKind.CLIENT
        assert span.parent is not None and span.parent.span_id == pay.get_span_context().span_id
        told = said(span)
        assert told["messaging.operation.name"] == name
        assert told["messaging.operation.type"] == "settle"
        assert told["messaging.message.id"] == said(send)["messaging.message.id"]
        assert told["messaging.client.id"] == said(send)["messaging.client.id"]
        assert (told["server.address"], told["server.port"]) == (host, int(port))


async def test_what_is_given_back_is_a_span(tmp_path: Path) -> None:
    """In the trace of its message, and a duration, once for each time."""
    service, outcomes = Service("s"), list[int]()

    async def handle(message: Any) -> Later | None:
        outcomes.append(message.reconsume_times)
        return Later() if message.reconsume_times == 0 else None

    settings = {"message_delay_level": "1s 1s 1s 1s"}
    async with EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster:
        await cluster.create_topic("t", 1)
        producer = Producer("p", namesrv=cluster.namesrv_addr, client=SHOP, hooks=[service.hook])
        consumer = PushConsumer(
            "c", namesrv=cluster.namesrv_addr, client=STORE, consume_from=ConsumeFrom.FIRST,
            hooks=[service.hook],
        )  # fmt: skip
        consumer.subscribe("t", handle)
        async with producer, consumer:
            await producer.send(Message("t", b"x"))
            await until(lambda: outcomes == [0, 1], 20, what="the second time")
    (nack,), (send,) = service.spans("nack t"), service.spans("send t")
    assert at(nack)[0] == at(send)[0] and links(nack) == [at(send)[1]]
    told = said(nack)
    assert nack.kind is SpanKind.CLIENT and told["messaging.operation.type"] == "settle"
    assert told["messaging.consumer.group.name"] == "c"
    assert told["messaging.message.id"] == said(send)["messaging.message.id"]
    durations = [
        point for point in service.points("messaging.client.operation.duration")
        if point.attributes["messaging.operation.name"] == "nack"
    ]  # fmt: skip
    assert [point.count for point in durations] == [1]


async def test_offsets_that_a_program_stores_are_spans(tmp_path: Path) -> None:
    """Each is of one queue; what the broker refuses is an error, what auto-commit does is none."""
    service = Service("s")
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        address = cluster.namesrv_addr
        lite = LitePullConsumer(
            "l", namesrv=address, client=STORE, consume_from=ConsumeFrom.FIRST, hooks=[service.hook]
        )
        lite.subscribe("t")
        async with Producer("p", namesrv=address, client=SHOP) as producer, lite:
            sent = await producer.send(Message("t", b"x"))
            assert await lite.poll(20_000)
            with service.tracer.start_as_current_span("work") as work:
                await lite.commit()
        (commit,) = service.spans("commit t")
        async with PullConsumer("l", namesrv=address, client=STORE, hooks=[service.hook]) as pull:
            await pull.commit(sent.queue, 1)
            with pytest.raises(Unavailable):
                await pull.commit(MessageQueue("t", "no-such-broker", 0), 1)
    assert commit.parent is not None and commit.parent.span_id == work.get_span_context().span_id
    told = said(commit)
    assert told["messaging.destination.partition.id"] == str(sent.queue.queue_id)
    assert told["messaging.rocketmq.consumption_model"] == "clustering"
    _, plain, failed = service.spans("commit t")
    assert plain.status.is_unset and failed.status.status_code is StatusCode.ERROR
    assert said(failed)["error.type"] == "aerobee.remoting.errors.Unavailable"


@pytest.mark.parametrize(
    ("wanted", "older", "newer"),
    [("", True, False), ("http", True, False), ("http, messaging", False, True),
     ("messaging,messaging/dup", True, True)],
)  # fmt: skip
async def test_a_program_chooses_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, older: bool, newer: bool
) -> None:
    """RocketMQ's attributes with their prefix, without it, or both; the others stay."""
    monkeypatch.setenv(OPT_IN, wanted)
    service = Service("s")
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        hooks = [service.hook]
        async with Producer("p", namesrv=cluster.namesrv_addr, client=SHOP, hooks=hooks) as sends:
            await asyncio.gather(sends.send(Message("t", b"x", tags="A")))
    (send,) = service.spans("send t")
    assert said(send)["messaging.system"] == "rocketmq"
    for name in ("namespace", "message.type", "message.tag"):
        assert (f"messaging.rocketmq.{name}" in said(send)) is older
        assert (f"rocketmq.{name}" in said(send)) is newer
