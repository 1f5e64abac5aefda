"""A port that listens from the start on, and whose code is imported for who comes."""

import asyncio
import importlib
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)

# imported when somebody asks: it imports aiohttp, a fifth of a second and 12 MB
VIEWS: Final = "aerobee.broker.features.http.views"
WAITING_MAX: Final = 128  # connections that are not accepted yet


class LatePort:
    """Listens; who comes first waits until `make` has made what answers, of the module `views`.

    `told` hears where it listens, and None where that ends in an error.
    """

    def __init__(
        self,
        make: Callable[[Any], Awaitable[Any]],
        tasks: Tasks,
        told: Callable[[int | None], None],
    ) -> None:
        self._told = told
        self._make = make
        self._tasks = tasks
        self._sockets: list[socket.socket] = []
        self._close: Callable[[], Awaitable[None]] | None = None

    async def open(self, host: str, port: int) -> None:
        """Listen on `host`, which may have several addresses; port 0 takes a free one.

        Where that cannot be, it is logged.
        """
        try:
            await self._listen(host, port)
        except OSError as error:
            self._forget_sockets()
            log.error("http not served error=%s", error)
            return
        self._told(int(self._sockets[0].getsockname()[1]))
        for listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._asked)

    async def close(self) -> None:
        """Close the port and every connection; no task is under way any more."""
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
            runner = await self._make(views)
            self._close = runner.cleanup
            while self._sockets:  # from here on they are the runner's
                await views.serve(runner, self._sockets.pop(), WAITING_MAX)
        except Exception as error:  # clients hear of it as their connections end
            self._forget_sockets()
            self._told(None)
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
