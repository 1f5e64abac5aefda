"""A connection of a client whose requests are signed."""

from aerobee.client.cluster.channel import Channel
from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.remoting.net.access.signing import Signing
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.connection import Handler
from aerobee.remoting.net.limits import NetLimits


class SigningChannel(Signing, Channel):
    """Signs all that leaves: compiled sends and pulls, too, which know nothing of it."""

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
