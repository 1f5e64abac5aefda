"""The HTTP side as a feature: it starts beside the broker, so that it never delays the start."""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aerobee.broker.features.feature import Feature
from aerobee.broker.start.context import Context
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)

# imported when it is wanted: it imports aiohttp, which takes a quarter of a second
VIEWS: Final = "aerobee.broker.features.http.views"
REQUEST_BYTES_MAX: Final = 1024  # nothing here takes a body
STOP_TIMEOUT_S: Final = 1.0


class HttpServer(Feature):
    """Health, metrics and read-only JSON of one broker; switched off by `httpPort=off`.

    It listens a moment after the broker serves, which goes on without it where it cannot.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._starting = Tasks(context.health.faults.caught)
        self._close: Callable[[], Awaitable[None]] | None = None

    async def start(self) -> None:
        """Begin to import what it takes, and to listen."""
        self._starting.start(self._listen(), "http")

    async def stop(self) -> None:
        """Close the port and every connection."""
        await self._starting.close()
        if self._close is not None:
            await self._close()

    async def _listen(self) -> None:
        """Listen on `httpHost`; port 0 takes a free one."""
        context, settings = self._context, self._context.settings
        views = await asyncio.to_thread(importlib.import_module, VIEWS)
        host, port = settings.http_host, settings.http_port_wanted
        try:
            runner = await views.start(context, host, port, REQUEST_BYTES_MAX, STOP_TIMEOUT_S)
        except OSError as error:
            log.error("http not served error=%s", error)
            return
        self._close = runner.cleanup
        context.front.http_port = int(runner.addresses[0][1])


make = HttpServer
