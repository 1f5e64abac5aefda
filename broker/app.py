"""The broker as one object: what it is made of, in which order it starts, in which it stops."""

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aerobee.broker.cluster.parts import Cluster
from aerobee.broker.cluster.twins import LOOK_INTERVAL_MS
from aerobee.broker.cold.lookups import Lookups
from aerobee.broker.cold.parts import Cold
from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.features.feature import Parts
from aerobee.broker.features.listed import Features
from aerobee.broker.front.connection import BrokerConnection
from aerobee.broker.front.lateness import BEAT_S, Lateness
from aerobee.broker.front.ports import Ports
from aerobee.broker.front.traffic import Stalls, Traffic
from aerobee.broker.handover.parts import follow_members
from aerobee.broker.health.metrics import SAMPLE_INTERVAL_S, Metrics
from aerobee.broker.health.troubles import LOOK_INTERVAL_S, Troubles
from aerobee.broker.hooks import Hooks
from aerobee.broker.processors.families import FAMILIES
from aerobee.broker.pulls.broadcasts import BroadcastOffsets
from aerobee.broker.pulls.held import SWEEP_INTERVAL_MS, Holds
from aerobee.broker.pulls.parts import PullParts
from aerobee.broker.pulls.server import NoPulls, Pull, Pulls
from aerobee.broker.sends.fast import FastSends
from aerobee.broker.sends.parts import Sends
from aerobee.broker.sends.retries import Retries
from aerobee.broker.sends.storing import Storing
from aerobee.broker.settings.changes import SettingsChanges
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.start import reports
from aerobee.broker.start.context import Context
from aerobee.broker.start.hosts import record_host
from aerobee.broker.start.lowered_offsets import lower_offsets
from aerobee.broker.start.slow_recovery import told_while_slow
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.clocks import steady_clock_ms, wall_clock_ms
from aerobee.remoting.message.record import host_bytes
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Dispatcher
from aerobee.remoting.net.server_log import tell_start
from aerobee.remoting.net.tasks import Tasks
from aerobee.storage.store import MessageStore

if TYPE_CHECKING:
    from aerobee.broker.http.app import HttpServer

log = logging.getLogger(__name__)

EXPIRY_INTERVAL_S: Final = 10.0  # ClientHousekeepingService
EARLY: Final = 0.9  # of a flush interval: no flush is later than promised
GEN0_THRESHOLD: Final = 50_000  # messages leave nothing for the collector; state is frozen


class Broker:
    """One broker on the running event loop.

    `start` returns when the broker serves; `stop` when everything acknowledged is on disk, the
    nameservers know that it is gone, and `abort` is removed; OSError says then that a table could
    not be saved. Errors of a start: StoreError (locked, damaged, not writable), OSError (port in
    use), TlsError.
    """

    def __init__(self, settings: BrokerSettings, config_file: Path | None = None) -> None:
        self.live = Live(settings)
        self._config_file = config_file  # where settings that are changed at run time are kept
        self.port = settings.listen_port
        self.context: Context
        self.store = MessageStore(settings.store)
        self._metrics = Metrics()
        self._troubles = Troubles(self.store, time.monotonic)
        self._tasks = Tasks(self.failed)
        self._pool: ConnectionPool | None = None
        self._ports = Ports()
        self._features = Features()
        self._http: HttpServer | None = None
        self._closing: list[Callable[[], object]] = []
        self._traffic: Traffic
        self._fast_traffic: Traffic
        self._pulls: Pulls
        self._tables: Tables

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force at this moment."""
        return self.live.current

    @property
    def hooks(self) -> Hooks:
        """Functions of the embedding program that see messages pass."""
        return self.context.hooks

    @property
    def http_port(self) -> int | None:
        """Where the HTTP side listens, None without one."""
        return self._http.port if self._http is not None else None

    async def start(self) -> None:
        """Open the store, recover, bind the ports, tell the nameservers, serve."""
        loop = asyncio.get_running_loop()
        tell_start(log, "broker", self.settings)
        await self._features.load(self.settings)
        with told_while_slow(self.store):
            self.store.open()
        try:
            self.port = await self._ports.open(
                self.settings,
                lambda: self._connection(self._traffic),
                lambda: self._connection(self._fast_traffic),
            )
            self._build(loop, self.port)  # before the first client gets its turn
        except BaseException:
            await self._ports.close()
            self.store.close()
            raise
        try:
            await self._begin(loop)
        except BaseException:  # it was cancelled, or ended by a signal: what is open is closed
            await self.stop()
            raise

    async def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell the nameservers, and start what goes on beside the requests.

        All of it goes on until `stop`: a round that raises is counted and the next one comes; a
        task that ends all the same, by whatever, is counted and begins anew after a second
        (`Tasks.keep`, `aerobee_faults_total`). HTTP alone is started once: the broker serves
        without it.
        """
        self._watch_store(loop)
        await self.context.cluster.twins.before_start()
        await self.context.cluster.registration.start()
        keep, tables = self._tasks.keep, self._tables
        flush_interval_s = self.store.settings.flush_interval_ms / 1000
        self._tasks.every(LOOK_INTERVAL_MS, self.context.cluster.twins.look, "twins")
        for interval_s, work, name in (
            (BEAT_S, self.context.lateness.beat, "lateness"),
            (SWEEP_INTERVAL_MS / 1000, self.context.pulls.holds.sweep, "held pulls"),
            (EXPIRY_INTERVAL_S, self._expire, "expiry"),
            (SAMPLE_INTERVAL_S, self._sample, "samples"),
            (LOOK_INTERVAL_S, self._troubles.look, "troubles"),
            (flush_interval_s * EARLY, self.store.tick, "flush"),
        ):
            keep(partial(self._every, interval_s, work), name)
        keep(self.context.cluster.registration.run, "registration")
        keep(partial(tables.save, self.live), "tables")
        for feature in self._features:
            for name, goes_on in feature.background():
                keep(goes_on, name)
        self._tasks.start(self._start_http(), "http")
        self._features.start()
        reports.serves(self.context, self.port)
        gc.collect()
        gc.freeze()
        gc.set_threshold(GEN0_THRESHOLD, *gc.get_threshold()[1:])

    async def stop(self) -> None:
        """Stop cleanly; what was acknowledged is on disk when this returns."""
        began_s = reports.stops(self.context)
        if self._http is not None:
            await self._http.stop()
        await self._tasks.close()
        self.context.lateness.rest()
        self._features.stop()
        self.context.cold.reads.close()
        await self.context.cluster.registration.stop()
        await self._answer_all()
        await self._ports.close()
        self.context.writing.tick.commit()
        if self._pool is not None:
            await self._pool.close()
        for undo in self._closing:
            undo()
        unsaved = self._tables.save_now()  # a full disk is no reason to leave the log open
        self.store.close()
        unsaved = self._features.close() or unsaved
        reports.stopped(self.context, began_s, unsaved)
        if unsaved is not None:
            raise unsaved

    async def _answer_all(self) -> None:
        """Commit, and answer whoever waits for the disk, before the connections are closed.

        Else those producers would send the same again to another broker. Bounded by the time-out
        of a synchronous flush; whoever sends meanwhile takes his chance.
        """
        answered = asyncio.Event()
        self.context.writing.tick.commit()
        self.context.writing.tick.when_durable(lambda flushed: answered.set())
        with suppress(TimeoutError):
            await asyncio.wait_for(
                answered.wait(), self.store.settings.sync_flush_timeout_ms / 1000
            )

    def _apply(self, settings: BrokerSettings) -> None:
        """Make anew what was made from settings, after the parts that it is made of."""
        context = self.context
        for traffic in (self._traffic, self._fast_traffic):
            traffic.sends = FastSends(settings, context.writing, context.store_host)
        self._traffic.pulls = self._pulls = Pulls(settings, self.context.pulls)

    def _connection(self, traffic: Traffic) -> Connection:
        made, context = BrokerConnection(traffic), self.context
        made.on_closed += (
            context.consumers.members.closed,
            context.consumers.handovers.closed,
            context.pulls.holds.closed,
            context.cold.reads.closed,
        )
        return made

    def _build(self, loop: asyncio.AbstractEventLoop, port: int) -> None:
        """Make every part of the broker and connect them."""
        settings, store, live = self.settings, self.store, self.live
        live.on_change(lambda changed: store.apply(changed.store))
        self._tables = tables = Tables.load(live)
        topics = tables.topics
        lower_offsets(tables.offsets, store)
        self._pool = ConnectionPool(tls=settings.calls_tls)
        host, address = (settings.broker_ip1, port), f"{settings.broker_ip1}:{port}"
        store_host = host_bytes(*record_host(*host))
        faults = self._metrics.faults
        writing = Writing.over(loop, live, store, store_host, faults)
        reads, tick, queues = ColdReads(loop, live), writing.tick, writing.queues
        holds = self._make_holds(loop)
        consumers = follow_members(loop, live, tables, queues, holds, self._tasks.start, faults)
        self._features.make(Parts(
            live, writing, reads, wall_clock_ms, loop.call_later, self._troubles.met,
            consumers.members.sql_filters.languages,
        ))  # fmt: skip
        retries = Retries(
            topics, tables.groups, settings.delay_levels_ms,
            consumers.locks.is_ordered, self._metrics.dead_letter,
        )  # fmt: skip
        broadcasts = BroadcastOffsets(consumers.members, tables.offsets, store, wall_clock_ms)
        lateness, hooks = self._make_lateness(loop, waits=tick.sync), Hooks(queues.forget_checks)
        storing = Storing(live, writing, self._features.placers, self._troubles.met, wall_clock_ms)
        self.context = Context(
            live=live,
            store=store,
            tables=tables,
            writing=writing,
            cold=Cold(reads, Lookups(store, tick.commit_log, reads)),
            consumers=consumers,
            ports=self._ports,
            cluster=Cluster.at(address, live, topics, self._pool, self.failed),
            sends=Sends.over(live, topics, retries, hooks, storing),
            pulls=PullParts(
                writing=writing,
                tables=tables,
                members=consumers.members,
                owners=consumers.handovers,
                holds=holds,
                broadcasts=broadcasts,
                cold_reads=reads,
                hooks=hooks,
                metrics=self._metrics,
            ),
            features=self._features,
            hooks=hooks,
            lateness=lateness,
            metrics=self._metrics,
            troubles=self._troubles,
            changes=self._make_changes(),
            now_ms=wall_clock_ms,
            host=host,
            store_host=store_host,
        )
        tick.wake, tick.slow_write = holds.wake, lateness.wrote
        topics.on_changed.append(lambda config: queues.forget_checks())
        self._build_traffic(loop)

    def _make_changes(self) -> SettingsChanges:
        return SettingsChanges(
            self.live, self._config_file, wall_clock_ms, prepare=self._features.load
        )

    def _make_lateness(self, loop: asyncio.AbstractEventLoop, *, waits: bool) -> Lateness:
        flusher = self.store.flusher
        return Lateness(
            self.live, loop.call_soon, sync_s=lambda: flusher.log_sync_s if waits else 0.0
        )

    def _make_holds(self, loop: asyncio.AbstractEventLoop) -> Holds:
        return Holds(
            self._serve_again,
            steady_clock_ms,
            self.settings.held_pulls_max,
            self.settings.held_pulls_per_connection_max,
            loop.call_soon,
            lambda pull, error: self._pulls.failed(pull, error),
        )

    def _build_traffic(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make what connections need, from the context."""
        settings, store, context = self.settings, self.store, self.context
        self._pulls = Pulls(settings, self.context.pulls)
        self._traffic = Traffic(
            lateness=context.lateness,
            limits=settings.net_limits,
            dispatcher=Dispatcher(
                context, (*FAMILIES, *self._features.routes), self._tasks.start, self.failed
            ),
            sends=FastSends(settings, context.writing, context.store_host),
            pulls=self._pulls,
            tick=context.writing.tick,
            stalls=Stalls(loop, store.allocator.when_progress, self.live, context.metrics.faults),
            store_host=context.store_host,
            now_ms=wall_clock_ms,
        )
        self._fast_traffic = replace(self._traffic, pulls=NoPulls())
        for keeper in (self._tables, *self._features):
            self._troubles.files += keeper.files
        self.live.on_change(self._apply)

    def _serve_again(self, pull: Pull, expired: bool) -> bool:
        return self._pulls.serve_again(pull, expired)

    def _watch_store(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear from the flusher and from the helper that prepares the log."""
        for watched in (self.store.flusher, self.store.allocator):
            fd = watched.fileno()
            if fd >= 0:
                loop.add_reader(fd, watched.on_readable)
                self._closing.append(partial(loop.remove_reader, fd))

    def _expire(self) -> None:
        expired_ms = self.settings.channel_expired_timeout
        for connection in self.context.consumers.members.expire(
            expired_ms, int(EXPIRY_INTERVAL_S * 1000)
        ):
            connection.close("no heartbeat")

    def failed(self, what: str, error: BaseException) -> None:
        """Count and log an error that ended a task, a round of one, or a callback."""
        self._metrics.faults.caught(what, error)

    def _sample(self) -> None:
        self.context.metrics.sample(self.context.writing.queues.used())

    async def _every(self, interval_s: float, work: Callable[[], None]) -> None:
        """Call `work` again and again; what it raises is logged and does not end it."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                work()
            except Exception as error:  # noqa: BLE001  the next round comes all the same
                name = getattr(work, "__qualname__", str(work))
                self.context.metrics.faults.caught("periodic work", error, work=name)

    async def _start_http(self) -> None:
        """Start the HTTP side after the ports are bound: its imports take a quarter second."""
        port = self.settings.http_port_wanted
        if port is None:
            return
        from aerobee.broker.http.app import HttpServer

        try:
            self._http = await HttpServer.start(self.context, self.settings.http_host, port)
        except OSError as error:
            log.error("http not served error=%s", error)
