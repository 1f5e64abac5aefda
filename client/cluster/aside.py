"""Calls that take nothing: on connections on which this client is no member."""

from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.routes import RouteCache
from aerobee.client.message import MessageQueue
from aerobee.client.settings import ClientSettings
from aerobee.remoting.command import Command
from aerobee.remoting.errors import NotConnected
from aerobee.remoting.headers._fields import Header
from aerobee.remoting.net.client import refuse_requests


async def call_master(
    connections: Connections,
    routes: RouteCache,
    queue: MessageQueue,
    code: int,
    header: Header,
    timeout_ms: int,
) -> Command:
    """Call the master of the queue's broker, also where that has moved meanwhile.

    Raises BrokerRefused, Unavailable.
    """
    address = await routes.broker_address(queue)
    try:
        return await connections.request(address, code, header, timeout_ms=timeout_ms)
    except NotConnected:
        if not await routes.has_moved(queue, address):
            raise
    address = await routes.broker_address(queue)
    return await connections.request(address, code, header, timeout_ms=timeout_ms)


class Aside:
    """Reaches brokers as a stranger to all groups, as tools do.

    A member that asks for the offset of a queue asks for the queue: the broker makes its owner give
    it up. It also lets a member's pulls of a queue wait while that belongs to another. Who only
    wants to know asks from here, and who reads queues without a share in them pulls and commits
    from here: a member of the same group may use the instance, too, now or later.
    """

    def __init__(self, routes: RouteCache, settings: ClientSettings) -> None:
        self._routes = routes
        self.connections = Connections(settings, refuse_requests)

    async def call_broker(
        self, queue: MessageQueue, code: int, header: Header, timeout_ms: int
    ) -> Command:
        """Call the master of the queue's broker; raises BrokerRefused, Unavailable."""
        return await call_master(self.connections, self._routes, queue, code, header, timeout_ms)

    async def close(self) -> None:
        """Close the connections."""
        await self.connections.close()
