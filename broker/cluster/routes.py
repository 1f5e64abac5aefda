"""Where a topic's queues are, on all brokers: asked of a nameserver (TopicRouteInfoManager)."""

import logging
from collections.abc import Callable
from typing import Final

from aerobee.broker.cluster.registration import Caller
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.bodies import QueueBody, TopicRouteData, decode_body
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.route import RouteInfoRequest
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.queue_counts import believed

log = logging.getLogger(__name__)

FRESH_MS: Final = 30_000  # loadBalancePollNameServerInterval
TIMEOUT_S: Final = 3.0
KNOWN_MAX: Final = 10_000


class TopicRoutes:
    """The readable queues of topics, as fresh as clients' own; asked for when somebody asks here.

    Without a nameserver, or while none answers, a topic has the queues of this broker.
    """

    def __init__(
        self,
        live: Live,
        topics: TopicTable,
        caller: Caller,
        now_ms: Callable[[], int],
    ) -> None:
        self._live = live
        self._topics = topics
        self._caller = caller
        self._now_ms = now_ms
        self._known: dict[str, tuple[int, list[QueueBody]]] = {}

    async def queues(self, topic: str) -> list[QueueBody] | None:
        """Return the queues of a topic, None if there is no such topic."""
        at_ms, queues = self._known.get(topic, (0, []))
        if queues and self._now_ms() - at_ms < FRESH_MS:
            return queues
        found = await self._ask(topic)
        if found:
            self._known.pop(topic, None)
            if len(self._known) >= KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[topic] = self._now_ms(), found
        return found

    async def _ask(self, topic: str) -> list[QueueBody] | None:
        header = RouteInfoRequest(topic=topic, accept_standard_json_only=True)
        request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, encode_header(header))
        for address in self._live.current.nameservers:
            try:
                reply = await self._caller.call(address, request, TIMEOUT_S)
                if reply.code == ResponseCode.TOPIC_NOT_EXIST:
                    return None
                if reply.code == ResponseCode.SUCCESS:
                    return _readable(topic, decode_body(TopicRouteData, reply.body))
            except (AerobeeError, OSError) as error:
                log.warning("route unknown topic=%s nameserver=%s error=%s", topic, address, error)
        config = self._topics.get(topic)
        if config is None or not config.perm & Perm.READ:
            return None
        return _of_broker(topic, self._live.current.broker_name, config.read_queue_nums)


def _readable(topic: str, route: TopicRouteData) -> list[QueueBody]:
    return [
        queue
        for data in believed(topic, route.queue_datas)
        if data.perm & Perm.READ
        for queue in _of_broker(topic, data.broker_name, data.read_queue_nums)
    ]


def _of_broker(topic: str, broker_name: str, count: int) -> list[QueueBody]:
    return [
        QueueBody(topic=topic, broker_name=broker_name, queue_id=queue_id)
        for queue_id in range(count)
    ]
