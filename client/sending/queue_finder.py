"""Where a producer's messages can go: the queues of their topics, and the brokers of these."""

import asyncio
from time import monotonic

from aerobee.client.cluster.routes import TopicRoute
from aerobee.client.errors import RouteMissing
from aerobee.client.instance.lifetime import Lifetime
from aerobee.client.message import TOPIC_CHARACTERS_MAX, MessageQueue, check_name
from aerobee.client.sending.arguments import check_timeout
from aerobee.client.sending.attempts import Pauses
from aerobee.client.sending.choice import QueueChoice
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.errors import AerobeeError, NotConnected, Unavailable
from aerobee.remoting.net.connection import Connection


class QueueFinder(Lifetime):
    """A producer as far as it knows routes and connections; `settings` say how long it looks."""

    _role = "producer"

    settings: ProducerSettings
    _choice: QueueChoice

    def _open(self, queue: MessageQueue) -> Connection | None:
        """Return the connection to the queue's master if it is known and open."""
        instance = self._instance or self._started()
        address = instance.routes.address(queue.broker_name)
        return None if address is None else instance.connections.open(address)

    async def _connect(self, queue: MessageQueue, deadline_s: float) -> Connection:
        """Return the connection to the queue's master, made if need be; raises Unavailable."""
        instance = self._started()
        try:
            async with asyncio.timeout(deadline_s - monotonic()):
                return await instance.brokers.connect_to_master(queue)
        except TimeoutError:
            raise NotConnected(
                f"{queue.broker_name}: no connection before the send's time was up"
            ) from None

    def _known_route(self, topic: str) -> TopicRoute | None:
        """Return the topic's route if this producer has sent to it before."""
        route = self._started().routes.routes.get(topic)
        known = route is not None and topic in self._choice.turns and route.write_queues
        return route if known else None

    async def _route(self, topic: str, deadline_s: float | None = None) -> TopicRoute:
        """Return the topic's route, asked for until `deadline_s` where nobody is there to tell.

        A look-up goes on for others that wait when time is up here.
        """
        check_name("topic", topic, TOPIC_CHARACTERS_MAX)
        instance, settings = self._started(), self.settings
        pauses = None
        if deadline_s is not None and settings.retries_max:
            pauses = Pauses(deadline_s)
        told: AerobeeError | None = None
        while True:
            left_s = None if deadline_s is None else deadline_s - monotonic()
            try:
                async with asyncio.timeout(left_s):
                    route = await instance.routes.for_sending(
                        topic, settings.create_topic_key, settings.default_topic_queues
                    )
                break
            except TimeoutError:
                if told is not None:
                    raise told from None
                raise NotConnected(
                    f"no nameserver told the route of topic {topic!r} before the send's time was up"
                ) from None
            except (RouteMissing, Unavailable) as error:
                passes = not isinstance(error, RouteMissing) or error.no_broker
                if not passes or pauses is None or not await pauses.wait():
                    raise
                told = error
        instance.routes.keep(topic)
        self._choice.learn(topic)
        return route

    def _deadline_s(self, timeout_ms: int | None) -> float:
        check_timeout(timeout_ms)
        budget_ms = self.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        return monotonic() + budget_ms / 1000
