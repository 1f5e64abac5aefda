"""What all connections of the broker share."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from aerobee.broker.front.lateness import Lateness
from aerobee.broker.health.faults import Faults
from aerobee.broker.pulls.server import PullServer
from aerobee.broker.sends.fast import FastSends
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.net.connection import Handler


class Stalled(Protocol):
    """A connection that is not read from."""

    remote: str

    def retry(self, *, overdue: bool) -> bool:
        """Go on with what it sent; whether it waits again."""

    def abort(self, reason: str) -> None:
        """Cut it off."""


class Shared(Protocol):
    """What the connections of all ports have in common."""

    live: Live
    lateness: Lateness
    stalls: "Stalls"


class Stalls:
    """Connections that are not read from because the log has no prepared space.

    Each goes on as soon as there is room; after `waitTimeMillsInSendQueue` its requests are refused
    one by one instead, which the client takes as "try another broker".
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        when_progress: Callable[[Callable[[], None]], None],
        live: Live,
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._loop = loop
        self._when_progress = when_progress
        self._live = live
        self._deadlines: dict[Stalled, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._asked = False  # when_progress calls once

    @property
    def _wait_s(self) -> float:
        return self._live.current.wait_time_mills_in_send_queue / 1000

    def add(self, connection: Stalled) -> None:
        """Come back to this connection when there may be room."""
        self._deadlines.setdefault(connection, self._loop.time() + self._wait_s)
        if self._timer is None:
            self._timer = self._loop.call_later(self._wait_s, self._on_timer)
        if not self._asked:
            self._asked = True
            self._when_progress(self._on_progress)

    def retry(self) -> None:
        """Let every stalled connection try again; some may stall anew."""
        now = self._loop.time()
        for connection, deadline in list(self._deadlines.items()):
            try:
                waits = connection.retry(overdue=now >= deadline)
            except Exception as error:  # noqa: BLE001  of this connection alone
                self._faults.caught("stalled connection", error, remote=connection.remote)
                connection.abort("internal error")
                waits = False
            if not waits:
                del self._deadlines[connection]

    def _on_progress(self) -> None:
        self._asked = False
        self._loop.call_soon(self.retry)  # the log reports while it is asked for room by an append

    def _on_timer(self) -> None:
        self._timer = None
        self.retry()
        if self._deadlines and self._timer is None:
            self._timer = self._loop.call_later(self._wait_s, self._on_timer)


class Traffic:
    """Made by `Front`, once for each port; every connection holds one."""

    __slots__ = (
        "dispatcher", "halves", "lateness", "limits", "now_ms", "pulls", "sends", "stalls",
        "store_host", "tick",
    )  # fmt: skip

    def __init__(
        self,
        shared: Shared,
        writing: Writing,
        dispatcher: Handler,
        sends: FastSends,
        pulls: PullServer,
    ) -> None:
        self.limits = shared.live.current.net_limits
        self.dispatcher = dispatcher
        self.sends = sends
        self.pulls = pulls
        self.halves = writing.halves
        self.tick = writing.tick
        self.stalls = shared.stalls
        self.lateness = shared.lateness
        self.store_host = writing.store_host  # 8 or 20 bytes, as in a record
        self.now_ms: Callable[[], int] = wall_clock_ms
