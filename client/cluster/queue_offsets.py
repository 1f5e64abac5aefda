"""Where queues begin and end, and which offset a time has: asked of their brokers."""

from typing import Protocol

from aerobee.client.message import MessageQueue
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.headers.offsets import (
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetReply,
    SearchOffsetRequest,
)
from aerobee.remoting.headers.typed import Header, decode_header


class BrokerCalls(Protocol):
    """What this module needs of the brokers (brokers.Brokers)."""

    async def call_broker(
        self, queue: MessageQueue, code: int, header: Header, timeout_ms: int
    ) -> Command:
        """Call the master of the queue's broker; raises BrokerRefused, Unavailable."""
        ...


class QueueOffsets:
    """Asks brokers for the bounds of queues and offsets by time (MQAdminImpl.java)."""

    def __init__(self, brokers: BrokerCalls, timeout_ms: int) -> None:
        self._brokers = brokers
        self._timeout_ms = timeout_ms

    async def newest(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        header = MaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        return await self.ask(queue, RequestCode.GET_MAX_OFFSET, header)

    async def oldest(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message that can still be read."""
        header = MinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        return await self.ask(queue, RequestCode.GET_MIN_OFFSET, header)

    async def at_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` or later."""
        header = SearchOffsetRequest(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms
        )
        return await self.ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def ask(self, queue: MessageQueue, code: int, header: Header) -> int:
        """Ask anything that is answered with an offset."""
        reply = await self._brokers.call_broker(queue, code, header, self._timeout_ms)
        return decode_header(OffsetReply, reply.ext).offset
