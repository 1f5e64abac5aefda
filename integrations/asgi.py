"""Clients that live as long as a web application does."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

__all__ = ["Client", "lifespan"]

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
