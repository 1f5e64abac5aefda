"""Looks for brokers that fell silent, as often as scanNotActiveBrokerInterval says."""

import asyncio

from aerobee.namesrv.route_table import RouteTable
from aerobee.remoting.net.connection import Connection


class Expiry:
    """A timer over the route table: expired brokers are forgotten, their connections closed."""

    def __init__(self, table: RouteTable, interval_ms: int) -> None:
        self._table = table
        self._interval_s = interval_ms / 1000
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; the first look is one interval from here."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._interval_s, self._look)

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.start()
        for channel in self._table.expire():
            if isinstance(channel, Connection):
                channel.close("broker expired")
