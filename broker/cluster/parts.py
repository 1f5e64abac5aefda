"""How a broker stands in its cluster, as one: announced, with routes, alone under its name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from aerobee.broker.cluster.announcing import Announcements
from aerobee.broker.cluster.registration import Registration
from aerobee.broker.cluster.routes import TopicRoutes
from aerobee.broker.cluster.twins import Twins
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.clocks import steady_clock_ms
from aerobee.remoting.net.client import ConnectionPool


@dataclass(frozen=True, slots=True)
class Cluster:
    """Made once by the broker; `routes` are those of other brokers' topics."""

    registration: Registration
    announcements: Announcements
    routes: TopicRoutes
    twins: Twins

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
        registration = Registration(live, topics, pool, address, failed)
        routes = TopicRoutes(live, topics, pool, steady_clock_ms)
        return cls(registration, Announcements(registration), routes, Twins(live, pool, address))
