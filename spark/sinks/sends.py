"""Sends the messages of one task: many requests at a time, and one of each queue.

A request that got no answer may have been carried out. It is not simply sent again: first the
queue's tail is searched for the ids of its messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.queue_offsets import QueueOffsets
from aerobee.client.cluster.routes import RouteCache, TopicRoute
from aerobee.client.errors import NOT_NOW, BrokerRefused, RouteMissing
from aerobee.client.message import Message, MessageQueue
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import NotConnected, Unavailable
from aerobee.remoting.net.client import ConnectionPool, refuse_requests
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX
from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.network.patience import Patience
from aerobee.spark.offsets import Offsets, QueueKey, QueueRange
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.sinks.requests import USUAL, send_request
from aerobee.spark.sinks.search import stored_ids

log = logging.getLogger(__name__)

IN_FLIGHT: Final = 16  # requests of a task; with the size of parcels its memory
SEND_TIMEOUT_S: Final = 10.0
_SINGLE: Final = (RETRY_PREFIX, DLQ_PREFIX)  # topics to which brokers take no batches
_UNKNOWN: Final = {ResponseCode.SYSTEM_ERROR}  # the messages may have been stored before that


@dataclass(slots=True)
class Parcel:
    """Messages of one topic that travel together, with their ids.

    `queue` is where they must go, or where they go at first: `bound` says which.
    """

    topic: str
    queue: MessageQueue
    bound: bool
    messages: list[Message] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    size: int = 0

    def leave_out(self, stored: set[str]) -> int:
        """Take the messages out whose ids are among those; return how many that were."""
        left = [at for at, each in enumerate(self.ids) if each not in stored]
        count = len(self.ids) - len(left)
        self.messages = [self.messages[at] for at in left]
        self.ids = [self.ids[at] for at in left]
        return count


class Sends:
    """The sends of one task within one event loop.

    `starts` are offsets of queues before which the task has stored nothing; those of topics that
    are not among them are asked for before the first message.
    """

    def __init__(self, address: NetworkAddress, prefix: str, starts: Offsets) -> None:
        settings = address.client()
        self._address = address
        self._prefix = prefix
        self._connections = Connections(settings, refuse_requests)
        self._senders = ConnectionPool(tls=settings.tls)
        self._routes = RouteCache(self._connections, address.namesrv)
        brokers = Brokers(self._connections, self._routes)
        self._offsets = QueueOffsets(brokers, settings.offset_timeout_ms)
        self._starts = dict(starts)
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._locks: dict[MessageQueue, asyncio.Lock] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self.found = 0  # messages of requests without an answer that were stored all the same

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The topic's queues to write to; it is created where brokers allow that.

        Raises ClusterUnreachable.
        """
        patience = Patience(self._address, f"finding the queues of topic {topic} failed")
        while True:
            try:
                route = await self._routes.for_sending(
                    topic, USUAL.create_topic_key, USUAL.default_topic_queues
                )
                for queue in () if route.assumed else route.write_queues:
                    key = _key(queue)
                    if key not in self._starts:
                        self._starts[key] = await self._offsets.newest(queue)
                return route.write_queues
            except RouteMissing as error:
                raise ClusterUnreachable(str(error)) from error
            except (Unavailable, BrokerRefused) as error:
                await patience.wait(str(error))
                await self._look_again(topic)

    async def submit(self, parcels: Iterable[Parcel]) -> None:
        """Begin to send as soon as there is room; raises what an earlier parcel failed with."""
        for parcel in parcels:
            await self._room.acquire()
            if self._failure is not None:
                raise self._failure
            task = asyncio.create_task(self._deliver(parcel))
            self._under_way.add(task)
            task.add_done_callback(self._done)

    async def finish(self) -> None:
        """Wait for all that was submitted; raises what failed."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """End what is under way, and close the connections.

        Requests that have been sent are waited for: what a broker stores after the next attempt
        of the task has looked for it would stand there twice.
        """
        self._failure = self._failure or asyncio.CancelledError()  # nothing is sent any more
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=SEND_TIMEOUT_S)
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._senders.close()
        await self._connections.close()

    # --- one parcel ---

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._room.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error

    async def _deliver(self, parcel: Parcel) -> None:
        """Store every message of a parcel once; raises ClusterUnreachable, InvalidMessage."""
        patience = Patience(
            self._address, f"sending {len(parcel.ids)} messages to {parcel.queue} failed"
        )
        queue: MessageQueue | None = parcel.queue
        while queue is not None:
            parcel.queue = queue
            async with self._locks.setdefault(queue, asyncio.Lock()):  # in their order
                queue = await self._deliver_here(parcel, patience)

    async def _deliver_here(self, parcel: Parcel, patience: Patience) -> MessageQueue | None:
        """Send to the parcel's queue until all is stored; or name another queue to go to."""
        while parcel.ids and self._failure is None:
            try:
                await self._send(parcel)
                return None
            except NotConnected as error:
                problem, unsure = str(error), False
            except Unavailable as error:
                problem, unsure = str(error), True
            except BrokerRefused as error:
                if error.code not in NOT_NOW | _UNKNOWN:
                    raise patience.failure(str(error)) from error
                problem, unsure = str(error), error.code in _UNKNOWN
            log.warning("queue %s: %s", parcel.queue, problem)
            await patience.wait(problem)
            if unsure:
                await self._leave_out_stored(parcel, patience)
            elif (other := await self._elsewhere(parcel)) is not None:
                return other
        return None

    async def _send(self, parcel: Parcel) -> None:
        queue = parcel.queue
        request = send_request(parcel.messages, parcel.ids, queue)
        address = await self._routes.broker_address(queue)
        connection = await self._senders.connect(address)
        reply = await connection.call(request.command, SEND_TIMEOUT_S)
        stored_at = request.stored_at(reply, address)
        if stored_at is not None:
            self._starts[_key(queue)] = stored_at + len(parcel.ids)

    async def _leave_out_stored(self, parcel: Parcel, patience: Patience) -> None:
        """Take those messages out of a parcel that are stored already."""
        key = _key(parcel.queue)
        while True:
            try:
                end = await self._offsets.newest(parcel.queue)
                break
            except (Unavailable, BrokerRefused, RouteMissing) as error:
                await patience.wait(str(error))
                await self._look_again(parcel.topic)
        tail = QueueRange(key, self._starts.get(key, 0), end)
        self.found += parcel.leave_out(await stored_ids(self._address, [tail], self._prefix))

    async def _elsewhere(self, parcel: Parcel) -> MessageQueue | None:
        """A queue of another broker, for a parcel that nobody has got and that is not bound."""
        route = await self._look_again(parcel.topic)
        queues = route.write_queues if route is not None and not parcel.bound else ()
        others = [each for each in queues if each.broker_name != parcel.queue.broker_name]
        return others[parcel.queue.queue_id % len(others)] if others else None

    async def _look_again(self, topic: str) -> TopicRoute | None:
        """Ask where brokers are now: one that was started again may have another address."""
        try:
            return await self._routes.refresh(topic)
        except (Unavailable, BrokerRefused) as error:
            log.warning("%s", error)
            return None


def takes_batches(topic: str) -> bool:
    """Whether brokers take several messages for a topic in one request."""
    return not topic.startswith(_SINGLE)


def _key(queue: MessageQueue) -> QueueKey:
    return QueueKey(queue.broker_name, queue.topic, queue.queue_id)
