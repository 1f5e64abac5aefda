"""The console as something that starts and stops: a process of its own, or beside a nameserver."""

import asyncio
import logging
import os
import socket
import ssl
import time
from typing import Final

from aiohttp import web
from aiohttp.http import HttpProcessingError

from aerobee.console.app import Console
from aerobee.console.settings import ConsoleSettings
from aerobee.remoting.config.settings import SettingsError
from aerobee.remoting.net.addresses import format_address

log = logging.getLogger(__name__)

STOP_TIMEOUT_S: Final = 3.0
WAITING_MAX: Final = 128
CONNECTIONS_MAX: Final = 512
HEADER_BYTES_MAX: Final = 16 << 10
IDLE_S: Final = 30.0
"""So long a connection may have no request under way; a head that is not whole is none."""
UNREAD_S: Final = 30
"""So long the system waits for somebody to read what he asked for, before it drops him."""


class ConsoleServer:
    """One console in the running event loop."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._console = Console(settings)
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._listening is not None, "not started"
        return int(self._listening.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """Where a browser of this machine finds it."""
        host = self._settings.console_host
        scheme = "https" if self._settings.console_tls_cert_path else "http"
        shown = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host
        return f"{scheme}://{format_address(shown, self.port)}/"

    async def start(self) -> None:
        """Serve; serving when it returns. Raises SettingsError, or OSError for the address."""
        settings = self._settings
        tls = _tls(settings)
        self._runner = web.AppRunner(
            self._console.application(),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_TIMEOUT_S,
            max_field_size=HEADER_BYTES_MAX,
            keepalive_timeout=IDLE_S,
            auto_decompress=False,
            logger=_http_log(),
        )
        await self._runner.setup()
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._connection,
                settings.console_host or None,
                settings.console_port,
                backlog=WAITING_MAX,
                ssl=tls,
            )
        except BaseException:
            await self.stop()
            raise
        _drop_who_reads_nothing(self._listening)
        listens = format_address(settings.console_host or "0.0.0.0", self.port)
        log.info("console_serves listens=%s", listens)
        if not (settings.is_on_loopback or settings.has_tls):
            log.warning(
                "console_open listens=%s: passwords are sent in clear beyond this machine; set"
                " consoleTlsCertPath and consoleTlsKeyPath, or consoleBehindTls behind a proxy that"
                " encrypts",
                listens,
            )

    async def stop(self) -> None:
        """Close the port and every connection; harmless when repeated."""
        if self._runner is None:
            return
        began_s = time.monotonic()
        runner, self._runner = self._runner, None
        if self._listening is not None:
            self._listening.close()
        await runner.cleanup()
        await self._console.close()
        log.info("console_stopped seconds=%.2f", time.monotonic() - began_s)

    def failed(self, what: str, error: BaseException) -> None:
        """Log an error that ended a task, or a callback; the console goes on."""
        log.error("fault where=%s", what, exc_info=error)

    def _connection(self) -> asyncio.Protocol:
        """Return what serves a connection, or ends it where there are too many."""
        assert self._runner is not None and self._runner.server is not None
        server = self._runner.server
        return server() if len(server.connections) < CONNECTIONS_MAX else _OneTooMany()


def _drop_who_reads_nothing(server: asyncio.Server) -> None:
    """Have the system end connections whose peers take nothing; they would fill the places."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is None:
        return
    for each in server.sockets:
        with socket.socket(fileno=os.dup(each.fileno())) as listening:  # connections inherit it
            listening.setsockopt(socket.IPPROTO_TCP, option, UNREAD_S * 1000)


class _OursAlone(logging.Filter):
    """Lets nothing through that a client causes by what he sends: he could fill the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError | OSError)


def _http_log() -> logging.Logger:
    """Return where the HTTP server tells of what goes wrong in it."""
    http_log = logging.getLogger(f"{__name__}.http")
    if not http_log.filters:
        http_log.addFilter(_OursAlone())
    return http_log


class _OneTooMany(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


def _tls(settings: ConsoleSettings) -> ssl.SSLContext | None:
    if not settings.console_tls_cert_path:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(
            settings.console_tls_cert_path, settings.console_tls_key_path or None
        )
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"consoleTlsCertPath={settings.console_tls_cert_path} cannot be used: {error}"
        ) from None
    return context
