"""Looks for brokers that fell silent, as often as scanNotActiveBrokerInterval says."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aerobee.namesrv.route_table import RouteTable
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

LATE_INTERVALS: Final = 2  # a look that comes so late says nothing of the brokers


class Expiry:
    """A timer over the route table: expired brokers are forgotten, their connections closed.

    `clock_ms` never goes back. A look that comes more than two intervals after the one before is
    that of a process which was stopped or starved: what brokers said meanwhile waits in sockets, so
    these are read first, for one interval, and only the next look expires anybody.
    """

    def __init__(self, table: RouteTable, interval_ms: int, clock_ms: Callable[[], int]) -> None:
        self._table = table
        self._interval_ms = interval_ms
        self._clock_ms = clock_ms
        self._looked_ms = 0
        self.waits_for_sockets = False  # the last look was late
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; the first look is one interval from here."""
        self._looked_ms = self._clock_ms()
        self._next()

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._interval_ms / 1000, self._look)

    def _look(self) -> None:
        self._next()
        now_ms, before_ms = self._clock_ms(), self._looked_ms
        self._looked_ms = now_ms
        late = now_ms - before_ms > LATE_INTERVALS * self._interval_ms
        if late and not self.waits_for_sockets:
            log.warning(
                "brokers looked at late after_ms=%d interval_ms=%d; nobody expires before the next"
                " look", now_ms - before_ms, self._interval_ms,
            )  # fmt: skip
            self.waits_for_sockets = True
            return
        self.waits_for_sockets = False
        for channel in self._table.expire():
            if isinstance(channel, Connection):
                channel.close("broker expired")
