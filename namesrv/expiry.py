"""Looks for brokers that fell silent, as often as scanNotActiveBrokerInterval says."""

import asyncio

from aerobee.namesrv.route_table import RouteTable
from aerobee.remoting.clocks import LateLooks
from aerobee.remoting.net.connection import Connection


class Expiry:
    """A timer over the route table: expired brokers are forgotten, their connections closed.

    Not by a look that comes late: what brokers said meanwhile is still to be read.
    """

    def __init__(self, table: RouteTable, interval_ms: int, lateness: LateLooks) -> None:
        self._table = table
        self._interval_ms = interval_ms
        self._lateness = lateness
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; the first look is one interval from here."""
        self._lateness.begin()
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
        if self._lateness.is_late(self._interval_ms, "brokers"):
            return
        for channel in self._table.expire():
            if isinstance(channel, Connection):
                channel.close("broker expired")
