"""Sends the messages of one task: many requests at a time, and one of each queue.

A request that got no answer may have been carried out. It is not simply sent again: first the
queue's tail is searched for the ids of its messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from aerobee.client.errors import NOT_NOW, BrokerRefused
from aerobee.client.message import MessageQueue
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import NotConnected, Unavailable
from aerobee.spark.network.patience import Patience
from aerobee.spark.offsets import Offsets, QueueRange
from aerobee.spark.sinks.brokers import SEND_TIMEOUT_S, SinkBrokers, queue_key
from aerobee.spark.sinks.parcels import Parcel

log = logging.getLogger(__name__)

IN_FLIGHT: Final = 16  # requests of a task; with the size of parcels its memory
_UNKNOWN: Final = {ResponseCode.SYSTEM_ERROR}  # it may have been stored before that


class Sends:
    """The sends of one task within one event loop.

    `starts` are offsets of queues before which the task has stored nothing; those of topics that
    are not among them are asked for before the first message.
    """

    def __init__(self, brokers: SinkBrokers, prefix: str, starts: Offsets) -> None:
        self._brokers = brokers
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
        queues, ends = await self._brokers.queues(topic, self._starts)
        self._starts |= ends
        return queues

    async def stored(self, ranges: Sequence[QueueRange]) -> set[str]:
        """The ids of this task's rows that stand there. Raises ClusterUnreachable."""
        return await self._brokers.stored_ids(ranges, self._prefix)

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
        await self._brokers.close()

    # --- one parcel ---

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._room.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error

    async def _deliver(self, parcel: Parcel) -> None:
        """Store every message of a parcel once; raises ClusterUnreachable, InvalidMessage."""
        patience = self._brokers.patience(
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
        stored_at = await self._brokers.store(parcel.messages, parcel.ids, parcel.queue)
        if stored_at is not None:
            self._starts[queue_key(parcel.queue)] = stored_at + len(parcel.ids)

    async def _leave_out_stored(self, parcel: Parcel, patience: Patience) -> None:
        """Take those messages out of a parcel that are stored already."""
        start = self._starts.get(queue_key(parcel.queue), 0)
        tail = await self._brokers.tail(parcel.queue, start, patience)
        self.found += parcel.leave_out(await self.stored([tail]))

    async def _elsewhere(self, parcel: Parcel) -> MessageQueue | None:
        """A queue of another broker, for a parcel that nobody has got and that is not bound."""
        queues = await self._brokers.fresh_queues(parcel.topic)
        if parcel.bound:
            return None
        others = [each for each in queues if each.broker_name != parcel.queue.broker_name]
        return others[parcel.queue.queue_id % len(others)] if others else None
