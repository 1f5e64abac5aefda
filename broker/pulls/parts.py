"""What serves pulls, as a room, and what it needs of those above it."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Protocol

from aerobee.broker.cold.parts import Cold
from aerobee.broker.compiled.choice import guard_copies
from aerobee.broker.health.parts import Health
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.members.registry import Members
from aerobee.broker.pulls.broadcasts import BroadcastOffsets
from aerobee.broker.pulls.held import SWEEP_INTERVAL_MS, HoldLimits, Holds
from aerobee.broker.pulls.pull import Pull
from aerobee.broker.pulls.read_positions import ReadPositions
from aerobee.broker.pulls.server import PullProcessor
from aerobee.broker.room import Room, Sample, Work
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.clocks import steady_clock_ms, wall_clock_ms
from aerobee.remoting.net.connection import Connection

GUARD_INTERVAL_S: Final = 1.0


class Owners(Protocol):
    """Who may read and commit of a group's queues, while they go from one member to another."""

    @property
    def watched(self) -> Collection[Connection]:
        """Connections whose pulls somebody must look at; the others may read."""

    @property
    def fresh(self) -> Collection[Connection]:
        """Connections that have just come, and may be those of a member that was here."""

    def is_settled(self, connection: Connection, key: GroupQueue) -> bool:
        """Whether nothing depends on pulls and commits of one that is fresh and not watched."""

    def takes_commit(self, connection: Connection, key: GroupQueue, offset: int) -> bool:
        """Whether a commit counts."""

    def begin_pull(
        self, connection: Connection, key: GroupQueue, offset: int = 0, *, finished: bool = False
    ) -> bool:
        """A pull has come; False if it must wait as on an empty queue."""

    def may_pull(self, connection: Connection, key: GroupQueue) -> bool:
        """Whether a pull that waited may read now."""

    def goes_on_at(self, connection: Connection, key: GroupQueue, offset: int) -> int | None:
        """Where a pull has to go on that may read now; None: where it is."""


class Following(Protocol):
    """Who is connected, and who has which queue."""

    @property
    def members(self) -> Members:
        """Who is connected."""

    @property
    def handovers(self) -> Owners:
        """Who has which queue."""


class Pulling(Room):
    """Everything that serves pulls; `server` does it by the settings in force.

    Hand-overs look at the pulls that wait, and pulls ask hand-overs: so this is made first, and
    `follow` tells it of them.
    """

    members: Members
    owners: Owners
    broadcasts: BroadcastOffsets
    server: PullProcessor
    make: Callable[[BrokerSettings, "Pulling"], PullProcessor] = PullProcessor

    def __init__(
        self, live: Live, writing: Writing, tables: Tables, cold: Cold, health: Health
    ) -> None:
        self._live = live
        self.on_made: list[Callable[[], None]] = []  # others serve pulls from now on
        self.writing = writing
        self.tables = tables
        self.cold_reads = cold.reads
        self.views = cold.views
        self.hooks = writing.hooks
        self.metrics = health.metrics
        self.faults = health.faults
        limits = HoldLimits(live.current.held_pulls_max, live.current.held_pulls_per_connection_max)
        loop = asyncio.get_running_loop()
        self.holds = Holds(self, steady_clock_ms, limits, loop.call_soon)
        self.on_closed = (self.holds.closed,)
        writing.tick.wake = self.holds.wake

    def follow(self, consumers: Following) -> None:
        """Serve these from now on."""
        self.members = consumers.members
        self.owners = consumers.handovers
        self.broadcasts = BroadcastOffsets(
            self.members, self.tables.offsets, self.writing.store, wall_clock_ms
        )
        reads = ReadPositions(self.tables.offsets, self.members, self.writing.store)
        self.writing.store.log_cache.wanted_from = reads.lowest
        self._apply(self._live.current)
        self._live.on_change(self._apply)

    def serve_with(self, make: Callable[[BrokerSettings, "Pulling"], PullProcessor]) -> None:
        """Have pulls served by what is made so, now and whenever settings change."""
        self.make = make
        self._apply(self._live.current)
        for made in self.on_made:
            made()

    def serve_again(self, pull: Pull, expired: bool) -> bool:
        """Run a pull that has waited once more; see `PullProcessor`."""
        return self.server.serve_again(pull, expired)

    def failed(self, pull: Pull, error: Exception) -> None:
        """Answer a pull whose serving raised; see `PullProcessor`."""
        self.server.failed(pull, error)

    def background(self) -> Iterable[Work]:
        """Answer those whose time is up; see that copies are safe in a program that has others."""
        return (
            Work("held pulls", self.holds.sweep, SWEEP_INTERVAL_MS / 1000),
            Work("guarded copies", guard_copies, GUARD_INTERVAL_S),
        )

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of those that wait."""
        return {"aerobee_held_pulls": "Pulls that wait for a message"}

    def samples(self) -> Iterator[Sample]:
        """Yield how many do."""
        yield Sample("aerobee_held_pulls", self.holds.count)

    def _apply(self, settings: BrokerSettings) -> None:
        guard_copies()
        self.server = self.make(settings, self)
