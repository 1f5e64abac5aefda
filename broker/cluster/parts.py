"""How a broker stands in its cluster, as a room: announced, with routes, alone under its name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from aerobee.broker.cluster.announcing import Announcements
from aerobee.broker.cluster.registration import Registrar
from aerobee.broker.cluster.routes import TopicRoutes
from aerobee.broker.cluster.twins import LOOK_INTERVAL_MS, Twins
from aerobee.broker.room import Room, Sample, Work
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.clocks import steady_clock_ms
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection, Handler
from aerobee.remoting.net.limits import NetLimits

if TYPE_CHECKING:
    from aerobee.remoting.net.access.credentials import SessionCredentials


class OutgoingCalls(Room):
    """Connections to other servers; they outlive those of clients, who may wait for an answer."""

    def __init__(self, live: Live) -> None:
        settings = live.current
        self.pool = ConnectionPool(tls=settings.calls_tls, kind=_kind(settings.credentials))

    async def stop(self) -> None:
        """Close them."""
        await self.pool.close()


def _kind(
    credentials: "SessionCredentials | None",
) -> Callable[[Handler, NetLimits, Budget], Connection]:
    """Return what calls go by; what signs is not loaded where nothing is signed."""
    if credentials is None:
        return Connection
    from aerobee.remoting.net.access.signing import SigningConnection

    return partial(SigningConnection, credentials=credentials)


@dataclass(frozen=True)
class ClusterStanding(Room):
    """Made once by the broker; `routes` are of other brokers' topics, `calls` go to all servers."""

    registration: Registrar
    announcements: Announcements
    routes: TopicRoutes
    twins: Twins
    calls: ConnectionPool

    @classmethod
    def at(
        cls,
        address: str,
        live: Live,
        topics: TopicTable,
        pool: ConnectionPool,
        failed: Callable[[str, BaseException], None],
    ) -> Self:
        """Make it for a broker that clients reach at `address`; `pool` calls the nameservers."""
        registration = Registrar(live, topics, pool, address, failed)
        routes = TopicRoutes(live, topics, pool, steady_clock_ms)
        twins = Twins(live, pool, address)
        return cls(registration, Announcements(registration), routes, twins, pool)

    async def start(self) -> None:
        """Look who has this name, then tell the nameservers of this broker."""
        await self.twins.before_start()
        await self.registration.start()

    async def stop(self) -> None:
        """Take leave of the nameservers."""
        await self.registration.stop()

    def background(self) -> Iterable[Work]:
        """Look for another broker of the name; register again and again."""
        return (
            Work("twins", self.twins.look, LOOK_INTERVAL_MS / 1000),
            Work("registration", self.registration.run),
        )

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell who knows this broker."""
        return {
            "aerobee_name_in_use": "Whether another broker serves under this name, 1 or 0",
            "aerobee_nameservers_registered": "Nameservers that know this broker",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield who does."""
        known = sum(server.knows_us for server in self.registration.nameservers)
        yield Sample("aerobee_name_in_use", int(bool(self.twins.at)))
        yield Sample("aerobee_nameservers_registered", known)
