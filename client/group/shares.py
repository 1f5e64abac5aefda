"""What falls to one member of a group: its share of a topic's queues."""

from typing import NamedTuple

from aerobee.client.cluster.routes import TopicRoute
from aerobee.client.errors import BrokerRefused, ClientError
from aerobee.client.group.member import Membership
from aerobee.client.group.strategies import Strategy
from aerobee.client.message import MessageQueue
from aerobee.remoting.allocation import sorted_members
from aerobee.remoting.bodies import decode_body, encode_body
from aerobee.remoting.bodies.assignment import QueryAssignmentBody, QueryAssignmentReply
from aerobee.remoting.codes import RequestCode, ResponseCode


class TopicShare(NamedTuple):
    """One topic's queues, the group's members (empty where they are not asked for), and ours."""

    queues: list[MessageQueue]
    client_ids: list[str]
    mine: set[MessageQueue]


class RouteAwaited(ClientError):
    """The topic's route is being asked for; what becomes of that is not known yet."""


class ShareFinder:
    """Finds out what this member owns (RebalanceImpl.rebalanceByTopic).

    Every member computes it by `strategy`; with `by_broker` a broker does (QUERY_ASSIGNMENT), or
    again the member where the broker does not know how. A `broadcasting` member owns everything.
    """

    def __init__(self, member: Membership, strategy: Strategy, *, by_broker: bool = False) -> None:
        self.strategy = strategy
        self._member = member
        self._instance = member.instance
        self._group = member.group
        self._by_broker = by_broker and not member.broadcasting

    async def find(self, topic: str) -> TopicShare:
        """Return this member's share of one topic.

        Raises RouteMissing for a topic that does not exist, RouteAwaited, BrokerRefused,
        Unavailable, ClientError where there is nothing to share or nobody to share with, and what
        the user's strategy raises: then nothing changes.
        """
        route = self._instance.routes.known(topic)
        if route is None:  # a round waits for no nameserver: other topics have to be shared
            self._instance.look_for(topic)
            raise self._instance.unrouted.get(topic) or RouteAwaited(f"route of topic {topic!r}")
        queues = list(route.read_queues)
        if self._member.broadcasting:
            return TopicShare(queues, [], set(queues))
        if self._by_broker:
            try:
                return TopicShare(queues, [], await self._assigned(topic, route))
            except BrokerRefused as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                self._by_broker = False
        client_ids = sorted_members(await self._instance.members(self._group, route))
        if not queues or not client_ids:
            raise ClientError(f"{len(queues)} readable queues for {len(client_ids)} members")
        mine = self.strategy.allocate(self._group, self._instance.client_id, queues, client_ids)
        return TopicShare(queues, client_ids, {queue for queue in mine if queue.topic == topic})

    async def _assigned(self, topic: str, route: TopicRoute) -> set[MessageQueue]:
        """Ask a broker (RebalanceImpl.getRebalanceResultFromBroker)."""
        address = route.any_broker()
        if address is None:
            raise ClientError(f"the route of topic {topic!r} names no broker")
        body = QueryAssignmentBody(
            topic=topic,
            consumer_group=self._group,
            client_id=self._instance.client_id,
            strategy_name=self.strategy.name,
        )
        reply = await self._instance.connections.request(
            address, RequestCode.QUERY_ASSIGNMENT, body=encode_body(body)
        )
        assignments = decode_body(QueryAssignmentReply, reply.body).message_queue_assignments
        if assignments is None:
            raise ClientError(f"{address} knows no assignment of topic {topic!r}")
        if any(each.mode != "PULL" for each in assignments):
            raise ClientError(
                f"group {self._group!r} is to consume topic {topic!r} by pop on {address}; this"
                " client pulls: set the message request mode to PULL, or share in the clients"
            )
        queues = [each.message_queue for each in assignments if each.message_queue is not None]
        return {MessageQueue.of(queue) for queue in queues}
