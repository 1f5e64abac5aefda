"""What all the clients of one process share: connections, routes, membership and timers."""

import asyncio
import contextlib
import logging
import math

from aerobee.client.cluster.broker_news import BrokerNews
from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.client_id import find_client_id, make_client_id
from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.nameservers import Nameservers
from aerobee.client.cluster.routes import RouteCache, TopicRoute
from aerobee.client.errors import RouteMissing
from aerobee.client.instance.checkers import Checkers
from aerobee.client.instance.consumer import Consumer
from aerobee.client.instance.heartbeats import Heartbeats
from aerobee.client.instance.processors import routes as client_routes
from aerobee.client.instance.rebalancing import RebalanceService
from aerobee.client.instance.replies import AwaitedReplies
from aerobee.client.pulls.subscriptions import Subscription
from aerobee.client.settings import ClientSettings
from aerobee.remoting.bodies import CheckClientConfig, ConsumerListReply, decode_body, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import AerobeeError, Unavailable
from aerobee.remoting.headers.heartbeat import ConsumerListRequest
from aerobee.remoting.net.client import refuse_requests
from aerobee.remoting.net.routes import Dispatcher
from aerobee.remoting.net.single_flight import SingleFlight
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import RETRY_PREFIX, TAG

log = logging.getLogger(__name__)


class ClientInstance:
    """One client id's presence in a cluster (MQClientInstance.java).

    Producers and consumers of a process share it: one connection per broker, one heartbeat for all
    the groups, one timer each for routes, heartbeats, offsets and rebalancing. `processors.py`
    lists what it answers to brokers.

    `brokers` know it as a member of its groups; others know it `as_stranger` to all, as they know
    tools. A member that asks for the offset of a queue asks for the queue: the broker makes its
    owner give it up. It also lets a member's pulls of a queue wait while that belongs to another.
    Who only wants to know asks as a stranger, and who reads queues without a share in them pulls
    and commits as one: a member of the same group may use the instance, too, now or later.
    """

    def __init__(self, namesrv: tuple[str, ...], settings: ClientSettings) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.users = 0  # open producers and consumers
        self.checkers = Checkers()
        self.groups: set[str] = set()  # consumer groups that have, or are about to have, a member
        self._namesrv = namesrv[0]
        self._identifying: SingleFlight[None] | None = None
        self.unrouted: dict[str, AerobeeError] = {}  # subscribed topics, and why they have no route
        self._persisting: set[str] = set()  # groups whose offsets are on their way
        self._look: asyncio.TimerHandle | None = None  # at routes, because of a change
        self._looked_s = -math.inf  # when that was done last
        self._tasks = Tasks()
        dispatch = Dispatcher(
            self, [client_routes], lambda work: self._tasks.start(work, "client request")
        )
        self.connections = Connections(settings, dispatch)
        nameservers = Nameservers(self.connections, namesrv, settings.unit_name)
        self._address_server = nameservers.address_server
        self.routes = RouteCache(nameservers)
        self.routes.on_changed.append(self._route_changed)
        BrokerNews(self.connections, self.routes)
        self.brokers = Brokers(self.connections, self.routes)
        self.as_stranger = Brokers(Connections(settings, refuse_requests), self.routes)
        self.heartbeats = Heartbeats(
            make_client_id(self._namesrv, settings),
            self.brokers,
            self._tasks,
            settings.api_timeout_ms,
        )
        self.heartbeats.on_greeted.append(self._greeted)
        self.consumers = self.heartbeats.consumers
        self.replies = AwaitedReplies()
        self.rebalancing = RebalanceService(settings, self.consumers)

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client; empty until `identify`."""
        return self.heartbeats.client_id

    def start(self) -> None:
        """Start the timers."""
        settings = self.settings
        if self._address_server is not None:
            interval_ms = settings.namesrv_interval_ms
            self._tasks.every(interval_ms, self._address_server.refresh, "nameserver addresses")
        self._tasks.every(settings.route_interval_ms, self._refresh_routes, "routes")
        self._tasks.every(settings.heartbeat_interval_ms, self.heartbeats.send_all, "heartbeats")
        self._tasks.every(settings.offsets_interval_ms, self._persist_offsets, "offsets")
        self._tasks.start(self.rebalancing.run(), "rebalance")

    async def close(self) -> None:
        """Stop the timers and close the connections, all of them even when it is cancelled."""
        if self._look is not None:
            self._look.cancel()
        async with contextlib.AsyncExitStack() as last:  # each of them, the last one first
            last.push_async_callback(self.connections.close)
            last.push_async_callback(self.as_stranger.connections.close)
            last.push_async_callback(self._tasks.close)

    # --- who is here ---

    async def identify(self) -> None:
        """Wait until this client has its id, before anybody is told of it."""
        if not self.client_id:
            if self._identifying is None:
                self._identifying = SingleFlight(self._identify())
            await self._identifying.wait()

    async def _identify(self) -> None:
        self.heartbeats.client_id = await find_client_id(self._namesrv, self.settings)

    async def add_producer(self, group: str) -> None:
        """Mention a producer group in heartbeats from now on."""
        self.heartbeats.producers[group] += 1
        await self.heartbeats.send_all()

    async def remove_producer(self, group: str) -> None:
        """Tell all brokers that the last producer of the group is gone."""
        producers = self.heartbeats.producers
        producers[group] -= 1
        if producers[group] <= 0:
            del producers[group]
            try:
                await self.heartbeats.unregister(producer_group=group)
            except BaseException:
                self.heartbeats.say_goodbye(producer_group=group)
                raise

    async def add_consumer(self, consumer: Consumer) -> None:
        """Join a group: heartbeat to all brokers of its topics, then share the queues."""
        self.consumers[consumer.group] = consumer
        self.rebalancing.joining.add(consumer.group)
        try:
            await self.routes.refresh_all(consumer.topics())
            await self.heartbeats.send_all()
            retries = [topic for topic in consumer.topics() if topic.startswith(RETRY_PREFIX)]
            await self.routes.refresh_all(retries)  # each broker made it when it heard of the group
        finally:
            self.rebalancing.joining.discard(consumer.group)
        self.rebalance_soon(at_once=True)

    async def add_topic(self, topic: str) -> None:
        """Tell of a topic that a member has subscribed to late; its group goes on meanwhile."""
        await self.routes.refresh_all([topic])
        await self.heartbeats.send_all()
        self.rebalance_soon(at_once=True)

    async def leave(self, consumer: Consumer) -> None:
        """Leave a group: give up its queues, then tell all brokers; cancelled, at once."""
        try:
            await self.rebalancing.leave(consumer)
            await self.heartbeats.unregister(consumer_group=consumer.group)
        except BaseException:
            self.vanish(consumer)
            raise

    def vanish(self, consumer: Consumer) -> None:
        """Leave a group without waiting for anything: brokers are told by one-way frames."""
        self.rebalancing.forget(consumer)
        self.heartbeats.say_goodbye(consumer_group=consumer.group)

    def look_for(self, topic: str) -> None:
        """Ask for the route of a topic without waiting for it; it is shared when it is there."""
        self._tasks.start(self._find_route(topic), f"route of {topic}")

    async def _find_route(self, topic: str) -> None:
        try:
            await self.routes.get(topic)
        except AerobeeError as error:
            self.unrouted[topic] = error
        else:
            self.unrouted.pop(topic, None)

    async def members(self, group: str, route: TopicRoute) -> list[str]:
        """Return the client ids that share the group's queues, in the words of a broker.

        Where one does not answer the others are asked: as long as the route names a broker that is
        gone, queues on the living ones must be shared. Raises BrokerRefused while the group has no
        member there, Unavailable when none answers.
        """
        silent: Unavailable | None = None
        for address in route.brokers_in_any_order():
            try:
                reply = await self.connections.request(
                    address,
                    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
                    ConsumerListRequest(consumer_group=group),
                )
            except Unavailable as error:
                silent = error
            else:
                return list(decode_body(ConsumerListReply, reply.body).consumer_id_list)
        if silent is not None:
            raise silent
        return []

    async def check_subscription(self, group: str, subscription: Subscription) -> None:
        """Let a broker of the topic compile a subscription that is not by tags.

        Raises BrokerRefused, with its remark, for one that it cannot read or does not allow; a
        cluster that cannot be reached is no reason to fail (MQClientInstance.checkClientInBroker).
        """
        if subscription.expression_type == TAG:
            return
        try:
            address = (await self.routes.get(subscription.topic)).any_broker()
            if address is None:
                return
            body = CheckClientConfig(
                client_id=self.client_id, group=group, subscription_data=subscription.body()
            )
            await self.connections.request(
                address, RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body)
            )
        except (Unavailable, RouteMissing) as error:
            log.warning("subscription not checked topic=%s error=%s", subscription.topic, error)

    # --- on events ---

    def heartbeat_soon(self) -> None:
        """Send a heartbeat without waiting for it: a subscription has a new version."""
        self._tasks.start(self.heartbeats.send_all(), "heartbeat")

    def members_changed(self, group: str) -> None:
        """A broker says that members of a group came or went, or want one of its queues.

        One that knows of other brokers shares otherwise, and each would take the other's queues: so
        routes are asked for, too, by a round of their own.
        """
        log.info("members changed group=%s", group)
        if (consumer := self.consumers.get(group)) is not None:
            consumer.members_changed()
            if self._look is None:  # as often as rounds may follow each other; a change starts one
                loop = asyncio.get_running_loop()
                due_s = self._looked_s + self.settings.rebalance_gap_ms / 1000
                self._look = loop.call_at(max(loop.time(), due_s), self._look_again)

    def rebalance_soon(self, *, at_once: bool = False) -> None:
        """Share the queues anew as soon as the gap after the last rounds allows, or at once."""
        self.rebalancing.soon(at_once=at_once)

    def _greeted(self) -> None:
        if self.consumers:
            self.rebalance_soon()

    def _look_again(self) -> None:
        self._look = None
        self._looked_s = asyncio.get_running_loop().time()
        refreshing = self.routes.refresh_all(sorted(self._subscribed()))
        self._tasks.start(refreshing, "routes after a change")

    def _route_changed(self, route: TopicRoute) -> None:
        if any(route.topic in consumer.topics() for consumer in self.consumers.values()):
            self._tasks.start(self._share_anew(), "route changed")

    async def _share_anew(self) -> None:
        await self.heartbeats.send_all()  # a new broker must know the group before it is asked
        self.rebalance_soon()

    # --- timers ---

    async def _refresh_routes(self) -> None:
        wanted = self._subscribed() | self.checkers.topics()
        self.unrouted = {topic: why for topic, why in self.unrouted.items() if topic in wanted}
        await self.routes.refresh_all(sorted(wanted | self.routes.kept))
        self.routes.forget_missing(wanted)

    def _subscribed(self) -> set[str]:
        return {topic for each in self.consumers.values() for topic in each.topics()}

    async def _persist_offsets(self) -> None:
        """Begin a round for each group whose last one is over: none waits for another's broker."""
        for consumer in self.consumers.values():
            if consumer.group not in self._persisting:
                self._tasks.start(self._persist_group(consumer), "offsets")

    async def _persist_group(self, consumer: Consumer) -> None:
        self._persisting.add(consumer.group)
        try:
            await consumer.persist_offsets()
        finally:
            self._persisting.discard(consumer.group)
