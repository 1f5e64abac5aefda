"""Clients that live as long as a web application does, and how they are."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from aerobee.client import LitePullConsumer, PushConsumer
from aerobee.client.errors import whole_number

__all__ = ["Client", "Endpoint", "Troubled", "health", "lifespan"]

Client = AbstractAsyncContextManager[object]
"""Any client: it starts when it is entered, and closes when it is left."""


def lifespan(*clients: Client) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """Return a lifespan that starts clients in their order, and closes them in the other one.

        app = FastAPI(lifespan=lifespan(producer, consumer))

    Name producers first: consumers are closed before them, so that handlers that still run can
    send. Where a client does not start, those before it are closed, and the application does not
    start either.
    """

    @contextlib.asynccontextmanager
    async def live(app: object) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as open_clients:
            for client in clients:
                await open_clients.enter_async_context(client)
            yield

    return live


class Troubled(Protocol):
    """Any client, also one of `aerobee.client.sync`."""

    def trouble(self) -> list[str]:
        """Say what fails at the moment."""
        ...


Endpoint: TypeAlias = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]
"""An ASGI application: it takes scope, receive and send."""


def health(*clients: Troubled, queues_min: int = 0) -> Endpoint:
    """Return an ASGI application that says whether these clients are well: 200, or 503 and why.

        app.mount("/health", health(producer, consumer))

    Its JSON has `status`, "ok" or "failing", and for each client its `trouble()`: it is not started
    or closed, brokers or nameservers are not reached, a consumer has not got its share. Consumers
    tell how many queues they hold, which may be none where a group has more members than queues;
    with `queues_min=1` that is trouble, too. It asks the cluster nothing and answers at once, GET
    and HEAD alone. Let it decide about traffic or tell somebody, not restart the process: clients
    come back by themselves.
    """
    whole_number("queues_min", queues_min, 0)
    if not clients:
        raise ValueError("health() needs a client")

    async def answer(
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"health() answers HTTP, not {scope['type']!r}")
        method = scope.get("method", "GET")
        if method not in ("GET", "HEAD"):
            status, body, more = 405, b"", [(b"allow", b"GET, HEAD")]
        else:
            told = [await _told(client, queues_min) for client in clients]
            failing = any(each["trouble"] for each in told)
            status, more = (503 if failing else 200), [(b"cache-control", b"no-store")]
            said = {"status": "failing" if failing else "ok", "clients": told}
            body = json.dumps(said, ensure_ascii=False).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers + more})
        await send({"type": "http.response.body", "body": body if method != "HEAD" else b""})

    return answer


async def _told(client: Troubled, queues_min: int) -> dict[str, Any]:
    name = f"{type(client).__name__} {getattr(client, 'group', '')}".rstrip()
    if type(client).__module__.startswith("aerobee.client.sync"):
        return {"client": name, "trouble": await asyncio.to_thread(client.trouble)}
    told: dict[str, Any] = {"client": name, "trouble": client.trouble()}
    if isinstance(client, (PushConsumer, LitePullConsumer)):
        queues = client.queues() if isinstance(client, PushConsumer) else client.assignment()
        held = len(queues)
        told["queues"] = held
        if held < queues_min and not told["trouble"]:
            told["trouble"].append(f"it holds {held} queues, fewer than {queues_min}")
    return told
