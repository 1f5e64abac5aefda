"""Servers for tests of the network layer."""

from dataclasses import dataclass, field
from typing import Self

from aerobee.remoting.command import Command
from aerobee.remoting.net.connection import Connection, Handler
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.server import Server
from aerobee.remoting.net.tls import TlsSettings


def echo(connection: Connection, command: Command) -> None:
    """Answer every request with its own fields and body; code 999 gets no answer."""
    if not command.is_oneway and command.code != 999:
        connection.send(command.reply(0, command.ext, bytes(command.body)))


@dataclass
class Servers:
    """Starts servers for one test; the end of `async with` closes them."""

    started: list[Server] = field(default_factory=list)

    async def __call__(
        self,
        handler: Handler = echo,
        limits: NetLimits | None = None,
        tls: TlsSettings | None = None,
        host: str = "127.0.0.1",
    ) -> Server:
        """Start one on a free port."""
        limits = limits or NetLimits()
        server = await Server.start(
            lambda budget: Connection(handler, limits, budget), host, 0, limits=limits, tls=tls
        )
        self.started.append(server)
        return server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self.started:
            await server.close()
