"""The adapters on each server: what they promise holds on RocketMQ's as it does on ours."""

import asyncio
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from faststream import FastStream
from prometheus_client import CollectorRegistry
from sqlalchemy import Column, MetaData, Table, Text, create_engine, insert, select
from sqlalchemy.orm import Session, sessionmaker
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.rocketmq_server import RocketMQ
from support.waiting import until
from taskiq import InMemoryBroker
from taskiq.api import run_receiver_task

from aerobee.admin import AdminClient
from aerobee.client import (
    ConsumeFrom,
    ConsumeResult,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.integrations.asgi import health, lifespan
from aerobee.integrations.faststream import AerobeeBroker, AerobeeResponse, annotations
from aerobee.integrations.prometheus import ClientMetrics
from aerobee.integrations.sqlalchemy import Inbox, Outbox, OutboxProducer, OutboxRelay
from aerobee.integrations.taskiq import AerobeeBroker as TaskBroker

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(180)]

FIRST = ConsumeFrom.FIRST
QUICK = {"messageDelayLevel": " ".join(["1s"] * 18)}
"""What fails comes again after a second."""
SECONDS_MAX = 60


@pytest.fixture(scope="module", params=[Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
def namesrv(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The nameserver of a cluster with one broker."""
    kind: type[Cluster] = request.param
    with kind(tmp_path_factory.mktemp("adapters"), settings=QUICK) as cluster:
        yield cluster.namesrv


async def create(namesrv: str, *topics: str) -> None:
    """Make topics, of two queues each."""
    async with AdminClient(namesrv) as admin:
        for topic in topics:
            await admin.create_topic(topic, queues=2)


async def test_faststream_handles_answers_and_tries_again(namesrv: str) -> None:
    """Tags and headers arrive, a handler's result is published, a request is answered."""
    await create(namesrv, "fast", "faster", "asked")
    broker = AerobeeBroker(namesrv, group="fast-group")
    told: list[str] = []
    app = FastStream(broker)

    @app.after_startup
    async def begin() -> None:
        await broker.publish(1, "fast", tags="a")
        reply = await broker.request("word", "asked", timeout=SECONDS_MAX, correlation_id="c")
        told.append(f"{await reply.decode()} {reply.headers['h']} {reply.correlation_id}")

    @broker.publisher("faster", tags="b", key="one")
    @broker.subscriber("fast", tags="a", consume_from=FIRST)
    async def first(number: int, message: annotations.AerobeeMessage) -> int:
        if message.raw_message.reconsume_times == 0:
            raise ValueError("not yet")
        return number + 1

    @broker.subscriber("faster", consume_from=FIRST)
    async def second(number: int, message: annotations.AerobeeMessage) -> None:
        told.append(f"{number} {message.raw_message.tags}")
        app.exit()

    @broker.subscriber("asked", consume_from=FIRST)
    async def answer(word: str) -> AerobeeResponse:
        return AerobeeResponse({"word": word}, headers={"h": "1"})

    await asyncio.wait_for(app.run(), 2 * SECONDS_MAX)
    assert sorted(told) == ["2 b", "{'word': 'word'} 1 c"]  # two ways, of which either may be first


async def test_taskiq_runs_tasks_at_their_time(namesrv: str) -> None:
    """One that waited for a worker, one with a delay, one at a moment; each once, with results."""
    await create(namesrv, "taskiq")
    broker = TaskBroker(namesrv).with_result_backend(InMemoryBroker().result_backend)
    ran: dict[str, float] = {}

    @broker.task
    async def greet(name: str) -> str:
        ran[name] = time.time()
        return f"hello {name}"

    broker.is_worker_process = True
    await broker.startup()
    early = await greet.kiq("Ann")
    receiving = asyncio.create_task(run_receiver_task(broker))
    try:
        result = await early.wait_result(timeout=SECONDS_MAX)
        assert result.return_value == "hello Ann"
        began, moment = time.time(), datetime.now(UTC) + timedelta(seconds=2)
        late = await greet.kicker().with_labels(delay=2).kiq("Bob")
        at = await greet.kicker().with_labels(eta=moment.isoformat()).kiq("Eve")
        await late.wait_result(timeout=SECONDS_MAX)
        await at.wait_result(timeout=SECONDS_MAX)
    finally:
        receiving.cancel()
        await asyncio.wait([receiving])
        del receiving
        await broker.shutdown()
    assert ran["Bob"] >= began + 1.9 and ran["Eve"] >= moment.timestamp() - 1, ran


async def test_an_outbox_and_an_inbox_have_effects_once(namesrv: str, tmp_path: Path) -> None:
    """What is committed is sent, with its id, time and order; what comes again is passed over."""
    await create(namesrv, "bills")
    metadata = MetaData()
    bills = Table("bills", metadata, Column("number", Text, nullable=False))
    engine = create_engine(f"sqlite:///{tmp_path}/effects.db")
    outbox, inbox = Outbox(metadata), Inbox("billing", metadata)
    metadata.create_all(engine)
    handled: list[str] = []

    @inbox.once(sessionmaker(engine))
    def bill(session: Session, message: ReceivedMessage) -> None:
        session.execute(insert(bills).values(number=message.body.decode()))

    async def handle(message: ReceivedMessage) -> ConsumeResult:
        await asyncio.to_thread(bill, message)
        handled.append(message.message_id)
        again = message.body == b"0" and message.reconsume_times == 0
        return ConsumeResult.LATER if again else ConsumeResult.SUCCESS

    consumer = PushConsumer("billing", namesrv=namesrv, consume_from=FIRST)
    consumer.subscribe("bills", handle)
    producer = OutboxProducer("relays", namesrv=namesrv)
    async with consumer, OutboxRelay(outbox, engine, producer) as relay:
        with engine.begin() as connection:
            ids = [outbox.add(connection, Message("bills", b"%d" % at), key="k") for at in range(3)]
            soon = datetime.now(UTC) + timedelta(seconds=2)
            ids.append(outbox.add(connection, Message("bills", b"late"), deliver_at=soon))
        relay.notify()
        await until(lambda: len(handled) == 5, SECONDS_MAX)
    assert sorted(handled) == sorted([*ids, ids[0]])
    with engine.connect() as connection:
        assert sorted(connection.execute(select(bills.c.number)).scalars()) == [
            *("0", "1", "2"),
            "late",
        ]
        assert connection.execute(select(outbox.table)).first() is None
    engine.dispose()


async def test_prometheus_counts_what_clients_do(namesrv: str) -> None:
    """Sends, handlers, what failed; and what the consumer holds."""
    await create(namesrv, "counted")
    registry = CollectorRegistry()
    metrics = ClientMetrics(registry)
    handled: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        handled.append(message.body)
        if message.reconsume_times == 0 and message.body == b"bad":
            raise ValueError("as it is")

    consumer = PushConsumer("counters", namesrv=namesrv, consume_from=FIRST, hooks=[metrics])
    consumer.subscribe("counted", handle)
    metrics.watch(consumer)
    async with Producer(namesrv=namesrv, hooks=[metrics]) as producer, consumer:
        await producer.send(Message("counted", b"good"))
        await producer.send(Message("counted", b"bad"))
        await until(lambda: len(handled) == 3, SECONDS_MAX)
        await until(lambda: consumer.statistics().handlers.succeeded == 2, SECONDS_MAX)
    sent = {"producer_group": "DEFAULT_PRODUCER", "topic": "counted"}
    failed = {"consumer_group": "counters", "topic": "counted", "outcome": "exception"}
    value = registry.get_sample_value
    assert value("aerobee_client_messages_sent_total", sent) == 2
    assert value("aerobee_client_messages_handled_total", failed) == 1


def test_a_web_application_serves(namesrv: str) -> None:
    """Its clients live as long as it does, and its health is told."""
    handled: list[bytes] = []
    asyncio.run(create(namesrv, "web"))
    producer = Producer(namesrv=namesrv)
    consumer = PushConsumer("web-group", namesrv=namesrv, consume_from=FIRST)

    async def handle(message: ReceivedMessage) -> None:
        handled.append(message.body)

    async def order(request: Request) -> PlainTextResponse:
        sent = await producer.send(Message("web", await request.body()))
        await until(lambda: handled, SECONDS_MAX)
        return PlainTextResponse(sent.message_id)

    consumer.subscribe("web", handle)
    routes = [
        Route("/", order, methods=["POST"]),
        Mount("/health", health(producer, consumer)),
    ]
    app = Starlette(routes=routes, lifespan=lifespan(producer, consumer))
    with TestClient(app) as client:
        assert client.post("/", content=b"1").status_code == 200
        answer = client.get("/health/")
        assert answer.status_code == 200, answer.text
    assert handled == [b"1"]


PROJECT = """
import sys
import django
from django.conf import settings
from django.core.management import call_command
from django.db import transaction

settings.configure(
    INSTALLED_APPS=["aerobee.integrations.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[2]}},
    AEROBEE={"NAMESRV": sys.argv[1]},
)
django.setup()

from aerobee.client.sync import Message
from aerobee.integrations.django import consumes, producer, send_on_commit

@consumes("shop", group="django-group", tags="new")
def handle(message):
    print(message.body.decode(), message.tags, flush=True)

with transaction.atomic():
    send_on_commit(Message("shop", b"committed", tags="new"), key="k")
try:
    with transaction.atomic():
        send_on_commit(Message("shop", b"undone", tags="new"), key="k")
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
producer().close()
call_command("consume", "django-group")
"""


def test_a_django_project_sends_and_consumes(namesrv: str, tmp_path: Path) -> None:
    """What its transactions commit; `manage.py consume` ends at SIGTERM, with all committed."""
    asyncio.run(create(namesrv, "shop"))
    (tmp_path / "project.py").write_text(textwrap.dedent(PROJECT))
    consuming = subprocess.Popen(
        [sys.executable, "project.py", namesrv, "project.db"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert consuming.stdout is not None
        said = [consuming.stdout.readline() for _ in range(2)]
        assert said == ["consuming for django-group\n", "committed new\n"]
        consuming.send_signal(signal.SIGTERM)
        rest, _ = consuming.communicate(timeout=SECONDS_MAX)
        assert consuming.returncode == 0 and rest == "all that was handled is committed\n"
    finally:
        if consuming.poll() is None:
            consuming.kill()
        consuming.wait()
