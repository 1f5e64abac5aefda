"""Where clients come in, as a room: both ports, and what their connections share."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from aerobee.broker.front.administration import WithoutAdministration
from aerobee.broker.front.connection import BrokerConnection
from aerobee.broker.front.lateness import Lateness
from aerobee.broker.front.ports import Ports
from aerobee.broker.front.traffic import Stalls, Traffic
from aerobee.broker.health.faults import Faults
from aerobee.broker.pulls.parts import Pulling
from aerobee.broker.pulls.server import NoPulls
from aerobee.broker.room import Room, Sample
from aerobee.broker.sends.fast import FastSends
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.connection import Connection, Handler

Heard = Callable[[Connection], None]


class Front(Room):
    """Opens the ports before there is anything behind them; `serve` says what there is.

    `host` is where clients reach this broker, `http_port` and `metrics_port` where its HTTP side
    listens, if it does; `connect` makes what serves a socket.
    """

    lateness: Lateness
    stalls: Stalls
    traffic: Traffic
    fast_traffic: Traffic
    admin_traffic: Traffic

    def __init__(self, live: Live) -> None:
        self.live = live
        self.host = (live.current.broker_ip1, live.current.listen_port)
        self.http_port: int | None = None
        self.metrics_port: int | None = None
        self.ports = Ports()
        self.connect: Callable[[Traffic, Budget], BrokerConnection] = BrokerConnection
        self._writing: Writing
        self._pulls: Pulling
        self._hear_of_ends: Sequence[Heard] = ()

    @property
    def address(self) -> str:
        """Where clients reach this broker, as nameservers hear of it."""
        return f"{self.host[0]}:{self.host[1]}"

    async def open(self) -> None:
        """Bind the ports; nobody is served before the next turn of the loop.

        OSError where one is in use, TlsError where the certificate cannot be had.
        """
        settings = self.live.current
        port = await self.ports.open(
            settings,
            lambda budget: self._connection(self.traffic, budget),
            lambda budget: self._connection(self.fast_traffic, budget),
        )
        self.host = (settings.broker_ip1, port)
        await self.ports.open_admin(
            settings, lambda budget: self._connection(self.admin_traffic, budget)
        )

    def watch(self, writing: Writing, faults: Faults) -> None:
        """Look from now on how late the loop comes, and who has to wait for room in the log."""
        loop, store = asyncio.get_running_loop(), writing.store
        waits = writing.tick.sync
        self._writing = writing
        self.lateness = Lateness(
            self.live, loop.call_soon, sync_s=lambda: store.flusher.log_sync_s if waits else 0.0
        )
        self.stalls = Stalls(loop, store.allocator.when_progress, self.live, faults)
        writing.tick.slow_write = self.lateness.wrote

    def serve(self, pulls: Pulling, dispatcher: Handler, hear_of_ends: Sequence[Heard]) -> None:
        """Serve what comes in; `hear_of_ends` are told of each connection that has ended."""
        self._pulls = pulls
        self._hear_of_ends = hear_of_ends
        writing, sends = self._writing, self._fast_sends(self.live.current)
        self.admin_traffic = Traffic(self, writing, dispatcher, sends, pulls.server)
        if self.ports.admin_port is not None:
            dispatcher = WithoutAdministration(dispatcher)
        self.traffic = Traffic(self, writing, dispatcher, sends, pulls.server)
        self.fast_traffic = Traffic(self, writing, dispatcher, sends, NoPulls())
        self.live.on_change(self._apply)

    async def stop(self) -> None:
        """Answer who waits for the disk, then close both ports and every connection."""
        await self._answer_all()
        await self.ports.close()

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of the certificate."""
        ends = "When the certificate of the ports ends"
        return {"aerobee_certificate_expiry_timestamp_seconds": ends}

    def samples(self) -> Iterator[Sample]:
        """Yield when it ends, where there is one."""
        ends_s = self.ports.tls.ends_s() if self.ports.tls is not None else None
        if ends_s is not None:
            yield Sample("aerobee_certificate_expiry_timestamp_seconds", ends_s)

    async def _answer_all(self) -> None:
        """Commit, and answer whoever waits for the disk, before the connections are closed.

        Else those producers would send the same again to another broker. Bounded by the time-out
        of a synchronous flush; whoever sends meanwhile takes his chance.
        """
        answered, tick = asyncio.Event(), self._writing.tick
        tick.commit()
        tick.when_durable(lambda flushed: answered.set())
        timeout_ms = self._writing.store.settings.sync_flush_timeout_ms
        with suppress(TimeoutError):
            await asyncio.wait_for(answered.wait(), timeout_ms / 1000)

    def _connection(self, traffic: Traffic, budget: Budget) -> Connection:
        made = self.connect(traffic, budget)
        made.on_closed.extend(self._hear_of_ends)
        return made

    def _fast_sends(self, settings: BrokerSettings) -> FastSends:
        writing = self._writing
        return FastSends(settings, writing, writing.store_host, writing.queues)

    def _apply(self, settings: BrokerSettings) -> None:
        """Make anew what was made from settings, after the parts that it is made of."""
        for traffic in (self.traffic, self.fast_traffic, self.admin_traffic):
            traffic.sends = self._fast_sends(settings)
        self.take_pulls()

    def take_pulls(self) -> None:
        """Serve pulls by what serves them now."""
        self.traffic.pulls = self.admin_traffic.pulls = self._pulls.server
