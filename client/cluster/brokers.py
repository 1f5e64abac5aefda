"""Reaches the brokers of queues, also those that have moved since their route was looked up."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.routes import MASTER_ID, RouteCache
from aerobee.client.message import MessageQueue
from aerobee.remoting.command import Command
from aerobee.remoting.errors import NotConnected, Unavailable
from aerobee.remoting.headers.typed import Header
from aerobee.remoting.net.connection import Connection

T = TypeVar("T")
Place = tuple[str, int]
"""A broker's address, and its id among those of its name."""


class Brokers:
    """The brokers that routes name, over connections on which they know us by one name.

    A client instance has two: one over the connections on which it is a member of its groups, and
    one on which it is a stranger to all.
    """

    def __init__(self, connections: Connections, routes: RouteCache) -> None:
        self.connections = connections
        self.routes = routes

    async def call_broker(
        self, queue: MessageQueue, code: int, header: Header, timeout_ms: int
    ) -> Command:
        """Call the master of the queue's broker; raises BrokerRefused, Unavailable."""

        async def call(address: str) -> Command:
            return await self.connections.request(address, code, header, timeout_ms=timeout_ms)

        _, reply = await self._reach(queue, self._find_master, call)
        return reply

    async def connect_to_master(self, queue: MessageQueue) -> Connection:
        """Return the connection to the master of the queue's broker; raises Unavailable."""
        _, connection = await self._reach(queue, self._find_master, self.connections.connect)
        return connection

    async def connect_to_read(
        self, queue: MessageQueue, broker_id: int
    ) -> tuple[Place, Connection]:
        """Return where to read a queue, and the connection to it; raises Unavailable."""

        async def find(queue: MessageQueue) -> Place:
            return await self.find_to_read(queue, broker_id)

        return await self._reach(queue, find, self.connections.connect)

    def reads_at(
        self, queue: MessageQueue, broker_id: int, place: Place, connection: Connection
    ) -> bool:
        """Whether `connect_to_read` would return these, of which the connection is open."""
        self.routes.keep(queue.topic)
        found = self.routes.reading_address(queue.broker_name, broker_id)
        return found == place and self.connections.open(place[0]) is connection

    async def find_to_read(self, queue: MessageQueue, broker_id: int) -> Place:
        """Return where to read a queue: at this replica, or another where there is none."""
        self.routes.keep(queue.topic)
        found = self.routes.reading_address(queue.broker_name, broker_id)
        if found is None:
            await self.routes.refresh(queue.topic)
            found = self.routes.reading_address(queue.broker_name, broker_id)
        if found is None:
            raise Unavailable(f"no route names broker {queue.broker_name}")
        return found

    async def _find_master(self, queue: MessageQueue) -> Place:
        return await self.routes.broker_address(queue), MASTER_ID

    async def _reach(
        self,
        queue: MessageQueue,
        find: Callable[[MessageQueue], Awaitable[Place]],
        ask: Callable[[str], Awaitable[T]],
    ) -> tuple[Place, T]:
        """Ask where a queue's broker is said to be, and once more where it has moved meanwhile."""
        place = await find(queue)
        try:
            return place, await ask(place[0])
        except NotConnected:
            if not await self.routes.has_moved(queue, place[0]):
                raise
        place = await find(queue)
        return place, await ask(place[0])
