"""Connections whose requests are signed: of a server that calls others, and of clients."""

from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.connection import Connection, Handler
from aerobee.remoting.net.limits import NetLimits


class Signing(Connection):
    """Signs what leaves, whoever has encoded it; replies leave as they are."""

    __slots__ = ()

    credentials: SessionCredentials

    def flush(self) -> None:
        """Sign what `write` collected, and hand it to the transport."""
        if self._out:
            self._out = [self.credentials.sign_frames(b"".join(self._out))]
        super().flush()


class SigningConnection(Signing):
    """A connection of one user."""

    __slots__ = ("credentials",)

    def __init__(
        self,
        handler: Handler,
        limits: NetLimits | None = None,
        budget: Budget | None = None,
        *,
        credentials: SessionCredentials,
    ) -> None:
        super().__init__(handler, limits, budget)
        self.credentials = credentials
