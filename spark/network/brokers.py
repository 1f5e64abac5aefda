"""The brokers of a cluster, asked what queues there are, and where these begin and end.

What a store at rest tells by its files, running brokers tell over the network: the nameservers
name topics and brokers (206, 105, 106), the brokers their queues' offsets (30, 31, 29). Aerobee's
and RocketMQ's answer alike. Nobody joins a group, and nothing is stored at a broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

import numpy as np

from aerobee.client.cluster.routes import TopicRoute
from aerobee.client.errors import BrokerRefused, RouteMissing
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.raw import RawPull
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.bodies import TopicList
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import CorruptRecord, ProtocolError, RequestError, Unavailable
from aerobee.remoting.words import LIGHT_QUEUE_PREFIX
from aerobee.spark.errors import ClusterUnreachable, OptionError
from aerobee.spark.network.cluster import BUSY_CODES, ConnectedCluster
from aerobee.spark.offsets import BrokerQueue, Offsets, QueueRange
from aerobee.spark.options.values import near
from aerobee.spark.records.headers import Records
from aerobee.spark.records.layout import Ints
from aerobee.spark.records.replies import ReplyBuffer, find_records
from aerobee.spark.records.unwrapping import unwrapped
from aerobee.spark.topics import ALL_TOPICS, TopicChoice

log = logging.getLogger(__name__)

AT_ONCE: Final = 256  # questions that wait for their answers at a time
MESSAGES_AT_ONCE: Final = 32  # of those that a whole message answers, which may have 4 MiB
SAMPLES: Final = 4  # queues whose messages are looked at for their size
SAMPLE_MESSAGES: Final = 32
TRIES: Final = 3  # of a question; a broker that restarts is back in between
RETRY_DELAY_S: Final = 0.3  # doubled each time
RUBBISH: Final = (RequestError, ProtocolError, CorruptRecord)  # a reply that cannot be understood

T = TypeVar("T")
R = TypeVar("R")


class Network(ConnectedCluster):
    """A cluster as the driver sees it; connections stay open until `close`.

        with Network(NetworkAddress(("127.0.0.1:9876",))) as network:
            bounds = network.bounds(TopicChoice(names=frozenset({"orders"})))

    Every method may be called from any thread, a running event loop or not. Each raises
    ClusterUnreachable where a nameserver or broker that is needed does not answer.
    """

    # --- what there is ---

    def brokers(self) -> list[str]:
        """The names of the brokers that have registered, sorted."""
        entries = self.run(self._patient(self.directory.brokers, "its brokers"))
        return sorted({entry.name for entry in entries})

    def bounds(
        self, choice: TopicChoice = ALL_TOPICS, *, missing_fails: bool = True
    ) -> dict[BrokerQueue, QueueRange]:
        """Each wanted queue's messages, from its earliest up to its latest offset.

        Queues that may not be read are left out. Raises OptionError for topics and queues that
        are named and that there are not; `missing_fails=False` leaves them out.
        """
        return self.run(self._bounds(choice, missing_fails))

    def offsets_at(self, keys: Iterable[BrokerQueue], timestamp_ms: int) -> Offsets:
        """The first offset of each queue with a store timestamp of `timestamp_ms` or later.

        It is never too high, too low by the messages of one millisecond at most, and the latest
        offset where there is none.
        """
        # brokers before 5.0 answer with any message of the wanted millisecond: ask for the last one
        return self.run(
            self._ask_all(keys, lambda q: self.queue_offsets.at_time(q, timestamp_ms - 1))
        )

    def earliest(self, keys: Iterable[BrokerQueue]) -> Offsets:
        """The earliest offset of each queue."""
        return self.run(self._ask_all(keys, self.queue_offsets.oldest))

    def latest(self, keys: Iterable[BrokerQueue]) -> Offsets:
        """The latest offset of each queue: that of the next message to come."""
        return self.run(self._ask_all(keys, self.queue_offsets.newest))

    def record_bytes(self, ranges: Sequence[QueueRange]) -> int:
        """About how long a record of the ranges is, by a few of the largest ones; at least 1."""
        return self.run(self._sample(ranges))

    def record_sizes(self, key: BrokerQueue, start: int) -> Ints:
        """The sizes of a queue's next records from an offset on, as many as one pull brings."""

        async def ask() -> Ints:
            reply = await self._peek(key, start)
            data, bounds = ReplyBuffer().join([reply.body])
            sizes: Ints = find_records(data, bounds)[1].astype(np.int64)
            return sizes

        return self.run(self._patient(ask, f"queue {key}"))

    def messages_at(self, offsets: Offsets) -> dict[BrokerQueue, tuple[int, int]]:
        """Log position and store timestamp (ms) of the message at an offset of each queue.

        Left out where no broker tells: it is away, or has no message there. One that does not
        answer for a queue is not asked for its others.
        """
        silent: set[str] = set()
        ask = partial(self._message_at, silent)
        found = self.run(_each(ask, list(offsets.items()), MESSAGES_AT_ONCE))
        return {key: each for key, each in zip(offsets, found, strict=True) if each is not None}

    def deleted(self, keys: Iterable[BrokerQueue]) -> frozenset[BrokerQueue]:
        """Those of the queues whose topic was deleted: their broker is there, and knows none such.

        Of a broker that has not registered, or does not answer, nothing is known.
        """
        return self.run(self._deleted(keys))

    def check_writable(self, topic: str) -> None:
        """Raise OptionError unless messages can be sent to the topic, or would create it."""
        usual = ProducerSettings()
        key, queues = usual.create_topic_key, usual.default_topic_queues
        ask = self._patient(
            lambda: self.routes.for_sending(topic, key, queues), f"topic {topic}", RouteMissing
        )
        try:
            self.run(ask)
        except RouteMissing as error:
            raise OptionError(f"option topic: {error}") from error

    # --- within ---

    async def _bounds(
        self, choice: TopicChoice, missing_fails: bool
    ) -> dict[BrokerQueue, QueueRange]:
        topics = await self._topics(choice)
        routes = await _each(self._route, topics)
        unreadable = [
            topic
            for topic, route in zip(topics, routes, strict=True)
            if route is None or not route.read_queues
        ]
        if missing_fails and choice.named and unreadable:
            await self._refuse_topic(unreadable[0], choice)
        keys = [
            BrokerQueue(queue.broker_name, queue.topic, queue.queue_id)
            for route in routes
            if route is not None
            for queue in route.read_queues
        ]
        if missing_fails and choice.queues is not None and (gone := choice.queues - set(keys)):
            raise OptionError(
                f"option assign: there is no queue {min(gone)} to read at {self.address}"
            )
        keys = sorted(key for key in keys if choice.wants_queue(key))
        low = await self._ask_all(keys, self.queue_offsets.oldest)
        high = await self._ask_all(keys, self.queue_offsets.newest)
        return {key: QueueRange(key, min(low[key], high[key]), high[key]) for key in keys}

    async def _topics(self, choice: TopicChoice) -> list[str]:
        if choice.names is not None:
            return sorted(choice.names)
        if choice.queues is not None:
            return sorted({key.topic for key in choice.queues})
        listed = await self._listed()
        return sorted(
            topic
            for topic in listed
            if choice.wants(topic) and not topic.startswith(LIGHT_QUEUE_PREFIX)
        )

    async def _listed(self) -> list[str]:
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        reply = await self._patient(lambda: self.directory.ask(code, TopicList), "its topics")
        return list(reply.topic_list)

    async def _route(self, topic: str) -> TopicRoute | None:
        route = await self._patient(lambda: self.routes.refresh(topic), f"topic {topic}")
        return route

    async def _refuse_topic(self, topic: str, choice: TopicChoice) -> None:
        option = "subscribe" if choice.names is not None else "assign"
        listed = await self._listed()
        if topic in listed:
            raise OptionError(
                f"option {option}: no queue of topic {topic!r} may be read at {self.address}: see"
                " its permissions (mqadmin topicRoute)"
            )
        named = near(
            topic,
            sorted(name for name in listed if TopicChoice(system=False, retry=False).wants(name)),
        )
        raise OptionError(f"option {option}: {self.address} knows no topic {named}")

    async def _ask_all(
        self, keys: Iterable[BrokerQueue], ask: Callable[[MessageQueue], Awaitable[int]]
    ) -> Offsets:
        ordered = list(keys)

        async def one(key: BrokerQueue) -> int:
            # a queue without messages has -1 as its earliest offset (ConsumeQueueStore.java)
            queue = MessageQueue(key.topic, key.broker, key.queue_id)
            return max(0, await self._patient(lambda: ask(queue), f"queue {key}"))

        return dict(zip(ordered, await _each(one, ordered), strict=True))

    async def _sample(self, ranges: Sequence[QueueRange]) -> int:
        count = size = 0
        for each in sorted(ranges, key=lambda each: each.start - each.end)[:SAMPLES]:
            middle = (each.start + each.end) // 2
            try:
                reply = await self._peek(each.key, middle)
            except ClusterUnreachable as error:  # its task waits for it, or says so
                log.warning("%s", error)
                break
            if reply.next_offset > middle:
                count += reply.next_offset - middle
                size += len(reply.body)
        return max(1, size // count) if count else 1

    async def _peek(self, key: BrokerQueue, offset: int) -> RawPull:
        queue = MessageQueue(key.topic, key.broker, key.queue_id)
        pull = partial(self.puller.pull, queue, offset, SAMPLE_MESSAGES)
        return await self._patient(pull, f"queue {key}")

    async def _message_at(
        self, silent: set[str], asked: tuple[BrokerQueue, int]
    ) -> tuple[int, int] | None:
        key, offset = asked
        if key.broker in silent:
            return None
        queue = MessageQueue(key.topic, key.broker, key.queue_id)
        pull = partial(self.puller.pull, queue, offset, 1)
        try:
            reply = await self._patient(pull, f"queue {key}")
            return place_of(reply.body, offset)
        except (ClusterUnreachable, CorruptRecord) as error:
            log.warning(
                "the message of queue %s before offset %d is not known: %s", key, offset + 1, error
            )
            if isinstance(error.__cause__, Unavailable):
                silent.add(key.broker)
            return None

    async def _deleted(self, keys: Iterable[BrokerQueue]) -> frozenset[BrokerQueue]:
        registered = await self._patient(self.learn_brokers, "its brokers")
        some = {(key.broker, key.topic): key for key in keys if key.broker in registered}
        unknown = await _each(self._topic_unknown, list(some.values()), MESSAGES_AT_ONCE)
        topics = {topic for topic, gone in zip(some, unknown, strict=True) if gone}
        return frozenset(key for key in keys if (key.broker, key.topic) in topics)

    async def _topic_unknown(self, key: BrokerQueue) -> bool:
        try:
            await self.puller.pull(MessageQueue(key.topic, key.broker, key.queue_id), 0, 1)
        except BrokerRefused as error:
            master = self.routes.address(key.broker)
            return error.code == ResponseCode.TOPIC_NOT_EXIST and error.address == master
        except (Unavailable, RequestError):
            pass  # it is asked again
        return False

    async def _patient(
        self, ask: Callable[[], Awaitable[T]], what: str, let: type[Exception] | tuple[()] = ()
    ) -> T:
        """Ask, and again where somebody is away or busy; ClusterUnreachable in the end."""
        for turn in range(TRIES):
            try:
                return await ask()
            except let:
                raise
            except (Unavailable, BrokerRefused, RouteMissing, *RUBBISH) as error:
                final = isinstance(error, (RouteMissing, *RUBBISH)) or (
                    isinstance(error, BrokerRefused) and error.code not in BUSY_CODES
                )
                if final or turn + 1 == TRIES:
                    raise ClusterUnreachable(
                        f"option namesrv: the cluster of {self.address} was asked about {what}, and"
                        f" did not tell: {error}; see that the address is right, that nameserver"
                        " and brokers run, with TLS where the option tls says so and only there,"
                        " and that this machine reaches the addresses which the brokers have"
                        " registered (brokerIP1)"
                    ) from error
            await asyncio.sleep(RETRY_DELAY_S * 2**turn)
        raise AssertionError("the last turn returns or raises")


def place_of(reply: bytes | memoryview, offset: int) -> tuple[int, int] | None:
    """Log position and store timestamp (ms) of the message that a pull at an offset has brought.

    None where it is not the one at that offset. Raises CorruptRecord.
    """
    data, bounds = ReplyBuffer().join([reply])
    records = Records(data, 0, *find_records(data, bounds))
    for messages in unwrapped([records.only(slice(1))]):
        if (messages.field("queue_offset", np.int64) == offset).any():
            names = ("position", "store_timestamp")
            position, stamp = (int(messages.field(name, np.int64)[0]) for name in names)
            return position, stamp
    return None


async def _each(
    ask: Callable[[T], Awaitable[R]], items: Sequence[T], at_once: int = AT_ONCE
) -> list[R]:
    """What `ask` says of each item, some of them at a time; the first error ends all."""
    found: dict[int, R] = {}
    waiting = iter(enumerate(items))

    async def work() -> None:
        for at, item in waiting:
            found[at] = await ask(item)

    workers = [asyncio.ensure_future(work()) for _ in range(min(at_once, len(items)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [found[at] for at in range(len(items))]
