"""The broker as one object: the list of its rooms, started in order, stopped in the reverse."""

import asyncio
import logging
from itertools import chain
from pathlib import Path

from aerobee.broker.cluster.parts import ClusterStanding, OutgoingCalls
from aerobee.broker.cold.parts import Cold
from aerobee.broker.features.feature import Parts
from aerobee.broker.features.listed import DOORS, FEATURES, Features
from aerobee.broker.front.parts import Front
from aerobee.broker.handover.parts import Consumers
from aerobee.broker.health.background import Background
from aerobee.broker.health.parts import Health
from aerobee.broker.processors.families import FAMILIES
from aerobee.broker.pulls.parts import Pulling
from aerobee.broker.room import Room
from aerobee.broker.sends.parts import Sending
from aerobee.broker.sends.retries import Retries
from aerobee.broker.settings.changes import SettingsChanges
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.start import reports
from aerobee.broker.start.context import Context
from aerobee.broker.start.hosts import record_host
from aerobee.broker.start.lowered_offsets import lower_offsets
from aerobee.broker.start.slow_recovery import told_while_slow
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.hooks import BrokerHooks
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.message.record import host_bytes
from aerobee.remoting.net.logs.server_log import tell_start
from aerobee.remoting.net.routes import Dispatcher
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)


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
        self.context: Context
        self.store = MessageStore(settings.store)
        self.rooms: list[Room] = []
        self._health = Health(self.store)
        self._background = Background(self._health.faults, self.rooms)
        self._front = Front(self.live)
        self.features = Features[Parts](FEATURES, self._background)
        self._doors = Features[Context](DOORS, self._background)

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force at this moment."""
        return self.live.current

    @property
    def hooks(self) -> BrokerHooks:
        """Functions of the embedding program that see messages pass."""
        return self.context.writing.hooks

    @property
    def port(self) -> int:
        """Where clients reach it; as the settings have it until it is bound."""
        return self._front.host[1]

    @property
    def http_port(self) -> int | None:
        """Where the HTTP side listens, None without one."""
        return self._front.http_port

    @property
    def metrics_port(self) -> int | None:
        """Where metrics alone are told (`metricsExporterType=PROM`), None without it."""
        return self._front.metrics_port

    def failed(self, what: str, error: BaseException) -> None:
        """Count and log an error that ended a task, or a callback."""
        self._health.faults.caught(what, error)

    async def start(self) -> None:
        """Open the store, recover, bind the ports, tell the nameservers, serve."""
        tell_start(log, "broker", self.settings)
        await self._load(self.settings)
        with told_while_slow(self.store):
            self.store.open()
        try:
            await self._front.open()
            self._build()  # before the first client gets its turn
        except BaseException:
            await self._front.ports.close()
            self.store.close()
            raise
        try:
            for room in tuple(self.rooms):  # one that comes meanwhile is started by `Background`
                await room.start()
            reports.serves(self.context, self.port)
        except BaseException:  # it was cancelled, or ended by a signal: what is open is closed
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop cleanly; what was acknowledged is on disk when this returns."""
        began_s = reports.stops(self.context)
        for room in reversed(tuple(self.rooms)):  # none is left out if another comes meanwhile
            await room.stop()
        unsaved = None
        for room in self.rooms:
            unsaved = room.close() or unsaved
        reports.stopped(self.context, began_s, unsaved)
        if unsaved is not None:
            raise unsaved

    async def _load(self, settings: BrokerSettings) -> None:
        await self.features.load(settings)
        await self._doors.load(settings)

    def _build(self) -> None:
        """Make every room, connect them, and put them in order."""
        live, store, front, health = self.live, self.store, self._front, self._health
        faults, background = health.faults, self._background
        live.on_change(lambda changed: store.apply(changed.store))
        tables = Tables.load(live)
        lower_offsets(tables.offsets, store)
        tables.topics.has_light = store.queues.has_light
        calls, store_host = OutgoingCalls(live), host_bytes(*record_host(*front.host))
        writing = Writing.over(asyncio.get_running_loop(), live, store, store_host, faults)
        front.watch(writing, faults)
        cold = Cold(live, store, writing.tick.commit_log)
        pulls = Pulling(live, writing, tables, cold, health)
        consumers = Consumers(live, tables, writing.queues, pulls.holds, background)
        parts = Parts(live, writing, cold, health, consumers.members, tables)
        features = self.features.make(live, parts, tables.topics)
        retries = Retries(
            tables.topics, tables.groups, self.settings.delay_levels_ms,
            consumers.locks.is_ordered, health.metrics.dead_letter,
        )  # fmt: skip
        placers = [each.placer for each in features if each.placer is not None]
        cluster = ClusterStanding.at(front.address, live, tables.topics, calls.pool, faults.caught)
        pulls.follow(consumers)
        self.context = context = Context(
            changes=SettingsChanges(live, self._config_file, wall_clock_ms, prepare=self._load),
            store=store,
            tables=tables,
            writing=writing,
            cold=cold,
            consumers=consumers,
            cluster=cluster,
            front=front,
            sends=Sending(live, writing, retries, placers, health.troubles.met),
            pulls=pulls,
            health=health,
            rooms=self.rooms,
        )
        tables.topics.on_changed.append(lambda config: writing.queues.forget_checks())
        self.rooms += (
            tables, calls, writing, front, cluster, consumers, pulls, cold, *features,
            front.lateness, health, background, *self._doors.make(live, context, tables.topics),
        )  # fmt: skip
        health.watch(self.rooms, writing.queues.used)
        families = (*FAMILIES, *(room.answers for room in self.rooms if room.answers is not None))
        if context.audit is not None:
            families = tuple(context.audit.around(families))
        watching = health.requests if self.settings.enable_remoting_metrics else None
        dispatcher = Dispatcher(context, families, background.run, faults.caught, watching)
        context.dispatcher = dispatcher
        hear_of_ends = tuple(chain.from_iterable(room.on_closed for room in self.rooms))
        front.serve(pulls, dispatcher, hear_of_ends)
        for room in self.rooms:
            room.before_requests()
