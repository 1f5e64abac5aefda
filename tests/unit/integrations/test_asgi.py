"""Clients of a web application start before the first request, and close after the last one."""

import asyncio
from pathlib import Path

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
from aerobee.integrations.asgi import lifespan
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
