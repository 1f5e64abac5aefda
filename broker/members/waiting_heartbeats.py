"""Heartbeats that wait for the disk, and what came behind them meanwhile."""

from collections.abc import Iterable

from aerobee.remoting.bodies import HeartbeatData
from aerobee.remoting.net.connection import Connection


class WaitingHeartbeat:
    """The groups that one waiting heartbeat will join: those that nothing newer has spoken of."""

    __slots__ = ("consumers", "producers")

    def __init__(self, data: HeartbeatData) -> None:
        self.consumers = {consumer.group_name for consumer in data.consumer_data_set}
        self.producers = {producer.group_name for producer in data.producer_data_set}


class WaitingHeartbeats:
    """Keeps the order in which a connection said that it comes and goes.

    What is served at once, a 35 or a heartbeat that makes nothing new, overtakes a heartbeat that
    waits. So the groups that it names are taken out of those that wait: who has left stays away,
    and an older subscription replaces no newer one. Bounded by what the waiting heartbeats hold.
    """

    def __init__(self) -> None:
        self._waiting: dict[Connection, list[WaitingHeartbeat]] = {}  # in their order

    def __len__(self) -> int:
        return sum(len(joins) for joins in self._waiting.values())

    def begin(self, connection: Connection, data: HeartbeatData) -> WaitingHeartbeat:
        """A heartbeat begins to wait."""
        join = WaitingHeartbeat(data)
        self._waiting.setdefault(connection, []).append(join)
        return join

    def end(self, connection: Connection, join: WaitingHeartbeat) -> None:
        """It waits no longer: what it joins is newer than what those before it will."""
        joins = self._waiting[connection]
        at = joins.index(join)
        del joins[at]
        self._overtake(joins[:at], join.consumers, join.producers)
        if not joins:
            del self._waiting[connection]

    def overtaken(
        self, connection: Connection, consumers: Iterable[str], producers: Iterable[str]
    ) -> None:
        """Something that came behind all of those that wait speaks of these groups."""
        self._overtake(self._waiting.get(connection, ()), set(consumers), set(producers))

    @staticmethod
    def _overtake(
        joins: Iterable[WaitingHeartbeat], consumers: set[str], producers: set[str]
    ) -> None:
        for join in joins:
            join.consumers -= consumers
            join.producers -= producers
