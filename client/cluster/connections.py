"""Requests of one client instance: one connection to each broker and nameserver."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from aerobee.client.cluster.channel import Channel
from aerobee.client.errors import BrokerRefused
from aerobee.client.settings import ClientSettings
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import NotConnected
from aerobee.remoting.headers.typed import Header, encode_header
from aerobee.remoting.net.addresses import BadAddress
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection, Handler
from aerobee.remoting.net.limits import NetLimits

FLUSH_BYTES: Final = 32 * 1024
"""What is sent at once, not at the end of the turn: the broker works on it meanwhile."""

UNSENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Requests that a broker has not taken; they are the user's, who decides how many there are."""


class Connections:
    """Calls brokers and nameservers by their address, "ip:port", reconnecting as needed.

    `on_connected` callbacks get the address and connection of each one that is made, before
    anything is sent on it and whoever still waits for it; `on_not_connected` get the address and
    the reason where one could not be made.
    """

    def __init__(self, settings: ClientSettings, handler: Handler) -> None:
        limits = NetLimits(
            frame_bytes_max=settings.frame_bytes_max,
            connect_timeout_s=settings.connect_timeout_ms / 1000,
            write_pause_bytes=FLUSH_BYTES,
            write_resume_bytes=FLUSH_BYTES // 2,
            write_bytes_max=UNSENT_BYTES_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
        )
        self.timeout_ms = settings.api_timeout_ms  # of a call that says nothing else
        self._pool = ConnectionPool(handler, tls=settings.tls, limits=limits, kind=_kind(settings))
        self.on_connected: list[Callable[[str, Connection], None]] = self._pool.on_made
        self.on_not_connected: list[Callable[[str, BaseException], None]] = self._pool.on_not_made

    @property
    def closed(self) -> bool:
        """Whether this side has closed them all."""
        return self._pool.closed

    def open(self, address: str) -> Connection | None:
        """Return the connection to `address` if it is open."""
        return self._pool.get(address)

    async def connect(self, address: str) -> Connection:
        """Return the connection to `address`, made if need be; raises NotConnected.

        Also where it is no address: others told it, and another broker may have a sound one.
        """
        try:
            return await self._pool.connect(address)
        except BadAddress as error:
            raise NotConnected(str(error)) from error

    async def call(
        self,
        address: str,
        code: int,
        ext: dict[str, str],
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
    ) -> Command:
        """Send a request and return the reply, whatever its code; raises Unavailable."""
        timeout_s = (self.timeout_ms if timeout_ms is None else timeout_ms) / 1000
        connection = self._pool.get(address) or await self.connect(address)
        return await connection.begin(code, ext, body, timeout_s)

    async def request(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
    ) -> Command:
        """Send a request and return the reply if it is a success.

        Raises BrokerRefused with the reply's code otherwise, Unavailable without reply.
        """
        ext = encode_header(header) if header is not None else {}
        reply = await self.call(address, code, ext, body, timeout_ms=timeout_ms)
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerRefused(reply.code, reply.remark, address)
        return reply

    async def oneway(
        self, address: str, code: int, ext: Mapping[str, str], body: bytes = b""
    ) -> None:
        """Send a request that gets no reply; raises Unavailable if there is no connection."""
        connection = self._pool.get(address) or await self.connect(address)
        connection.oneway(Command(code, dict(ext), body))

    def drop(self, address: str, reason: str) -> None:
        """Close the connection to `address`; the next call makes another."""
        self._pool.drop(address, reason)

    async def close(self) -> None:
        """Close every connection; what waits for a reply gets Unavailable."""
        await self._pool.close()


def _kind(settings: ClientSettings) -> Callable[[Handler, NetLimits, Budget], Channel]:
    """Return what connections are; what signs is not loaded where nothing is signed."""
    if settings.credentials is None:
        return Channel
    from aerobee.client.cluster.signing import SigningChannel

    return partial(SigningChannel, credentials=settings.credentials)
