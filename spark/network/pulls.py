"""The pulls of one task: several at a time, in the order of the queues' offsets.

A broker answers with as many messages as its own limits allow (RocketMQ: 32, and 256 KiB;
Aerobee's, asked for full replies: 256, and 256 KiB), so that one pull after the other would wait
most of the time. The ranges are cut into spans of half a MiB; each span is read pull by pull, and
several spans at the same time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from time import monotonic
from typing import Final, NamedTuple

from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import BrokerRefused
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.raw import PullStatus, RawPull
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import CorruptRecord, ProtocolError, RequestError, Unavailable
from aerobee.spark.at_rest.queue_ranges import LOST_REASON, report_lost
from aerobee.spark.network.brokers import place_of
from aerobee.spark.network.cluster import BUSY_CODES, ConnectedCluster, Patience
from aerobee.spark.offsets import BrokerQueue, QueueRange

log = logging.getLogger(__name__)

QUEUE_GONE: Final = (
    "their topic was deleted, or has fewer queues to read now (readQueueNums), which its broker can"
    " be told to change"
)

SPANS_AHEAD: Final = 16
SPAN_BYTES: Final = 512 << 10  # with SPANS_AHEAD the memory that a task reads ahead into
FIRST_MESSAGES: Final = 32  # of a span while nothing is known of sizes
PULL_MESSAGES_MAX: Final = 1024  # brokers lower it to their own limit
FULL_REPLY_FROM: Final = 33  # messages that are wanted: what is given beyond them is read in vain
GONE_CODES: Final = {  # the topic was deleted, or has fewer queues to read
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.INVALID_PARAMETER,
}
SHORTER_PATIENCE_S: Final = 10.0  # for a queue to get back the messages that it had


class Pulled(NamedTuple):
    """A reply's records: those of a queue from `offset` on, up to but without `end`."""

    key: BrokerQueue
    offset: int
    end: int
    body: bytes | memoryview


class _Span(NamedTuple):
    """Offsets that one task of the event loop reads, of a range that ends at `last`."""

    key: BrokerQueue
    start: int
    end: int
    last: int


_Read = tuple[list[Pulled], _Span | None]


class RangePulls:
    """Reads queue ranges of a cluster, within its event loop.

    `fail_on_data_loss` decides whether messages that are gone raise DataLost or are left out with
    a warning; with `queues_stay` a queue that may not be read any more (readQueueNums) is no loss:
    it raises ClusterUnreachable. Nothing is committed, no group joined.
    """

    def __init__(
        self,
        cluster: ConnectedCluster,
        ranges: Sequence[QueueRange],
        *,
        fail_on_data_loss: bool,
        queues_stay: bool = False,
    ) -> None:
        self._cluster = cluster
        self._ranges = ranges
        self._fail = fail_on_data_loss
        self._gone_codes = GONE_CODES - ({ResponseCode.INVALID_PARAMETER} if queues_stay else set())
        self._replicas: dict[str, int] = {}  # by broker: where it advised to pull from next
        self._record_bytes = 0  # the usual size; 0 before the first reply
        self._ahead: deque[asyncio.Task[_Read]] = deque()
        self._gone: dict[BrokerQueue, QueueRange] = {}  # what was told last as lost

    async def replies(self) -> AsyncGenerator[list[Pulled], None]:
        """The replies in the order of the ranges and of their offsets, some at a time.

        What lies between the end of one and the offset of the next is lost, and was told. Raises
        DataLost, ClusterUnreachable.
        """
        spans = self._spans()
        try:
            while True:
                limit = SPANS_AHEAD if self._record_bytes else 1
                while len(self._ahead) < limit and (span := next(spans, None)) is not None:
                    self._ahead.append(self._begin(span))
                if not self._ahead:
                    return
                replies, rest = await self._ahead[0]
                self._ahead.popleft()
                if rest is not None:
                    self._ahead.appendleft(self._begin(rest))
                yield replies
        finally:
            await self._stop()

    def _spans(self) -> Iterator[_Span]:
        """The ranges in parts of about SPAN_BYTES, as far as sizes are known."""
        for each in self._ranges:
            start = each.start
            while start < each.end:
                size = self._record_bytes
                gone = self._gone.get(each.key)
                if gone is not None and gone.start <= start < gone.end:
                    start = gone.end  # that may be any number of spans
                    continue
                count = max(1, SPAN_BYTES // size) if size else FIRST_MESSAGES
                yield _Span(each.key, start, min(start + count, each.end), each.end)
                start += count

    def _begin(self, span: _Span) -> asyncio.Task[_Read]:
        return asyncio.create_task(self._read(span))

    async def _read(self, span: _Span) -> _Read:
        """The replies of one span, and what is left of it where messages are larger than usual."""
        replies: list[Pulled] = []
        size, at = 0, span.start
        while at < span.end and size < SPAN_BYTES:
            reply = await self._pull(span._replace(start=at))
            at = reply.end
            size += len(reply.body)
            if reply.body:
                replies.append(reply)
        return replies, span._replace(start=at) if at < span.end else None

    async def _pull(self, wanted: _Span) -> Pulled:
        """One reply from the beginning of a span; without a body where messages are gone."""
        key, start, end = wanted.key, wanted.start, wanted.end
        count = min(end - start, PULL_MESSAGES_MAX)
        gone = self._gone.get(key)
        if gone is not None and gone.start <= start < gone.end:
            return Pulled(key, start, min(gone.end, end), b"")
        what = f"messages of queue {key} from offset {start} on cannot be read from its broker"
        patience = self._cluster.patience(what)
        shorter_s: float | None = None  # since when the queue ends before the wanted messages
        while True:
            reply = await self._ask(key, start, count, patience)
            if reply is None:
                return self._lost(wanted, wanted.last, QUEUE_GONE)
            if reply.status is PullStatus.FOUND and reply.body and reply.next_offset > start:
                self._replicas[key.broker] = reply.advised
                self._record_bytes = max(1, len(reply.body) // (reply.next_offset - start))
                return Pulled(key, start, min(reply.next_offset, end), reply.body)
            self._replicas.pop(key.broker, None)  # the master knows best what there is
            if reply.asked == MASTER_ID:
                if (there := _next_there(reply, start)) > start:
                    return self._lost(wanted, there)
                if reply.max_offset < end:
                    shorter_s = monotonic() if shorter_s is None else shorter_s
                    enough_s = min(SHORTER_PATIENCE_S, self._cluster.address.patience_ms / 2000)
                    if monotonic() - shorter_s > enough_s:
                        return self._lost(wanted, wanted.last)
            await patience.wait(
                f"broker {reply.asked} answers {reply.status.value} with offsets"
                f" {reply.min_offset} to {reply.max_offset}"
            )

    async def message_at(self, key: BrokerQueue, offset: int) -> tuple[int, int] | None:
        """Log position and store timestamp of a queue's message, None where there is none now."""
        what = f"the message of queue {key} at offset {offset} cannot be looked at"
        patience = self._cluster.patience(what)
        self._replicas.pop(key.broker, None)
        await self._look_again(key)
        reply = await self._ask(key, offset, 1, patience)
        try:
            return None if reply is None else place_of(reply.body, offset)
        except CorruptRecord as error:
            raise patience.failure(str(error)) from error

    async def _ask(
        self, key: BrokerQueue, start: int, count: int, patience: Patience
    ) -> RawPull | None:
        """The reply to one pull, waited for; None where the broker has no such queue."""
        queue = MessageQueue(key.topic, key.broker, key.queue_id)
        while True:
            replica = self._replicas.get(key.broker, MASTER_ID)
            try:
                return await self._cluster.puller.pull(
                    queue, start, count, replica, full_reply=count >= FULL_REPLY_FROM
                )
            except Unavailable as error:
                self._replicas.pop(key.broker, None)
                await patience.wait(str(error))
                await self._look_again(key)
            except (RequestError, ProtocolError) as error:  # a reply that cannot be understood
                raise patience.failure(str(error)) from error
            except BrokerRefused as error:
                if error.code in self._gone_codes and await self._is_master(key, error.address):
                    return None
                if error.code in self._gone_codes:
                    self._replicas.pop(key.broker, None)  # which may not know it yet
                elif error.code not in BUSY_CODES:
                    raise patience.failure(str(error)) from error
                await patience.wait(str(error))

    def _lost(self, wanted: _Span, there: int, why: str = LOST_REASON) -> Pulled:
        """Go on at offset `there`, after saying what lies before it; raises DataLost if that fails.

        Later spans that are lost with this one pass it over without a word, and without a pull.
        """
        lost = QueueRange(wanted.key, wanted.start, min(there, wanted.last))
        report_lost([lost], why, fail=self._fail)
        self._gone[wanted.key] = lost
        return Pulled(wanted.key, wanted.start, min(there, wanted.end), b"")

    async def _is_master(self, key: BrokerQueue, address: str) -> bool:
        """Whether the queue's master has this address still: another broker may have it by now."""
        await self._look_again(key)
        return self._cluster.routes.address(key.broker) in (address, None)

    async def _look_again(self, key: BrokerQueue) -> None:
        """Ask whether the broker has another address now."""
        try:
            route = await self._cluster.routes.refresh(key.topic)
            if route is None or key.broker not in route.brokers:
                await self._cluster.learn_brokers()  # the topic may be deleted
        except (Unavailable, BrokerRefused, RequestError) as error:
            log.warning("%s", error)

    async def _stop(self) -> None:
        for task in self._ahead:
            task.cancel()
        await asyncio.gather(*self._ahead, return_exceptions=True)


def _next_there(reply: RawPull, start: int) -> int:
    """The first offset from `start` on that the broker still has, as far as the reply tells."""
    if reply.status is PullStatus.NO_MATCHED_MSG:  # everything matches: these are being removed
        return max(start, reply.next_offset, reply.min_offset)
    return max(start, reply.min_offset) if reply.status is PullStatus.OFFSET_ILLEGAL else start
