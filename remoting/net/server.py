"""Listen on one port: accept, tell TLS from plain by the first byte, hand over to connections.

The accept loop is our own because the first byte must be seen before the transport exists, and
because running out of file descriptors must pause accepting instead of spinning.
"""

import asyncio
import errno
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from aerobee.remoting.net.addresses import format_address, peer_address, peer_of
from aerobee.remoting.net.budget import IDLE_LOOKS, Budget, close_idle
from aerobee.remoting.net.certificates.sides import ServerTls
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.tls import HANDSHAKE_BYTE, TlsError, TlsMode, TlsSettings

log = logging.getLogger(__name__)

BACKLOG: Final = 1024  # serverSocketBacklog
COMPLAINTS_MAX: Final = 10  # lines between two sweeps
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

ConnectionFactory = Callable[[Budget], Connection]
"""Makes a connection of the port, whose connections share a budget."""


class ServerStatistics(msgspec.Struct, frozen=True):
    """Counts since the start, and the connections of this moment."""

    connections: int
    accepted_total: int
    refused_total: int  # over connections_max
    partial_bytes: int
    unsent_bytes: int
    closed: Mapping[str, int]  # by reason, where the reason was ours


class Server:
    """One listening port and the connections it accepted.

    `connections` are those whose protocol runs; sockets whose first byte or TLS handshake is still
    awaited count towards `connections_max`, too.
    """

    def __init__(
        self,
        factory: ConnectionFactory,
        listener: socket.socket,
        limits: NetLimits,
        tls: ServerTls,
    ) -> None:
        self.limits = limits
        self.budget = Budget(limits)
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self.host, self.port = peer_address(listener.getsockname())
        self._factory = factory
        self._listener = listener
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}  # for their first byte
        self._opening: dict[asyncio.Task[None], None] = {}
        self._handshakes: dict[asyncio.Task[None], None] = {}  # those of TLS, the oldest first
        self._complaints = 0  # since the last sweep
        self._accepted_total = 0
        self._refused_total = 0
        self._closed = False
        self._paused: asyncio.TimerHandle | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._silent_since_s: float = self._loop.time()

    @classmethod
    async def start(
        cls,
        factory: ConnectionFactory,
        host: str,
        port: int,
        *,
        tls: TlsSettings | ServerTls | None = None,
        limits: NetLimits | None = None,
    ) -> "Server":
        """Bind and serve; port 0 takes a free one, an empty host serves IPv4 and IPv6.

        Ports that share a `ServerTls` show the same certificate. Raises OSError when the address
        cannot be bound, TlsError when TLS cannot be set up.
        """
        if not isinstance(tls, ServerTls):
            tls = ServerTls(tls or TlsSettings(mode=TlsMode.DISABLED))
        listener = await open_listener(host, port)
        server = cls(factory, listener, limits or NetLimits(), tls)
        server._listen()
        server._sweep_timer = server._loop.call_later(server.limits.sweep_interval_s, server._sweep)
        return server

    def statistics(self) -> ServerStatistics:
        """Return counts for metrics."""
        return ServerStatistics(
            connections=len(self.connections),
            accepted_total=self._accepted_total,
            refused_total=self._refused_total,
            partial_bytes=self.budget.partial_bytes,
            unsent_bytes=self.budget.unsent_bytes,
            closed=dict(self.budget.closed),
        )

    async def close(self) -> None:
        """Stop accepting, let every connection send what it holds, and end them all."""
        if self._closed:
            return
        self._closed = True
        for timer in (self._paused, self._sweep_timer):
            if timer is not None:
                timer.cancel()
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        for waiting in list(self._waiting):
            self._drop(waiting)
        for task in list(self._opening):
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        ending = list(self.connections)
        for connection in ending:
            connection.close("server stops")
        await asyncio.gather(*(connection.wait_closed() for connection in ending))

    # --- accepting ---

    def _listen(self) -> None:
        self._paused = None
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(self.limits.accepts_per_turn_max):
            try:
                accepted, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    self._pause(error)
                    return
                log.debug("accept failed error=%s", error)  # the peer was gone before its turn
                continue
            self._admit(accepted)

    def _pause(self, error: OSError) -> None:
        log.error(
            "accept paused port=%d connections=%d pause_s=%g error=%s;"
            " raise the limit of open files (ulimit -n)",
            self.port, len(self.connections), self.limits.accept_pause_s, error,
        )  # fmt: skip
        self._loop.remove_reader(self._listener.fileno())
        self._paused = self._loop.call_later(self.limits.accept_pause_s, self._listen)

    def _admit(self, accepted: socket.socket) -> None:
        held = len(self.connections) + len(self._waiting) + len(self._opening)
        if held >= self.limits.connections_max:
            if not self._refused_total:
                log.error("connections refused limit=%d port=%d", held, self.port)
            self._refused_total += 1
            accepted.close()
            return
        self._accepted_total += 1
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:  # reset while it waited; macOS says so here
            accepted.close()
            return
        if self._tls.mode is TlsMode.DISABLED:
            self._open(accepted, wants_tls=False)
            return
        if self._tls.mode is TlsMode.ENFORCING:
            patience_s, reason = self.limits.handshake_timeout_s, "no handshake"
        else:  # it may be a plain one that has nothing to say yet
            patience_s, reason = self.limits.idle_timeout_s, "idle"
        self._waiting[accepted] = self._loop.call_later(patience_s, self._drop, accepted, reason)
        self._loop.add_reader(accepted.fileno(), self._sniff, accepted)

    def _sniff(self, accepted: socket.socket) -> None:
        try:
            first = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        wants_tls = first[:1] == bytes([HANDSHAKE_BYTE])
        if not first:  # it left: one that only looked whether somebody listens
            self._drop(accepted)
            return
        if not wants_tls and self._tls.mode is TlsMode.ENFORCING:
            peer = peer_of(accepted)
            self._complain(peer, "it speaks no TLS, and tls.server.mode is enforcing here")
            self._drop(accepted, "no handshake")
            return
        self._loop.remove_reader(accepted.fileno())
        self._waiting.pop(accepted).cancel()
        self._open(accepted, wants_tls=wants_tls)

    def _drop(self, accepted: socket.socket, reason: str = "") -> None:
        """Close a socket before its first byte; `reason` is ours, if there is one."""
        self._waiting.pop(accepted).cancel()
        self._loop.remove_reader(accepted.fileno())
        if reason:
            self.budget.closed[reason] += 1
        accepted.close()

    def _open(self, accepted: socket.socket, *, wants_tls: bool) -> None:
        task = self._loop.create_task(self._connect(accepted, wants_tls=wants_tls))
        self._opening[task] = None
        task.add_done_callback(self._opening.pop)
        if wants_tls:
            if len(self._handshakes) >= self.limits.handshakes_max:
                self.budget.closed["handshakes"] += 1
                oldest = next(iter(self._handshakes))
                del self._handshakes[oldest]
                oldest.cancel()
            self._handshakes[task] = None
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _connect(self, accepted: socket.socket, *, wants_tls: bool) -> None:
        peer = peer_of(accepted) if wants_tls else ""
        timeout_s = self.limits.handshake_timeout_s if wants_tls else None
        try:
            context = await self._tls.context() if wants_tls else None
            connection = self._make()  # uvloop returns another protocol where TLS is spoken
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=context, ssl_handshake_timeout=timeout_s
            )
        except (OSError, ssl.SSLError, TlsError) as error:
            self.budget.closed["no handshake"] += 1
            self._complain(peer, str(error) or type(error).__name__)
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise
        else:
            if not connection.gone:
                self.connections[connection] = None

    def _complain(self, peer: str, reason: str) -> None:
        """Tell why a peer was not let in; of many within one sweep only the first ones."""
        self._complaints += 1
        if self._complaints <= COMPLAINTS_MAX:
            log.info("handshake failed port=%d remote=%s error=%s", self.port, peer, reason)

    def _make(self) -> Connection:
        connection = self._factory(self.budget)
        connection.on_closed.append(self._forget)
        return connection

    def _forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)

    # --- looking after ---

    def _sweep(self) -> None:
        now_s = self._loop.time()
        self._sweep_timer = self._loop.call_later(self.limits.sweep_interval_s, self._sweep)
        self.budget.sweep(now_s)
        self._tls.look()
        if self._complaints > COMPLAINTS_MAX:
            more = self._complaints - COMPLAINTS_MAX
            log.info("handshake failed port=%d more=%d", self.port, more)
        self._complaints = 0
        if now_s - self._silent_since_s >= self.limits.idle_timeout_s / IDLE_LOOKS:
            self._silent_since_s = now_s
            close_idle(self.connections)


async def open_listener(host: str, port: int) -> socket.socket:
    """Bind a non-blocking listening socket; an empty host means every address of both families.

    Raises OSError whose text names the address.
    """
    try:
        return await _bind(host, port)
    except OSError as error:
        number, why = error.errno, error.strerror
    except UnicodeError as error:  # what look-ups raise for a name that DNS cannot carry
        number, why = errno.EINVAL, str(error)
    raise OSError(number, f"cannot listen on {format_address(host or '*', port)}: {why}")


async def _bind(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    if not host and socket.has_dualstack_ipv6():
        family, address = socket.AF_INET6, ("::", port)
        dual = True
    else:
        found = await loop.getaddrinfo(
            host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]  # type: ignore[assignment]
        dual = False
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def raise_open_files_limit(wanted: int) -> int:
    """Raise this process's soft limit of open files towards `wanted`; return what it is then."""
    if sys.platform == "win32":
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= target:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (OSError, ValueError):  # macOS caps it below its hard limit
        return soft
    return target
