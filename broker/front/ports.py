"""The ports of a broker: its own, RocketMQ's "vip channel" two below, and an `adminPort`."""

from typing import Final

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.net.certificates.sides import ServerTls
from aerobee.remoting.net.server import ConnectionFactory, Server

FAST_PORT_STEP: Final = 2  # everything but pulls, on listenPort - 2
ATTEMPTS: Final = 20


class Ports:
    """The servers on all, with one certificate; `admin_port` is None without one."""

    def __init__(self) -> None:
        self.tls: ServerTls | None = None  # of all, once they are open
        self.admin_port: int | None = None
        self._servers: list[Server] = []

    async def open(
        self, settings: BrokerSettings, main: ConnectionFactory, fast: ConnectionFactory
    ) -> int:
        """Bind both; return the first, which is a free one where `listenPort` is 0.

        OSError where a port is in use, TlsError where the certificate cannot be had.
        """
        self.tls = ServerTls(settings.tls)
        wanted = settings.listen_port
        for attempt in range(ATTEMPTS):
            server = await self._bind(settings, main, wanted)
            self._servers.append(server)
            try:
                below = await self._bind(settings, fast, server.port - FAST_PORT_STEP)
            except OSError:
                if wanted or attempt == ATTEMPTS - 1:
                    raise
                await self.close()  # a free port was asked for: take another pair
            else:
                self._servers.append(below)
                break
        return server.port

    async def open_admin(self, settings: BrokerSettings, factory: ConnectionFactory) -> None:
        """Bind the port of operators, where it is wanted; OSError where it is in use."""
        if settings.admin_port is not None:
            host = settings.admin_bind_address or settings.bind_address
            server = await self._bind(settings, factory, settings.admin_port, host)
            self._servers.append(server)
            self.admin_port = server.port

    async def close(self) -> None:
        """Close all, and every connection of theirs."""
        servers, self._servers = self._servers, []
        for server in servers:
            await server.close()

    async def _bind(
        self,
        settings: BrokerSettings,
        connection: ConnectionFactory,
        port: int,
        host: str | None = None,
    ) -> Server:
        host = settings.bind_address if host is None else host
        return await Server.start(connection, host, port, tls=self.tls, limits=settings.net_limits)
