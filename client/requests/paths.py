"""The connections on which replies come: one to each broker that a replier may choose."""

import asyncio
import logging
from typing import Any, Final

from aerobee.client.cluster.routes import MASTER_ID, TopicRoute
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.errors import NotConnected
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import REPLY_SUFFIX

log = logging.getLogger(__name__)

WAIT_S: Final = 1.0
"""How long a request waits for a broker that it does not go to itself; it goes without, then."""
RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 1.0


class ReplyPaths:
    """Sees to it that every broker with a cluster's reply topic knows the producer that asks.

    A replier sends to any of them, and that one pushes to a connection on which it has had the
    requester's heartbeat, or fails. Java's client beats at the brokers of its topics' routes alone.
    `losses` counts connections to them that ended; while requests wait, they are made anew.
    `asked` are the requests of this producer that wait.
    """

    def __init__(self, instance: ClientInstance) -> None:
        self.losses = 0
        self.asked: set[asyncio.Future[ReceivedMessage]] = set()
        self._instance = instance
        self._tasks = Tasks()
        self._topics: set[str] = set()  # reply topics
        self._watched: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Any]] = {}
        self._failing: set[str] = set()  # whom nobody waits for until it is reached again
        self._mending = False

    async def close(self) -> None:
        """End what waits with NotConnected, and make no connection any more."""
        for waiting in self.asked:
            if not waiting.done():
                waiting.set_exception(NotConnected("the producer was closed before the reply came"))
        self._topics.clear()
        await self._tasks.close()

    async def make(self, route: TopicRoute) -> None:
        """Connect to every broker from which the reply to a request by this route may come.

        One that is not reached within WAIT_S is left to the replier, who tries another.
        """
        topics = {cluster + REPLY_SUFFIX for cluster in route.clusters}
        if topics <= self._topics and not self._missing():
            return
        self._topics |= topics
        routes = self._instance.routes
        for topic in topics:
            routes.keep(topic)
        unknown = [each for each in topics if routes.known(each) is None]
        if unknown:
            await routes.refresh_all(unknown)
        missing = self._missing()
        self._failing.intersection_update(missing)
        await self._wait_for([each for each in missing if each not in self._failing])
        if self._missing():
            self._mend_soon()

    def _missing(self) -> list[str]:
        """The masters that have a reply topic and may not know this client at the moment."""
        known = [self._instance.routes.known(topic) for topic in sorted(self._topics)]
        addresses = [
            brokers[MASTER_ID]
            for route in known
            if route is not None
            for brokers in route.brokers.values()
            if MASTER_ID in brokers
        ]
        return [each for each in addresses if not self._is_watched(each)]

    def _is_watched(self, address: str) -> bool:
        connection = self._watched.get(address)
        return connection is not None and not connection.closed

    async def _wait_for(self, addresses: list[str]) -> None:
        tasks = [task for each in addresses if (task := self._begin(each)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=WAIT_S)

    def _begin(self, address: str) -> asyncio.Task[Any] | None:
        """Begin to connect, unless that is under way; all who need it wait for one task."""
        task = self._connecting.get(address)
        if task is None:
            task = self._tasks.start(self._introduce(address), "reply connection")
            if task is not None:
                self._connecting[address] = task
                task.add_done_callback(lambda _: self._connecting.pop(address, None))
        return task

    async def _introduce(self, address: str) -> None:
        """Let a broker know the groups of this client, and hear of the connection's end."""
        await self._instance.heartbeats.introduce(address)
        connection = self._instance.connections.open(address)
        if connection is None:
            self._failing.add(address)
            return
        self._failing.discard(address)
        if self._watched.get(address) is not connection:
            self._watched[address] = connection
            connection.on_closed.append(lambda gone: self._lost(address, gone))

    def _lost(self, address: str, connection: Connection) -> None:
        if self._watched.get(address) is connection:
            del self._watched[address]
        self.losses += 1
        self._mend_soon()

    def _mend_soon(self) -> None:
        if self._topics and not self._mending and len(self._instance.replies):
            self._mending = self._tasks.start(self._mend(), "reply connections") is not None

    async def _mend(self) -> None:
        """Connect again, wherever the brokers are now, until all are there or nobody waits."""
        pause_s = RETRY_MIN_S
        try:
            while len(self._instance.replies) and (missing := self._missing()):
                await self._wait_for(missing)
                if not self._missing():
                    break
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)
                await self._instance.routes.refresh_all(sorted(self._topics))
        finally:
            self._mending = False
