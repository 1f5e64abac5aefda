"""Every client of a process is seen, without a word of telemetry where it is made."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.instrumentation.utils import suppress_instrumentation
from support.stand_ins.telemetry import Service, at, links
from support.waiting import until

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    read_traces,
)
from aerobee.client.otel import AerobeeInstrumentor
from aerobee.testing import ClusterThread, EmbeddedCluster

CLIENT = ClientSettings(rebalance_gap_ms=20)

APP = """
import asyncio, json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer

exporter, provider, handled = InMemorySpanExporter(), TracerProvider(), asyncio.Event()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

async def main():
    consumer = PushConsumer("c", consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("t", lambda message: handled.set())
    async with Producer("p") as producer, consumer:
        await producer.send(Message("t", b"x"))
        await asyncio.wait_for(handled.wait(), 20)

asyncio.run(main())
print(json.dumps([
    [span.name, f"{span.context.trace_id:x}", span.attributes["messaging.client.id"]]
    for span in exporter.get_finished_spans()
]))
"""


@pytest.fixture
def instrumentor() -> Iterator[AerobeeInstrumentor]:
    """Give the process's instrumentor, and switch it off behind the test."""
    made = AerobeeInstrumentor()
    yield made
    if made.is_instrumented_by_opentelemetry:
        made.uninstrument()


def instrument(instrumentor: AerobeeInstrumentor, service: Service) -> None:
    """Have a service see all clients."""
    instrumentor.instrument(tracer_provider=service.tracers, meter_provider=service.meters)


def instrumented(
    app: Path, cluster: ClusterThread, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a program by OpenTelemetry's command."""
    command = Path(sys.executable).with_name("opentelemetry-instrument")
    return subprocess.run(
        [command, sys.executable, app],
        env={**os.environ, "NAMESRV_ADDR": cluster.namesrv_addr, **environment},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip


def test_a_program_is_traced_without_a_changed_line(
    rocketmq: ClusterThread, tmp_path: Path
) -> None:
    """By the command, unless the environment leaves us out."""
    rocketmq.create_topic("t", 1)
    app = tmp_path / "app.py"
    app.write_text(APP)
    spans = json.loads(instrumented(app, rocketmq).stdout)
    assert sorted(name for name, *_ in spans) == ["process t", "send t"]
    assert len({trace for _, trace, _ in spans}) == 1
    assert all("@" in client_id for *_, client_id in spans)
    without = instrumented(app, rocketmq, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="aerobee")
    assert json.loads(without.stdout) == []


def test_the_command_finds_the_instrumentor() -> None:
    """Under our name, which is the word that leaves it out."""
    (found,) = metadata.entry_points(group="opentelemetry_instrumentor", name="aerobee")
    assert found.load() is AerobeeInstrumentor


async def test_clients_are_seen_while_it_is_switched_on(
    tmp_path: Path, instrumentor: AerobeeInstrumentor
) -> None:
    """From the start of a client on; off and on again, by other providers, while it runs."""
    first, second = Service("first"), Service("second")
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        made_before = Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT)
        consumer = LitePullConsumer(
            "c", namesrv=cluster.namesrv_addr, client=CLIENT, consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe("t")
        instrument(instrumentor, first)
        async with made_before as producer, consumer:
            sent = await producer.send(Message("t", b"1"))
            (got,) = await consumer.poll(20_000)
            instrumentor.uninstrument()
            await producer.send(Message("t", b"2"))
            assert "traceparent" not in (await consumer.poll(20_000))[0].properties
            instrument(instrumentor, second)
            with suppress_instrumentation():
                await producer.send(Message("t", b"3"))
            await producer.send(Message("t", b"4"))
        instrumentor.uninstrument()
        async with Producer("q", namesrv=cluster.namesrv_addr, client=CLIENT) as unseen:
            await unseen.send(Message("t", b"5"))
    (send,), (receive,), (again,) = (
        first.spans("send t"), first.spans("receive t"), second.spans("send t"),
    )  # fmt: skip
    assert (send.attributes or {})["messaging.message.id"] == sent.message_id == got.message_id
    assert links(receive) == [at(send)[1]]
    assert (again.attributes or {})["messaging.message.body.size"] == 1
    (point,) = first.points("messaging.client.sent.messages")
    assert point.value == 1


async def test_a_client_is_seen_once(tmp_path: Path, instrumentor: AerobeeInstrumentor) -> None:
    """One that has a hook of its own keeps to it, one that starts again is no two."""
    own, everybody = Service("own"), Service("everybody")
    instrument(instrumentor, everybody)
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        hooks = [own.hook]
        async with Producer("p", namesrv=cluster.namesrv_addr, client=CLIENT, hooks=hooks) as mine:
            await mine.send(Message("t", b"x"))
        assert len(own.spans("send t")) == 1 and not everybody.spans("send t")
        again = Producer("q", namesrv=cluster.namesrv_addr, client=CLIENT)
        for number in (1, 2):
            async with again:
                await again.send(Message("t", b"x"))
            assert len(everybody.spans("send t")) == number


async def test_message_traces_are_not_traced(
    tmp_path: Path, instrumentor: AerobeeInstrumentor
) -> None:
    """Both may be on: what RocketMQ's traces are sent by is no client of the program's."""
    service, handled = Service("s"), list[Any]()
    instrument(instrumentor, service)
    client = ClientSettings(rebalance_gap_ms=20, enable_trace=True)
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("t", 1)
        consumer = PushConsumer(
            "c", namesrv=cluster.namesrv_addr, client=client, consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe("t", handled.append)
        async with Producer("p", namesrv=cluster.namesrv_addr, client=client) as producer, consumer:
            sent = await producer.send(Message("t", b"x"))
            await until(lambda: handled, 20, what="the message to be handled")
        instrumentor.uninstrument()
        found = await read_traces(cluster.namesrv_addr, sent.message_id)
    assert found.sent and found.handled
    names = {span.name for span in service.exporter.get_finished_spans()}
    assert names == {"send t", "process t"}


def test_the_hook_alone_needs_no_instrumentor() -> None:
    """Who passes a hook does not wait for what the instrumentor is derived from."""
    code = (
        "import sys; from aerobee.client.otel import OpenTelemetryHook;"
        "print([m for m in sys.modules if m.startswith('opentelemetry.instrumentation')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
