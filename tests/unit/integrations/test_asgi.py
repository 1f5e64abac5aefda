"""Clients of a web application start before the first request, and close after the last one."""

import asyncio
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from aerobee.client import (
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.client.errors import InvalidUse
from aerobee.client.sync import Producer as SyncProducer
from aerobee.integrations.asgi import health, lifespan
from aerobee.testing import ClusterThread


def test_clients_live_as_long_as_the_application(tmp_path: Path) -> None:
    """What a request sends is handled, by handlers that may send while the application stops."""
    handled: list[bytes] = []
    with ClusterThread(root=tmp_path) as cluster:
        producer = Producer(namesrv=cluster.namesrv_addr)
        consumer = PushConsumer("g", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST)

        async def handle(message: ReceivedMessage) -> None:
            handled.append(message.body)
            seen.set()
            await leaves.wait()
            await producer.send(Message("done", message.body))
            handled.append(b"sent")

        async def order(request: Request) -> PlainTextResponse:
            sent = await producer.send(Message("orders", await request.body()))
            await seen.wait()
            asyncio.get_running_loop().call_later(0.05, leaves.set)
            return PlainTextResponse(sent.message_id)

        seen, leaves = asyncio.Event(), asyncio.Event()
        consumer.subscribe("orders", handle)
        app = Starlette(
            routes=[Route("/", order, methods=["POST"])], lifespan=lifespan(producer, consumer)
        )
        cluster.create_topic("orders", 1)
        with TestClient(app) as client:
            assert client.post("/", content=b"1").status_code == 200
        assert handled == [b"1", b"sent"]


async def test_who_does_not_start_stops_the_start(tmp_path: Path) -> None:
    """Those that had started are closed again."""

    class Broken:
        async def __aenter__(self) -> None:
            raise InvalidUse("not today")

        async def __aexit__(self, *failure: object) -> None:
            raise AssertionError("it was never entered")

    producer = Producer(namesrv="127.0.0.1:1")
    with pytest.raises(InvalidUse, match="not today"):
        async with lifespan(producer, Broken())(None):
            raise AssertionError("no request before the start")
    with pytest.raises(InvalidUse, match="is closed"):
        await producer.send(Message("orders", b"x"))


@pytest.mark.parametrize("queues", [-1, 1.5, "1", True, None, float("nan")])
def test_queues_are_counted_by_whole_numbers(queues: Any) -> None:
    """What is none is refused by name, before anything is mounted."""
    with pytest.raises(InvalidUse, match="queues_min"):
        health(Producer(namesrv="127.0.0.1:1"), queues_min=queues)


def test_health_says_what_fails(tmp_path: Path) -> None:
    """200 while all is well; before the start, and when the cluster is gone, 503 and why."""
    with ClusterThread(root=tmp_path) as cluster:
        cluster.create_topic("orders", 2)
        producer = Producer("p", namesrv=cluster.namesrv_addr)
        consumer = PushConsumer("g", namesrv=cluster.namesrv_addr)
        consumer.subscribe("orders", lambda message: None)
        app = Starlette(lifespan=lifespan(producer, consumer))
        app.mount("/health", health(producer, consumer))
        app.mount("/strict", health(consumer, queues_min=3))
        client = TestClient(app)
        answer = client.get("/health/")
        assert answer.status_code == 503
        assert answer.json()["clients"][0] == {
            "client": "Producer p",
            "trouble": ["it is not started"],
        }
        with client:
            wait_for(lambda: client.get("/health/").json()["clients"][1]["queues"] == 2)
            answer = client.get("/health/")
            assert answer.status_code == 200 and answer.json()["status"] == "ok"
            assert client.get("/strict/").json()["clients"][0]["trouble"] == [
                "it holds 2 queues, fewer than 3"
            ]
            head = client.head("/health/")
            assert head.status_code == 200 and not head.content
            assert client.post("/health/").status_code == 405
            cluster.stop()
            wait_for(lambda: client.get("/health/").status_code == 503)
            troubles = client.get("/health/").json()["clients"][1]["trouble"]
            assert any("connection to broker-a" in each for each in troubles)
        assert client.get("/health/").json()["clients"][0]["trouble"] == ["it is closed"]


def test_health_tells_of_clients_without_await(tmp_path: Path) -> None:
    """They are asked in a thread, for they wait."""
    with ClusterThread(root=tmp_path) as cluster:
        producer = SyncProducer("p", namesrv=cluster.namesrv_addr)
        app = Starlette()
        app.mount("/health", health(producer))
        with TestClient(app) as client:
            assert client.get("/health/").status_code == 503
            with producer:
                assert client.get("/health/").json()["clients"] == [
                    {"client": "Producer p", "trouble": []}
                ]


async def test_health_is_of_clients_and_over_http() -> None:
    """Anything else is a mistake in the program."""
    with pytest.raises(ValueError, match="needs a client"):
        health()
    endpoint = health(Producer(namesrv="127.0.0.1:1"))
    events: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    with pytest.raises(RuntimeError, match="websocket"):
        await endpoint({"type": "websocket"}, events.get, events.put)


def wait_for(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Ask again until it is so."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
