"""Which brokers serve a topic: asked of the nameservers, kept, and refreshed."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from aerobee.client.cluster.nameservers import Nameservers
from aerobee.client.cluster.outages import Outages
from aerobee.client.errors import BrokerRefused, RouteMissing
from aerobee.client.message import MessageQueue
from aerobee.remoting.bodies import BrokerData, ClusterInfo, QueueData, TopicRouteData, decode_body
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode
from aerobee.remoting.errors import AerobeeError, RequestError, Unavailable
from aerobee.remoting.headers.route import RouteInfoRequest
from aerobee.remoting.net.addresses import BadAddress, parse_address
from aerobee.remoting.net.single_flight import SingleFlight
from aerobee.remoting.queue_counts import QUEUES_MAX, believed

log = logging.getLogger(__name__)

MASTER_ID: Final = 0
AT_A_TIME: Final = 8  # topics that are looked up
MISSED_MAX: Final = 20  # refreshes; a nameserver that was restarted does not know all topics yet
COUNT_DIGITS_MAX: Final = 10
LOOK_S: Final = 1.0  # for where a broker is that was not reached; the look-up itself goes on


class TopicRoute(msgspec.Struct, frozen=True):
    """Where one topic lives: queues to send to, queues to read from, sorted, and the brokers.

    `brokers` maps a broker's name to its addresses by broker id (0 is the master). `assumed` is
    set while the topic does not exist yet and the route is that of the brokers that would create
    it (TopicPublishInfo.java, TopicRouteData.java).
    """

    topic: str
    write_queues: tuple[MessageQueue, ...]
    read_queues: tuple[MessageQueue, ...]
    brokers: dict[str, dict[int, str]]
    ordered: bool = False
    assumed: bool = False
    clusters: frozenset[str] = frozenset()

    def any_broker(self) -> str | None:
        """Return the address of one of the brokers, a master where its name has one.

        Which of the names is left to chance, as in MQClientInstance.findBrokerAddrByTopic.
        """
        return next(iter(self.brokers_in_any_order()), None)

    def brokers_in_any_order(self) -> list[str]:
        """Return one address of each broker, a master where its name has one."""
        named = [addresses for addresses in self.brokers.values() if addresses]
        random.shuffle(named)
        return [each.get(MASTER_ID) or next(iter(each.values())) for each in named]


class RouteCache:
    """Routes by topic and broker addresses by name, of one client instance.

    `on_changed` callbacks get every route that is new or different.
    """

    def __init__(self, nameservers: Nameservers) -> None:
        self.nameservers = nameservers
        self.outages = Outages(log)
        self.routes: dict[str, TopicRoute] = {}
        self.brokers: dict[str, dict[int, str]] = {}
        self.on_changed: list[Callable[[TopicRoute], None]] = []
        self.kept: set[str] = set()
        self._idle: set[str] = set()  # topics that nobody wanted at the last look
        self._missed: Counter[str] = Counter()  # refreshes in a row that found no such topic
        self._fetching: dict[str, SingleFlight[TopicRoute | None]] = {}

    async def get(self, topic: str) -> TopicRoute:
        """Return the topic's route, asking the nameservers if it is not known yet.

        Raises RouteMissing if they do not know it, Unavailable if none of them answers.
        """
        route = self.known(topic)
        if route is None:
            route = await self.refresh(topic)
        if route is None:
            raise await self._missing(topic)
        return route

    def known(self, topic: str) -> TopicRoute | None:
        """Return the topic's route as far as it is known, and the topic exists."""
        route = self.routes.get(topic)
        return None if route is None or route.assumed else route

    async def get_anew(self, topic: str) -> TopicRoute:
        """Return the topic's route as a nameserver knows it now; errors are those of `get`.

        (MQAdminImpl.fetchSubscribeMessageQueues)
        """
        route = await self.refresh(topic)
        if route is None:
            raise await self._missing(topic)
        self.keep(topic)
        return route

    def keep(self, topic: str) -> None:
        """Refresh the topic from now on: queues of it are sent to, read or asked for."""
        self.kept.add(topic)

    async def for_sending(self, topic: str, create_topic_key: str, queues: int) -> TopicRoute:
        """Return a route with queues to send to; for an unknown topic, that of its creators.

        Such a route has `queues` queues on each broker that has `create_topic_key`: the first send
        creates the topic there. Raises RouteMissing if there is no such broker either.
        """
        route = self.routes.get(topic)
        if route is None:
            route = await self.refresh(topic)
        if route is None:
            route = await self._assume(topic, create_topic_key, queues)
        if not route.write_queues:
            raise await self._missing(topic)
        return route

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Ask for the topic's route anew; None if the nameservers do not know it.

        Calls for the same topic at the same time share one request, which goes on whoever of them
        gives up. A known route stays when the topic is gone or nobody answers. Raises Unavailable
        in the latter case.
        """
        fetching = self._fetching.get(topic)
        if fetching is None:
            fetching = self._fetching[topic] = SingleFlight(self._fetch(topic))
            fetching.task.add_done_callback(lambda _: self._fetching.pop(topic))
        return await fetching.wait()

    async def refresh_all(self, topics: Iterable[str]) -> None:
        """Refresh these topics, a few at a time; errors are logged, what is known stays.

        Where no nameserver answers for those, the others are left for the next time.
        """
        left = list(topics)  # a consumer's may change meanwhile
        while left:
            some, left = left[:AT_A_TIME], left[AT_A_TIME:]
            answered = await asyncio.gather(*map(self._refresh_or_log, some))
            if left and not any(answered):
                log.debug("no nameserver answers, %d routes are not refreshed", len(left))
                break
        self._forget_brokers()

    async def _refresh_or_log(self, topic: str) -> bool:
        """Refresh a topic; False if no nameserver answered."""
        try:
            if await self.refresh(topic) is None:
                self._missed[topic] += 1
            else:
                self._missed.pop(topic, None)
        except Unavailable:
            return False  # it is an outage, and told as one
        except AerobeeError as error:
            log.warning("route refresh failed topic=%s error=%s", topic, error)
        return True

    def forget_missing(self, wanted: Collection[str]) -> None:
        """Forget topics that are long gone, but for those that are `wanted` all the same.

        Those that nobody has wanted, or kept, at two calls in a row are forgotten, too.
        """
        for topic in [each for each, times in self._missed.items() if times >= MISSED_MAX]:
            del self._missed[topic]
            if topic not in wanted:
                log.info("route forgotten, there is no such topic any more topic=%s", topic)
                self.kept.discard(topic)
                self.routes.pop(topic, None)
        idle = (self.routes.keys() | self._missed.keys()) - self.kept - set(wanted)
        for topic in idle & self._idle:
            self.routes.pop(topic, None)
            self._missed.pop(topic, None)
        self._idle = idle - self._idle
        self._forget_brokers()

    async def has_moved(self, queue: MessageQueue, address: str) -> bool:
        """Whether a broker that is not reached is said to be elsewhere; False if nobody tells."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self.refresh(queue.topic)
        except (AerobeeError, TimeoutError):
            return False
        addresses = self.brokers.get(queue.broker_name, {}).values()
        return bool(addresses) and address not in addresses

    def learn(self, brokers: Mapping[str, Mapping[int, str]]) -> None:
        """Know where these brokers are, until the next routes, also those that no route names."""
        self.brokers.update({name: dict(addresses) for name, addresses in brokers.items()})

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Return the address of one broker, or None if no route names it."""
        addresses = self.brokers.get(broker_name)
        return addresses.get(broker_id) if addresses else None

    def reading_address(self, broker_name: str, broker_id: int) -> tuple[str, int] | None:
        """Return (address, broker id) to read from: the wished one, else any other of the name."""
        addresses = self.brokers.get(broker_name)
        if not addresses:
            return None
        for wished in (broker_id, broker_id + 1) if broker_id else (broker_id,):
            if wished in addresses:
                return addresses[wished], wished
        return next((address, number) for number, address in addresses.items())

    async def broker_address(self, queue: MessageQueue) -> str:
        """Return the master's address of a queue, looking for its route if needed.

        Raises Unavailable if the queue's broker has no master at present.
        """
        self.kept.add(queue.topic)
        address = self.address(queue.broker_name)
        if address is None:
            await self.get(queue.topic)
            address = self.address(queue.broker_name)
        if address is None:
            raise Unavailable(f"no route names broker {queue.broker_name}")
        return address

    async def _fetch(self, topic: str) -> TopicRoute | None:
        data = await self._ask(topic)
        if data is None:
            return None
        route = parse_route(topic, data)
        self._keep(route)
        return route

    async def _assume(self, topic: str, create_topic_key: str, queues: int) -> TopicRoute:
        data = await self._ask(create_topic_key)
        if data is None:
            missing = await self._missing(topic)
            if missing.no_broker:
                raise missing
            if (found := await self.refresh(topic)) is not None:  # one has registered meanwhile
                return found
            if (data := await self._ask(create_topic_key)) is None:
                raise missing
        route = parse_route(topic, data, queues_max=queues)
        known = self.routes.get(topic)
        if known is not None:  # somebody's refresh found the real one meanwhile
            return known
        route = replace(route, assumed=True)
        self._keep(route)
        return route

    async def _missing(self, topic: str) -> RouteMissing:
        """Return the error for a topic that nobody serves; it says so where there is no broker."""
        namesrv, code = str(self.nameservers), RequestCode.GET_BROKER_CLUSTER_INFO
        connections = self.nameservers.connections
        try:
            reply = await self.nameservers.ask(lambda each: connections.request(each, code))
            no_broker = not decode_body(ClusterInfo, reply.body).broker_addr_table
        except AerobeeError:  # it has answered once; this is about the words
            no_broker = False
        return RouteMissing(topic, namesrv, no_broker=no_broker)

    async def _ask(self, topic: str) -> TopicRouteData | None:
        looking = f"looking for routes at {self.nameservers}"
        try:
            data = await self.nameservers.ask(lambda each: self._ask_one(each, topic))
            self.outages.over(looking)
            return data
        except Unavailable as problem:
            self.outages.failed(looking, problem)
            raise Unavailable(
                f"no nameserver of {self.nameservers} answered for topic {topic!r}: {problem}"
            ) from problem

    async def _ask_one(self, address: str, topic: str) -> TopicRouteData | None:
        """Ask one nameserver; None if it does not know the topic."""
        header = RouteInfoRequest(topic=topic, accept_standard_json_only=True)
        try:
            reply = await self.nameservers.connections.request(
                address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header
            )
            return decode_body(TopicRouteData, reply.body)
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise
        except RequestError as error:  # the answer is no route; another one may have it
            log.warning("route not understood namesrv=%s topic=%s error=%s", address, topic, error)
            raise

    def _keep(self, route: TopicRoute) -> None:
        for name, addresses in route.brokers.items():
            self.brokers[name] = addresses
        if self.routes.get(route.topic) == route:
            return
        self.routes[route.topic] = route
        log.info(
            "route changed topic=%s writeQueues=%d readQueues=%d brokers=%s",
            route.topic,
            len(route.write_queues),
            len(route.read_queues),
            route.brokers,
        )
        for callback in self.on_changed:
            callback(route)

    def _forget_brokers(self) -> None:
        """Forget addresses that no route names any more (MQClientInstance.cleanOfflineBroker)."""
        named = {name for route in self.routes.values() for name in route.brokers}
        for name in list(self.brokers):
            if name not in named:
                del self.brokers[name]


def parse_route(topic: str, data: TopicRouteData, queues_max: int = QUEUES_MAX) -> TopicRoute:
    """Turn a nameserver's reply into queues; only brokers with a master can be sent to.

    Source: MQClientInstance.topicRouteData2TopicPublishInfo and ...2TopicSubscribeInfo.
    """
    brokers = {broker.broker_name: _addresses(broker) for broker in data.broker_datas}
    read: list[MessageQueue] = []
    write: list[MessageQueue] = []
    sound = believed(topic, data.queue_datas)
    for queues in sorted(sound, key=lambda queues: queues.broker_name):
        name = queues.broker_name
        if queues.perm & Perm.READ:
            count = min(queues.read_queue_nums, queues_max)
            read += [MessageQueue(topic, name, number) for number in range(count)]
        if queues.perm & Perm.WRITE and MASTER_ID in brokers.get(name, ()):
            # queues of a topic that does not exist yet follow its creator's read queues
            count = queues.write_queue_nums if queues_max == QUEUES_MAX else queues.read_queue_nums
            write += [MessageQueue(topic, name, number) for number in range(min(count, queues_max))]
    ordered = _ordered_queues(topic, data.order_topic_conf)
    return TopicRoute(
        topic,
        tuple(ordered or write),
        tuple(sorted(read)),
        brokers,
        ordered=bool(ordered),
        clusters=frozenset(broker.cluster for broker in data.broker_datas if broker.cluster),
    )


def _addresses(broker: BrokerData) -> dict[int, str]:
    """Return a broker's addresses by id; one that nobody can connect to harms that one alone."""
    sound: dict[int, str] = {}
    for number, address in broker.broker_addrs.items():
        try:
            parse_address(str(address))
        except BadAddress as error:
            log.warning("broker left out broker=%s id=%s: %s", broker.broker_name, number, error)
        else:
            sound[int(number)] = str(address)
    return sound


def _ordered_queues(topic: str, configuration: str | None) -> list[MessageQueue]:
    """Queues of an ordered topic, "broker-a:8;broker-b:8", whether its brokers live or not."""
    parts = [part.partition(":") for part in (configuration or "").split(";")]
    counts = [
        QueueData(broker_name=name, write_queue_nums=min(int(count), QUEUES_MAX + 1))
        for name, _, count in parts
        if name and count.isdecimal() and len(count) <= COUNT_DIGITS_MAX
    ]
    return [
        MessageQueue(topic, each.broker_name, number)
        for each in believed(topic, counts)
        for number in range(each.write_queue_nums)
    ]
