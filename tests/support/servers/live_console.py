"""A console over a cluster of this process, and a browser that keeps its cookie."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import ClientSession, CookieJar

from aerobee.console.serving import ConsoleServer
from aerobee.console.settings import ConsoleSettings


class Shown(NamedTuple):
    """An answer of the console: `path` is where it led to."""

    status: int
    text: str
    headers: Any
    path: str


class Browser:
    """Follows links and sends forms, as somebody without scripts does."""

    def __init__(self, session: ClientSession, url: str) -> None:
        self.session = session
        self.url = url.rstrip("/")
        self.csrf = ""

    async def get(self, path: str, **headers: str) -> Shown:
        """Open a page; the token of its forms is remembered."""
        async with self.session.get(self.url + path, headers=headers) as reply:
            shown = Shown(reply.status, await reply.text(), reply.headers, reply.url.path_qs)
        if token := re.search(r'name="csrf" value="([^"]+)"|X-CSRF-Token": "([^"]+)"', shown.text):
            self.csrf = token[1] or token[2]
        return shown

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> Shown:
        """Send a form with the token of the last page, and go where it leads."""
        data = {"csrf": self.csrf, **fields}
        async with self.session.post(self.url + path, data=data, headers=headers) as reply:
            return Shown(reply.status, await reply.text(), reply.headers, reply.url.path_qs)

    async def log_in(self, name: str, password: str) -> Shown:
        """Fill in the form of the login."""
        shown = await self.post("/login", {"name": name, "password": password})
        if shown.status == 200:
            await self.get("/")
        return shown


@asynccontextmanager
async def live_console(namesrv_addr: str, **settings: Any) -> AsyncIterator[Browser]:
    """Serve a console on a free port of loopback; yield a browser that looks at it."""
    server = ConsoleServer(ConsoleSettings(namesrv_addr=namesrv_addr, console_port=0, **settings))
    await server.start()
    try:
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
            yield Browser(session, server.url)
    finally:
        await server.stop()
