"""The nameserver as one object: what it is made of, in which order it starts and stops."""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from aerobee.namesrv.context import NamesrvContext
from aerobee.namesrv.expiry import Expiry
from aerobee.namesrv.kv_config import KvConfig
from aerobee.namesrv.processors import FAMILIES
from aerobee.namesrv.route_table import RouteTable
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.clocks import LateLooks, steady_clock_ms
from aerobee.remoting.net.addresses import format_address
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.connection import Connection, Handler
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.logs.server_log import asks_for_certificates, tell_openness, tell_start
from aerobee.remoting.net.routes import Dispatcher
from aerobee.remoting.net.server import Server, ServerStatistics
from aerobee.remoting.net.tasks import Tasks

if TYPE_CHECKING:
    from aerobee.namesrv.console import ConsoleBeside
    from aerobee.remoting.net.access.audit import AuditLog
    from aerobee.remoting.net.access.guard import Guard
    from aerobee.remoting.net.access.refusing import OnRefused

log = logging.getLogger(__name__)

STOP_TIMEOUT_S: Final = 5.0


class NameServer:
    """One nameserver in the running event loop; it knows of no other nameserver.

    `clock_ms` counts milliseconds and never goes back, whatever is done to the machine's time.
    """

    def __init__(
        self, settings: NamesrvSettings, clock_ms: Callable[[], int] = steady_clock_ms
    ) -> None:
        self.settings = settings
        self.table = RouteTable(
            clock_ms,
            brokers_max=settings.brokers_max,
            topics_max=settings.topics_max,
            route_entries_max=settings.route_entries_max,
            delete_missing_topics=settings.delete_topic_with_broker_registration,
        )
        self.kv = KvConfig(settings.kv_config_path, settings.kv_bytes_max)
        self._clock_ms = clock_ms
        self._expiry = Expiry(self.table, settings.scan_interval_ms, LateLooks(clock_ms))
        self._tasks = Tasks()
        self._server: Server | None = None
        self.console: ConsoleBeside | None = None
        self._audit: AuditLog | None = None
        self._stopped = False

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None, "not started"
        return self._server.port

    def statistics(self) -> ServerStatistics:
        """Return the counts of its connections."""
        assert self._server is not None, "not started"
        return self._server.statistics()

    async def start(self) -> None:
        """Read the KV table and serve; serving when it returns.

        Raises KeptFileDamaged, TlsError, or OSError naming the address, or audit file, that cannot
        be had.
        """
        tell_start(log, "namesrv", self.settings)
        self.kv.load()
        guard, clock_ms = _guard(self.settings), self._clock_ms
        context = NamesrvContext(self.settings, self.table, self.kv, clock_ms, clock_ms(), guard)
        self._audit = audit = _audit(self.settings, guard)
        families = FAMILIES if audit is None else audit.around(FAMILIES)
        dispatch = Dispatcher(context, families, self._tasks.start)
        on_refused = audit.refused if audit is not None else None
        limits, connect = self.settings.net_limits, _connections(guard, on_refused)
        self._server = await Server.start(
            lambda budget: connect(dispatch, limits, budget),
            self.settings.bind_address,
            self.settings.listen_port,
            tls=self.settings.tls,
            limits=limits,
        )
        self._expiry.start()
        listens = format_address(self.settings.bind_address or "0.0.0.0", self.port)
        log.info("namesrv_serves listens=%s kv=%s", listens, self.settings.kv_config_path)
        if not (self.settings.authentication_enabled or asks_for_certificates(self.settings)):
            tell_openness(log, "namesrv", [(self.settings.bind_address, self.port)])
        if self.settings.console_enabled:
            await self._start_console()

    def failed(self, what: str, error: BaseException) -> None:
        """Log an error that ended a task, or a callback; the nameserver goes on."""
        log.error("fault where=%s", what, exc_info=error)

    async def stop(self) -> None:
        """Finish what waits for the disk, then close every connection; harmless when repeated."""
        if self._server is None or self._stopped:
            return
        began_s = time.monotonic()
        brokers = len(self.table.brokers)
        self._expiry.stop()
        if self.console is not None:
            try:
                await self.console.stop()
            except Exception as error:  # noqa: BLE001  what the nameserver has to write is written
                self.failed("console", error)
        await self._tasks.finish(STOP_TIMEOUT_S)
        await self._server.close()
        if self._audit is not None:
            self._audit.close()
        self._stopped = True
        log.info("namesrv_stopped seconds=%.2f brokers=%d", time.monotonic() - began_s, brokers)

    async def _start_console(self) -> None:
        """Serve the console, too; what is wrong with its settings ends the nameserver's start."""
        from aerobee.namesrv.console import start_console

        try:
            self.console = await start_console(self.settings, self.port)
        except BaseException:
            await self.stop()
            raise


def _guard(settings: NamesrvSettings) -> "Guard | None":
    """Return who asks before a request is served; it is not loaded where nobody is asked."""
    if not (settings.authentication_enabled or settings.authorization_enabled):
        return None
    from aerobee.namesrv.access import guard_of

    return guard_of(settings)


def _audit(settings: NamesrvSettings, guard: "Guard | None") -> "AuditLog | None":
    """Return what notes changes, None where nobody does."""
    if settings.audit_file is None:
        return None
    from aerobee.remoting.net.access.audit import AuditLog

    made = AuditLog(settings, "namesrv")
    if guard is not None:
        made.who = guard.who
    return made


def _connections(
    guard: "Guard | None", on_refused: "OnRefused"
) -> Callable[[Handler, NetLimits, Budget], Connection]:
    """Return what serves a socket."""
    if guard is None:
        return Connection
    from aerobee.remoting.net.access.connection import GuardedConnection

    return partial(GuardedConnection, guard=guard, on_refused=on_refused)
