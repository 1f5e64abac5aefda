"""The HTTP side as a feature: it listens from the start on, and is imported for who comes."""

import asyncio
import importlib
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from aerobee.broker.features.feature import Feature
from aerobee.broker.start.context import Context
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)

# imported when somebody asks: it imports aiohttp, a fifth of a second and 12 MB
VIEWS: Final = "aerobee.broker.features.http.views"
REQUEST_BYTES_MAX: Final = 1024  # nothing here takes a body
STOP_TIMEOUT_S: Final = 1.0
WAITING_MAX: Final = 128  # connections that are not accepted yet


class HttpServer(Feature):
    """Health, metrics and read-only JSON of one broker; switched off by `httpPort=off`.

    The broker goes on without it where it cannot listen. Who comes first waits until its code is
    there, a fifth of a second; a broker that nobody asks has the memory for other things.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks = Tasks(context.health.faults.caught)
        self._sockets: list[socket.socket] = []
        self._close: Callable[[], Awaitable[None]] | None = None

    async def start(self) -> None:
        """Listen on `httpHost`, which may have several addresses; port 0 takes a free one."""
        settings = self._context.settings
        try:
            await self._listen(settings.http_host, settings.http_port_wanted or 0)
        except OSError as error:
            self._forget_sockets()
            log.error("http not served error=%s", error)
            return
        self._context.front.http_port = int(self._sockets[0].getsockname()[1])
        for listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._asked)

    async def stop(self) -> None:
        """Close the port and every connection."""
        await self._tasks.close()
        if self._close is not None:
            await self._close()
        self._forget_sockets()

    async def _listen(self, host: str, port: int) -> None:
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            listening = socket.socket(family, socket.SOCK_STREAM)
            self._sockets.append(listening)
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
            listening.listen(WAITING_MAX)

    def _asked(self) -> None:
        """Have somebody's connection wait in the kernel until it can be served."""
        self._look_away()
        self._tasks.start(self._serve(), "http")

    async def _serve(self) -> None:
        try:
            views = await asyncio.to_thread(importlib.import_module, VIEWS)
            runner = await views.make_runner(self._context, REQUEST_BYTES_MAX, STOP_TIMEOUT_S)
            self._close = runner.cleanup
            while self._sockets:  # from here on they are the runner's
                await views.serve(runner, self._sockets.pop(), WAITING_MAX)
        except Exception as error:  # clients hear of it as their connections end
            self._forget_sockets()
            self._context.front.http_port = None
            log.error("http not served error=%s", error)
            raise

    def _look_away(self) -> None:
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening)

    def _forget_sockets(self) -> None:
        self._look_away()
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()


make = HttpServer
