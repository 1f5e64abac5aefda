"""The broker's HTTP side: started after the broker serves, so that it never delays the start."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aerobee.broker.start.context import Context

VIEWS: Final = "aerobee.broker.http.views"  # imports aiohttp, which takes a quarter of a second
REQUEST_BYTES_MAX: Final = 1024  # nothing here takes a body
STOP_TIMEOUT_S: Final = 1.0


class HttpServer:
    """Health, metrics and read-only JSON of one broker; `port` is where it listens."""

    def __init__(self, port: int, close: Callable[[], Awaitable[None]]) -> None:
        self.port = port
        self._close = close

    @classmethod
    async def start(cls, context: "Context", host: str, port: int) -> "HttpServer":
        """Listen on `host`; port 0 takes a free one. Raises OSError where it cannot."""
        views = await asyncio.to_thread(importlib.import_module, VIEWS)
        runner = await views.start(context, host, port, REQUEST_BYTES_MAX, STOP_TIMEOUT_S)
        return cls(int(runner.addresses[0][1]), runner.cleanup)

    async def stop(self) -> None:
        """Close the port and every connection."""
        await self._close()
