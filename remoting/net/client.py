"""Connections to other processes: one per address, made when needed, shared by all callers."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import NotConnected
from aerobee.remoting.net.addresses import parse_address
from aerobee.remoting.net.budget import IDLE_LOOKS, Budget, close_idle
from aerobee.remoting.net.connection import Connection, Handler
from aerobee.remoting.net.disconnect_reasons import why_not_connected
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.single_flight import SingleFlight
from aerobee.remoting.net.tls import TlsClientSettings

if TYPE_CHECKING:
    from aerobee.remoting.net.certificates.sides import ClientTls

log = logging.getLogger(__name__)

DEAD_HOST_TIMEOUT_MS: Final = 30_000  # sent bytes without any acknowledgement


__all__ = ["ConnectionPool", "TlsClientSettings"]


def refuse_requests(connection: Connection, command: Command) -> None:
    """Answer a peer's request that nobody here serves, as RocketMQ answers unknown codes."""
    if not command.is_oneway:
        connection.send(
            command.reply(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                remark=f" request type {command.code} not supported",
            )
        )


def _client_tls(settings: TlsClientSettings) -> "ClientTls":
    """Load what connections are encrypted with; plain ones do without its modules, some ms."""
    from aerobee.remoting.net.certificates.sides import ClientTls

    return ClientTls(settings)


class ConnectionPool:
    """One connection per address and process; callers that need the same one share its making.

    `handler` gets the requests that peers send on these connections (40, 220, 307, ...); it may be
    set after construction. `on_made` callbacks get the address and connection of each one that is
    made, before anybody can send on it; one that raises ends the connection. `on_not_made` ones get
    the address and error of each one that could not be made. A connection on which nothing arrived
    for `limits.idle_timeout_s` seconds, and none of whose calls waits, is closed;
    the next call makes another.
    """

    def __init__(
        self,
        handler: Handler = refuse_requests,
        *,
        tls: TlsClientSettings | None = None,
        limits: NetLimits | None = None,
        kind: Callable[[Handler, NetLimits, Budget], Connection] = Connection,
    ) -> None:
        self.handler = handler
        self._kind = kind
        self.limits = limits or NetLimits()
        self.budget = Budget(self.limits)
        self.connections: dict[str, Connection] = {}
        self.on_made: list[Callable[[str, Connection], None]] = []
        self.on_not_made: list[Callable[[str, BaseException], None]] = []
        self.closed = False
        self._tls = _client_tls(tls) if tls is not None else None
        self._making: dict[str, SingleFlight[Connection]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._silent_since_s = 0.0

    def get(self, address: str) -> Connection | None:
        """Return the open connection to `address`, if there is one."""
        connection = self.connections.get(address)
        return None if connection is None or connection.closed else connection

    async def connect(self, address: str) -> Connection:
        """Return the connection to `address`, made if need be.

        Raises NotConnected, BadAddress when `address` is not host:port. It takes at most
        `limits.connect_timeout_s` seconds.
        """
        connection = self.get(address)
        if connection is not None:
            return connection
        if self.closed:
            raise NotConnected(f"{address}: this side is closed")
        making = self._making.get(address)
        if making is None:
            making = self._making[address] = SingleFlight(self._make(address))
            making.task.add_done_callback(lambda done: self._made(address, done))
        try:
            return await making.wait()
        except asyncio.CancelledError:
            if self.closed and making.task.cancelled() and not _is_cancelled():
                raise NotConnected(f"{address}: this side is closed") from None
            raise

    async def call(self, address: str, command: Command, timeout_s: float) -> Command:
        """Send a request to `address` and return its reply, whatever its code.

        `timeout_s` covers connecting, too. Raises NotConnected when nothing was sent, CallTimedOut
        or ConnectionLost when the request may have been carried out.
        """
        connection = self.get(address)
        if connection is not None:
            return await connection.call(command, timeout_s)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline_s):
                connection = await self.connect(address)
        except TimeoutError:
            raise NotConnected(f"{address}: no connection in {timeout_s:g} s") from None
        return await connection.call(command, deadline_s - loop.time())

    async def oneway(self, address: str, command: Command) -> None:
        """Send a request that gets no reply; raises NotConnected or ConnectionLost."""
        (await self.connect(address)).oneway(command)

    def drop(self, address: str, reason: str) -> None:
        """Close the connection to `address`, for instance when its broker left the route."""
        connection = self.get(address)
        if connection is not None:
            connection.close(reason)

    async def close(self) -> None:
        """Close every connection; calls that wait get ConnectionLost, new ones NotConnected."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        making = [each.task for each in self._making.values()]
        for task in making:
            task.cancel()
        ending = list(self.connections.values())
        for connection in ending:  # all before anything is awaited: who closes may be cancelled
            connection.close("closed by this side")
        await asyncio.gather(*making, return_exceptions=True)
        await asyncio.gather(*(connection.wait_closed() for connection in ending))

    # --- making and ending ---

    async def _make(self, address: str) -> Connection:
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.limits.connect_timeout_s):
                context = self._tls.context() if self._tls is not None else None
                _, connection = await loop.create_connection(
                    self._new_connection, host, port, ssl=context
                )
        except TimeoutError:
            seconds = self.limits.connect_timeout_s
            raise NotConnected(f"{address}: no connection in {seconds:g} s") from None
        except (OSError, ValueError) as error:  # ValueError: a host that is no name
            why = why_not_connected(error, encrypted=self._tls is not None)
            raise NotConnected(f"{address}: {why}") from error
        if connection.gone:
            raise NotConnected(f"{address}: {connection.close_reason}")
        _notice_dead_host(connection)
        self._announce(address, connection)
        self.connections[address] = connection
        connection.on_closed.append(lambda gone: self._forget(address, gone))
        self._look_after(loop)
        return connection

    def _announce(self, address: str, connection: Connection) -> None:
        try:
            for callback in self.on_made:
                callback(address, connection)
        except BaseException:
            connection.abort("not announced")
            raise

    def _new_connection(self) -> Connection:
        connection = self._kind(self._handle, self.limits, self.budget)
        connection.expect_first_bytes()
        return connection

    def _handle(self, connection: Connection, command: Command) -> None:
        self.handler(connection, command)

    def _made(self, address: str, task: asyncio.Task[Connection]) -> None:
        del self._making[address]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("connect failed address=%s error=%s", address, error)
            for callback in self.on_not_made:
                callback(address, error)

    def _forget(self, address: str, connection: Connection) -> None:
        if self.connections.get(address) is connection:
            del self.connections[address]

    def _look_after(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None and not self.closed:
            self._timer = loop.call_later(self.limits.sweep_interval_s, self._sweep, loop)
            self._silent_since_s = loop.time()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self.connections:  # first, or a look that fails would be the last
            self._timer = loop.call_later(self.limits.sweep_interval_s, self._sweep, loop)
        now_s = loop.time()
        self.budget.sweep(now_s)
        if self._tls is not None:
            self._tls.look()
        if now_s - self._silent_since_s >= self.limits.idle_timeout_s / IDLE_LOOKS:
            self._silent_since_s = now_s
            close_idle([each for each in self.connections.values() if not each.calls_waiting])


def _is_cancelled() -> bool:
    """Whether somebody wants the calling task to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _notice_dead_host(connection: Connection) -> None:
    """Let the system close the connection when sent bytes stay without any acknowledgement.

    A host that vanished without closing says nothing; the system's own limit is a quarter of an
    hour. Where it has no such option (macOS), time-outs of calls are all there is.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    sock = connection.transport.get_extra_info("socket")
    if option is not None and sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, DEAD_HOST_TIMEOUT_MS)
