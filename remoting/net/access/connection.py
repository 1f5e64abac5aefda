"""A connection of a server that asks who it is before it serves a request."""

import asyncio

from aerobee.remoting.command import Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.access.certificates import ShownIdentity
from aerobee.remoting.net.access.guard import Guard
from aerobee.remoting.net.access.refusing import OnRefused, refuse
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.connection import Connection, Handler
from aerobee.remoting.net.limits import NetLimits


class GuardedConnection(Connection):
    """Hands on what passes both questions of `guard`, and refuses the rest."""

    __slots__ = ("guard", "identity", "on_refused")

    def __init__(
        self,
        handler: Handler,
        limits: NetLimits | None = None,
        budget: Budget | None = None,
        *,
        guard: Guard,
        on_refused: OnRefused = None,
    ) -> None:
        super().__init__(handler, limits, budget)
        self.guard = guard
        self.on_refused = on_refused
        self.identity = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note whose certificate was shown."""
        super().connection_made(transport)
        self.identity = ShownIdentity(self, self.guard.rules.certificate_users).user

    def dispatch(self, command: Command) -> None:
        """Ask, then do as any connection does; replies to calls of this side are not asked."""
        if not command.is_response:
            try:
                self.guard.check(self.remote_host[0], command, self.identity)
            except RequestError as error:
                refuse(self, command, error, self.on_refused)
                return
        super().dispatch(command)
