"""Sends the messages of one task: many requests at a time, and one of each queue.

A request that got no answer may have been carried out. It is not simply sent again: first the
queue's tail is searched for the ids of its messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from aerobee.client.errors import BrokerRefused, RouteMissing
from aerobee.client.message import MessageQueue
from aerobee.client.sending.outgoing import Packer, read_reply
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import NotConnected, Unavailable
from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.network.cluster import BUSY_CODES, ConnectedCluster, Patience
from aerobee.spark.offsets import BrokerQueue, Offsets, QueueRange
from aerobee.spark.sinks.earlier import stored_ids
from aerobee.spark.sinks.parcels import Parcel

log = logging.getLogger(__name__)

IN_FLIGHT: Final = 16  # requests of a task; with the size of parcels its memory
PRODUCER_GROUP: Final = "SPARK_SINK"  # a name in traces; brokers keep nothing of it
SEND_TIMEOUT_MS: Final = 10_000
_usual: Final = ProducerSettings()
_packer: Final = Packer(PRODUCER_GROUP, _usual)


class RowSends:
    """The sends of one task, within the event loop of its cluster.

    The ids of its messages begin with `prefix`. `starts` are offsets of queues before which the
    task has stored nothing; those of topics that are not among them are asked for before the first
    message.
    """

    def __init__(self, cluster: ConnectedCluster, prefix: str, starts: Offsets) -> None:
        self._cluster = cluster
        self._prefix = prefix
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
        patience = self._cluster.patience(f"finding the queues of topic {topic} failed")
        while True:
            try:
                route = await self._cluster.routes.for_sending(
                    topic, _usual.create_topic_key, _usual.default_topic_queues
                )
                for queue in () if route.assumed else route.write_queues:
                    if (key := _key(queue)) not in self._starts:
                        self._starts[key] = await self._cluster.queue_offsets.newest(queue)
            except RouteMissing as error:
                raise ClusterUnreachable(str(error)) from error
            except (Unavailable, BrokerRefused) as error:
                await patience.wait(str(error))
                await self._fresh_queues(topic)
            else:
                return route.write_queues

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
        """End what is under way.

        Requests that have been sent are waited for: what a broker stores after the next attempt
        of the task has looked for it would stand there twice.
        """
        self._failure = self._failure or asyncio.CancelledError()  # nothing is sent any more
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=SEND_TIMEOUT_MS / 1000)
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    # --- one parcel ---

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._room.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error

    async def _deliver(self, parcel: Parcel) -> None:
        """Store every message of a parcel once; raises ClusterUnreachable, InvalidMessage."""
        patience = self._cluster.patience(
            f"sending {len(parcel.ids)} messages to {parcel.queue} failed"
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
                if error.code not in BUSY_CODES:
                    raise patience.failure(str(error)) from error
                # it may have been stored before that
                problem, unsure = str(error), error.code == ResponseCode.SYSTEM_ERROR
            log.warning("queue %s: %s", parcel.queue, problem)
            await patience.wait(problem)
            if unsure:
                await self._leave_out_stored(parcel, patience)
            elif (other := await self._elsewhere(parcel)) is not None:
                return other
        return None

    async def _send(self, parcel: Parcel) -> None:
        """Store a parcel in its queue, several messages as a batch, a large one compressed.

        Raises InvalidMessage for properties or a batch that are too long, and for names and values
        with separators; Unavailable, BrokerRefused, and ProtocolError for a reply that is nonsense.
        """
        queue, messages, ids = parcel.queue, parcel.messages, parcel.ids
        if len(messages) > 1:
            outgoing = _packer.pack_batch(messages, ids)
        else:
            outgoing = _packer.pack(messages[0], ids[0])
        address = await self._cluster.routes.broker_address(queue)
        fields = _packer.fields(outgoing, queue)
        reply = await self._cluster.connections.call(
            address, outgoing.code, fields, outgoing.body, timeout_ms=SEND_TIMEOUT_MS
        )
        result = read_reply(reply, outgoing, queue, address)
        # a delayed one waits in a queue of another topic, whose offset the reply tells
        delayed = len(messages) == 1 and messages[0].delay_level
        if not delayed and result.queue == queue:
            self._starts[_key(queue)] = result.queue_offset + len(ids)

    async def _leave_out_stored(self, parcel: Parcel, patience: Patience) -> None:
        """Take those messages out of a parcel that are stored already."""
        queue, end = parcel.queue, None
        while end is None:
            try:
                end = await self._cluster.queue_offsets.newest(queue)
            except (Unavailable, BrokerRefused, RouteMissing) as error:
                await patience.wait(str(error))
                await self._fresh_queues(parcel.topic)
        tail = QueueRange(_key(queue), self._starts.get(_key(queue), 0), end)
        self.found += parcel.leave_out(await stored_ids(self._cluster, [tail], self._prefix))

    async def _elsewhere(self, parcel: Parcel) -> MessageQueue | None:
        """A queue of another broker, for a parcel that nobody has got and that is not bound."""
        queues = await self._fresh_queues(parcel.topic)
        if parcel.bound:
            return None
        others = [each for each in queues if each.broker_name != parcel.queue.broker_name]
        return others[parcel.queue.queue_id % len(others)] if others else None

    async def _fresh_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues, asked for anew, as a broker may have moved; none where nobody tells."""
        try:
            route = await self._cluster.routes.refresh(topic)
        except (Unavailable, BrokerRefused) as error:
            log.warning("%s", error)
            return ()
        return route.write_queues if route is not None else ()


def _key(queue: MessageQueue) -> BrokerQueue:
    """The queue as Spark's side names it."""
    return BrokerQueue(queue.broker_name, queue.topic, queue.queue_id)
