"""What all the clients of one process share: connections, routes, membership and timers."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Coroutine, Iterable
from typing import Any, Final, Protocol

from aerobee.client.connections import Connections
from aerobee.client.errors import BrokerRefused, RouteMissing
from aerobee.client.message import MessageQueue
from aerobee.client.rebalance import Ownership, any_broker
from aerobee.client.route_cache import MASTER_ID, RouteCache, TopicRoute
from aerobee.client.serving import routes as client_routes
from aerobee.client.settings import ClientSettings
from aerobee.client.subscriptions import TAG, Subscription
from aerobee.remoting.bodies import (
    CheckClientConfig,
    ConsumerData,
    ConsumerListReply,
    HeartbeatData,
    ProducerData,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError, Unavailable
from aerobee.remoting.headers._fields import Header, encode_header
from aerobee.remoting.headers.heartbeat import (
    ConsumerListRequest,
    HeartbeatRequest,
    UnregisterClientRequest,
)
from aerobee.remoting.msgpack_header import EXT_MSGPACK
from aerobee.remoting.net.addresses import parse_address
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Dispatcher
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)

ROUNDS_PER_GAP: Final = 10  # of rebalancing, on request


class Consumer(Protocol):
    """What an instance needs of a consumer that is a member of a group."""

    group: str
    ownership: Ownership | None  # None: the queues are given, not shared

    def topics(self) -> Iterable[str]:
        """Topics whose routes have to be kept fresh."""
        ...

    def heartbeat_data(self) -> ConsumerData:
        """The group's entry in a heartbeat."""
        ...

    async def persist_offsets(self) -> None:
        """Store what was consumed; called every few seconds."""
        ...


class ClientInstance:
    """One client id's presence in a cluster (MQClientInstance.java).

    Producers and consumers of a process share it: one connection per broker, one heartbeat for all
    the groups, one timer each for routes, heartbeats, offsets and rebalancing. `serving.py` lists
    what it answers to brokers.
    """

    def __init__(self, namesrv: tuple[str, ...], settings: ClientSettings) -> None:
        self.settings = settings
        self.users = 0  # open producers and consumers
        self.groups: set[str] = set()  # consumer groups that have, or are about to have, a member
        self.client_id = make_client_id(namesrv[0], settings)
        self._tasks = Tasks()
        dispatch = Dispatcher(
            self, [client_routes], lambda work: self._tasks.start(work, "client request")
        )
        self.connections = Connections(settings, dispatch)
        self.connections.on_connected.append(self._greet)
        self.routes = RouteCache(self.connections, namesrv)
        self.routes.on_changed.append(self._route_changed)
        self.consumers: dict[str, Consumer] = {}
        self._joining: set[str] = set()
        self._producers: Counter[str] = Counter()
        self._kept_topics: set[str] = set()
        self._greetings: dict[str, asyncio.Task[Any]] = {}
        self._rebalance_wanted = asyncio.Event()
        self._rebalance_now = asyncio.Event()
        self._round = asyncio.Lock()

    def start(self) -> None:
        """Start the timers."""
        settings = self.settings
        self._tasks.every(settings.route_interval_ms, self._refresh_routes, "routes")
        self._tasks.every(settings.heartbeat_interval_ms, self.heartbeat, "heartbeats")
        self._tasks.every(settings.offsets_interval_ms, self._persist_offsets, "offsets")
        self._tasks.start(self._rebalance_forever(), "rebalance")

    async def close(self) -> None:
        """Stop the timers and close the connections."""
        await self._tasks.close()
        await self.connections.close()

    # --- who is here ---

    async def add_producer(self, group: str) -> None:
        """Mention a producer group in heartbeats from now on."""
        self._producers[group] += 1
        await self.heartbeat()

    async def remove_producer(self, group: str) -> None:
        """Tell all brokers that the last producer of the group is gone."""
        self._producers[group] -= 1
        if self._producers[group] <= 0:
            del self._producers[group]
            await self._unregister(producer_group=group)

    async def add_consumer(self, consumer: Consumer) -> None:
        """Join a group: heartbeat to all brokers of its topics, then share the queues."""
        self.consumers[consumer.group] = consumer
        self._joining.add(consumer.group)  # until all brokers know it as a member
        try:
            await self.routes.refresh_all(consumer.topics())
            await self.heartbeat()
        finally:
            self._joining.discard(consumer.group)
        self.rebalance_soon(at_once=True)

    async def leave(self, consumer: Consumer) -> None:
        """Leave a group: give up its queues, then tell all brokers."""
        async with self._round:  # no round may hand this consumer another queue
            self.consumers.pop(consumer.group, None)
            if consumer.ownership is not None:
                await consumer.ownership.release_all()
        await self._unregister(consumer_group=consumer.group)

    def keep_route(self, topic: str) -> None:
        """Refresh the topic's route with the others: it is sent to, or read by assignment."""
        self._kept_topics.add(topic)

    async def members(self, group: str, route: TopicRoute) -> list[str]:
        """Return the client ids that share the group's queues, in the broker's words.

        Raises BrokerRefused while the group has no member there, Unavailable.
        """
        address = any_broker(route.brokers)
        if address is None:
            return []
        reply = await self.connections.request(
            address,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            ConsumerListRequest(consumer_group=group),
        )
        return list(decode_body(ConsumerListReply, reply.body).consumer_id_list)

    async def check_subscription(self, group: str, subscription: Subscription) -> None:
        """Let a broker of the topic compile a subscription that is not by tags.

        Raises BrokerRefused, with its remark, for one that it cannot read or does not allow; a
        cluster that cannot be reached is no reason to fail (MQClientInstance.checkClientInBroker).
        """
        if subscription.expression_type == TAG:
            return
        try:
            address = any_broker((await self.routes.get(subscription.topic)).brokers)
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

    # --- calls by queue ---

    async def call_broker(
        self, queue: MessageQueue, code: int, header: Header, timeout_ms: int
    ) -> Command:
        """Call the master of the queue's broker; raises BrokerRefused, Unavailable."""
        address = await self.routes.broker_address(queue)
        return await self.connections.request(address, code, header, timeout_ms=timeout_ms)

    async def tell_broker(self, queue: MessageQueue, code: int, header: Header) -> None:
        """Send a one-way request to the master of the queue's broker; raises Unavailable."""
        address = await self.routes.broker_address(queue)
        await self.connections.oneway(address, code, encode_header(header))

    # --- heartbeats ---

    async def heartbeat(self) -> None:
        """Tell every broker which groups are here; failures are logged.

        Producers are announced to masters alone (MQClientInstance.sendHeartbeatToAllBroker).
        """
        addresses = {
            address
            for brokers in self.routes.brokers.values()
            for broker_id, address in brokers.items()
            if self.consumers or broker_id == MASTER_ID
        }
        if addresses and (self.consumers or self._producers):
            await asyncio.gather(*(self._heartbeat_to(address) for address in addresses))

    def heartbeat_soon(self) -> None:
        """Send a heartbeat without waiting for it: a subscription has a new version."""
        self._tasks.start(self.heartbeat(), "heartbeat")

    async def _heartbeat_to(self, address: str) -> None:
        try:
            connection = self.connections.open(address)
            if connection is None:
                await self.connections.connect(address)  # which greets
                if (greeting := self._greetings.get(address)) is not None:
                    await asyncio.wait([greeting])
            else:
                await self._beat(address, connection)
        except AerobeeError as error:
            log.warning("heartbeat failed broker=%s error=%s", address, error)

    def _beat(self, address: str, connection: Connection) -> Coroutine[Any, Any, None]:
        """Send a heartbeat before returning; what is returned waits for the reply."""
        data = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self._producers],
            consumer_data_set=[consumer.heartbeat_data() for consumer in self.consumers.values()],
        )
        ext = encode_header(HeartbeatRequest(msgpack=True))
        timeout_s = self.settings.api_timeout_ms / 1000
        reply = connection.begin(RequestCode.HEART_BEAT, ext, encode_body(data), timeout_s)
        return self._beaten(address, connection, reply)

    async def _beaten(
        self, address: str, connection: Connection, waiting: asyncio.Future[Command]
    ) -> None:
        reply = await waiting
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerRefused(reply.code, reply.remark, address)
        if reply.ext.get(EXT_MSGPACK) == "true":
            connection.msgpack = True  # from the next request on, on this connection alone

    def _greet(self, address: str, connection: Connection) -> None:
        """Make a heartbeat the first request on a new connection to a broker.

        The broker forgot the members whose connection was lost; until the heartbeat it would
        refuse their pulls and share their queues among the others.
        """
        known = any(address in brokers.values() for brokers in self.routes.brokers.values())
        if not known or not (self.consumers or self._producers):
            return
        introduction = self._introduce(address, self._beat(address, connection))
        greeting = self._tasks.start(introduction, "greeting")
        if greeting is not None:
            self._greetings[address] = greeting

    async def _introduce(self, address: str, beaten: Coroutine[Any, Any, None]) -> None:
        try:
            await beaten
        except AerobeeError as error:
            log.warning("heartbeat failed broker=%s error=%s", address, error)
        finally:
            self._greetings.pop(address, None)
        if self.consumers:
            self.rebalance_soon()

    async def _unregister(
        self, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        header = UnregisterClientRequest(
            client_id=self.client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        addresses = {at for brokers in self.routes.brokers.values() for at in brokers.values()}
        await asyncio.gather(*(self._unregister_at(address, header) for address in addresses))

    async def _unregister_at(self, address: str, header: Header) -> None:
        if self.connections.open(address) is None:
            return  # the broker has noticed that the connection closed
        try:
            await self.connections.request(address, RequestCode.UNREGISTER_CLIENT, header)
        except AerobeeError as error:
            log.warning("unregister failed broker=%s error=%s", address, error)

    # --- rebalancing ---

    def members_changed(self, group: str) -> None:
        """A broker says that members of a group came or went."""
        log.info("members changed group=%s", group)
        self.rebalance_soon()

    def rebalance_soon(self, *, at_once: bool = False) -> None:
        """Start a round as soon as the gap after the last one allows, or at once."""
        self._rebalance_wanted.set()
        if at_once:
            self._rebalance_now.set()

    async def _rebalance_forever(self) -> None:
        """Rounds on request, every 20 s, and every second while queues are missing.

        RebalanceService.java leaves a second between any two rounds; here a few may follow each
        other, so that a member gives up its queues before another one takes them over.
        """
        loop = asyncio.get_running_loop()
        gap_s = self.settings.rebalance_gap_ms / 1000
        wait_s = self.settings.rebalance_interval_ms / 1000
        ended: deque[float] = deque(maxlen=ROUNDS_PER_GAP)
        while True:
            await _wait(self._rebalance_wanted, wait_s)
            if len(ended) == ROUNDS_PER_GAP:
                await _wait(self._rebalance_now, ended[0] + gap_s - loop.time())
            self._rebalance_wanted.clear()
            self._rebalance_now.clear()
            balanced = False
            try:
                balanced = await self._rebalance()
            except Exception:
                log.exception("rebalance failed")
            ended.append(loop.time())
            wait_s = (self.settings.rebalance_interval_ms / 1000) if balanced else gap_s

    async def _rebalance(self) -> bool:
        async with self._round:
            members = [
                consumer.ownership
                for consumer in self.consumers.values()
                if consumer.ownership is not None and consumer.group not in self._joining
            ]
            planned = [await ownership.plan() for ownership in members]
            await asyncio.gather(*(ownership.release() for ownership in members))
            if any(ownership.takes_over() for ownership in members):
                await asyncio.sleep(self.settings.takeover_delay_ms / 1000)
            taken = [await ownership.take() for ownership in members]
            return all(planned) and all(taken)

    # --- timers ---

    async def _refresh_routes(self) -> None:
        topics = set(self._kept_topics)
        for consumer in self.consumers.values():
            topics.update(consumer.topics())
        await self.routes.refresh_all(sorted(topics))

    async def _persist_offsets(self) -> None:
        for consumer in list(self.consumers.values()):
            await consumer.persist_offsets()

    def _route_changed(self, route: TopicRoute) -> None:
        if any(route.topic in consumer.topics() for consumer in self.consumers.values()):
            self._tasks.start(self._share_anew(), "route changed")

    async def _share_anew(self) -> None:
        await self.heartbeat()  # a broker that is new must know the group before it is asked
        self.rebalance_soon()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set or time is up."""
    if seconds > 0 and not event.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


def make_client_id(namesrv: str, settings: ClientSettings) -> str:
    """Return "ip@instance[@unit]" by which brokers know this client (ClientConfig.java)."""
    instance = settings.instance_name or f"{os.getpid()}#{time.time_ns()}"
    parts = [settings.client_ip or local_ip(namesrv), instance]
    if settings.unit_name:
        parts.append(settings.unit_name)
    return "@".join(parts)


def local_ip(namesrv: str) -> str:
    """Return the address of this machine from which the nameserver is reached; sends nothing."""
    host, port = parse_address(namesrv)
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((host, port))
            except OSError:
                continue
            return str(probe.getsockname()[0])
    return "127.0.0.1"
