"""Tells a user when a topic has other queues than before."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from aerobee.client.cluster.routes import TopicRoute
from aerobee.client.message import MessageQueue

if TYPE_CHECKING:
    from aerobee.client.instance.client_instance import ClientInstance

log = logging.getLogger(__name__)

TopicQueuesChanged = Callable[[str, list[MessageQueue]], None]
"""Called with (topic, all its readable queues)."""


class TopicWatch:
    """Callbacks by topic (DefaultLitePullConsumerImpl.fetchTopicMessageQueuesAndCompare)."""

    def __init__(self) -> None:
        self._callbacks: dict[str, TopicQueuesChanged] = {}
        self._known: dict[str, tuple[MessageQueue, ...]] = {}
        self._instance: ClientInstance | None = None

    def add(self, topic: str, callback: TopicQueuesChanged) -> None:
        """Call `callback` from now on; it replaces the topic's former one."""
        self._callbacks[topic] = callback
        if self._instance is not None:
            self._follow(self._instance, topic)

    async def start(self, instance: "ClientInstance") -> None:
        """Look at the topics as they are now, and at all later routes."""
        self._instance = instance
        instance.routes.on_changed.append(self._changed)
        await instance.routes.refresh_all(list(self._callbacks))
        for topic in self._callbacks:
            self._follow(instance, topic)

    def stop(self) -> None:
        """Call nobody any more."""
        if self._instance is not None:
            self._instance.routes.on_changed.remove(self._changed)
            self._instance = None
            self._known.clear()

    def _follow(self, instance: "ClientInstance", topic: str) -> None:
        instance.routes.keep(topic)
        route = instance.routes.routes.get(topic)
        if route is not None:
            self._known[topic] = route.read_queues

    def _changed(self, route: TopicRoute) -> None:
        callback = self._callbacks.get(route.topic)
        if callback is None or route.assumed:
            return
        before = self._known.get(route.topic)
        self._known[route.topic] = route.read_queues
        if before is None or before == route.read_queues:
            return
        try:
            callback(route.topic, list(route.read_queues))
        except Exception:
            log.exception("on_topic_queues_changed failed topic=%s", route.topic)
