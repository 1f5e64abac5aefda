"""Offsets of one group: what the brokers keep, and where a queue begins for a group without one."""

import asyncio
import contextlib
import enum
import itertools
import logging
from collections.abc import Mapping
from typing import Final, Protocol, Self

import msgspec

from aerobee.client.cluster.outages import Outages
from aerobee.client.cluster.queue_offsets import BrokerCalls, QueueOffsets
from aerobee.client.errors import OFFSET_MAX, BrokerRefused, whole_number, wrong_argument
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.trouble import consuming_from
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.offsets import (
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from aerobee.remoting.net.single_flight import SingleFlight
from aerobee.remoting.words import RETRY_PREFIX

log = logging.getLogger(__name__)

QUEUES_KEPT: Final = 16_384
HALF_AN_HOUR_MS: Final = 30 * 60 * 1000  # DefaultMQPushConsumer.consumeTimestamp lies so far back


class OffsetStore(Protocol):
    """Where a group's offsets are kept: by the brokers, or by each member for itself."""

    async def newest(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        ...

    async def oldest(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message that can still be read."""
        ...

    async def at_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` or later."""
        ...

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset, or None; an error never counts as "none"."""
        ...

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the offset of the next message to consume."""
        ...

    async def commit_or_log(self, queue: MessageQueue, offset: int) -> None:
        """Store an offset; a failure is logged."""
        ...

    async def commit_all(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets; failures are logged."""
        ...

    def carried(self, queue: MessageQueue, offset: int) -> None:
        """A pull that is on its way carries the queue's offset."""
        ...


class GroupOffsets(QueueOffsets):
    """Committed offsets of one group, kept by the brokers (RemoteBrokerOffsetStore.java).

    One commit of a queue is under way at a time, and none comes after a later one: RocketMQ serves
    the requests of a connection in many threads, where a commit could overtake the one before it.
    The first commit of a topic goes to its broker alone: of two that begin a group's table together
    RocketMQ forgets one, although it acknowledges both (ConsumerOffsetManager.commitOffset). If it
    gets no answer, those that wait for it fail with it: a silent broker costs one time-out.
    """

    def __init__(
        self, brokers: BrokerCalls, group: str, timeout_ms: int, outages: Outages | None = None
    ) -> None:
        super().__init__(brokers, timeout_ms)
        self.group = group
        self._outages = outages or Outages(log)
        self._numbers = itertools.count(1)  # of commits, in the order in which they were asked for
        self._latest: dict[MessageQueue, int] = {}  # the number of each queue's last one
        self._carried: dict[MessageQueue, int] = {}  # offsets that only pulls have told since
        self._under_way: dict[MessageQueue, asyncio.Lock] = {}
        self._first: dict[tuple[str, str], SingleFlight[None]] = {}  # by broker and topic
        self._begun: set[tuple[str, str]] = set()

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset, or None if it has none.

        A broker answers 0 for a group without one on a queue that still has its first message in
        memory. Raises BrokerRefused and Unavailable: an error never counts as "none".
        """
        header = QueryConsumerOffsetRequest(
            consumer_group=self.group, topic=queue.topic, queue_id=queue.queue_id
        )
        try:
            return await self.ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerRefused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the offset of the next message to consume and wait for the broker's answer."""
        await self._store(queue, offset, next(self._numbers), awaited=True)

    async def commit_or_log(self, queue: MessageQueue, offset: int) -> None:
        """Store an offset as `commit` does; a failure is logged: the messages come again."""
        await self._store_or_log(queue, offset, next(self._numbers), awaited=True)

    async def commit_all(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets; failures are logged, and what another commit has outdated is not sent."""
        number = next(self._numbers)
        await asyncio.gather(
            *(self._store_or_log(queue, offset, number) for queue, offset in offsets.items())
        )

    def carried(self, queue: MessageQueue, offset: int) -> None:
        """A pull that is on its way carries the queue's offset: what waits to be sent is outdated.

        Whether it arrives is never known. Who waits for a commit therefore sends this offset
        instead of his own, so that he may rely on it.
        """
        self._latest[queue] = next(self._numbers)
        self._carried[queue] = offset

    async def _store_or_log(
        self, queue: MessageQueue, offset: int, number: int, *, awaited: bool = False
    ) -> None:
        try:
            await self._store(queue, offset, number, awaited=awaited)
        except AerobeeError as error:
            log.debug("commit failed group=%s queue=%s error=%s", self.group, queue, error)
            self._outages.failed(consuming_from(queue.broker_name, self.group), error)
        else:
            if self._outages.lasting:
                self._outages.over(consuming_from(queue.broker_name, self.group))

    async def _store(
        self, queue: MessageQueue, offset: int, number: int, *, awaited: bool = False
    ) -> None:
        self._make_room()
        async with self._under_way.setdefault(queue, asyncio.Lock()):
            table = queue.broker_name, queue.topic
            while table not in self._begun and (first := self._first.get(table)) is not None:
                with contextlib.suppress(BrokerRefused):  # it may be about that queue alone
                    await first.wait()
            if number < (latest := self._latest.get(queue, 0)):
                carried = self._carried.get(queue)  # by a pull, meanwhile
                if carried is None or not awaited:
                    return
                offset, number = carried, latest
            self._latest[queue] = number
            if table in self._begun:
                await self._send(queue, offset)
            else:
                first = self._first[table] = SingleFlight(self._begin(table, queue, offset))
                first.task.add_done_callback(lambda _: self._first.pop(table))
                await first.wait()
            if self._latest.get(queue) == number:
                self._carried.pop(queue, None)

    def _make_room(self) -> None:
        """Forget queues of which no commit is under way when there are many: they come and go."""
        if len(self._latest) > QUEUES_KEPT:
            locks = self._under_way = {
                queue: lock for queue, lock in self._under_way.items() if lock.locked()
            }
            self._latest = {each: self._latest.get(each, 0) for each in locks}
            self._carried = {each: at for each, at in self._carried.items() if each in locks}
            self._begun.clear()  # the next commit of each table goes alone once more

    async def _begin(self, table: tuple[str, str], queue: MessageQueue, offset: int) -> None:
        """Commit on the first queue of a broker's table; the others wait, or fail, with it."""
        await self._send(queue, offset)
        self._begun.add(table)

    async def _send(self, queue: MessageQueue, offset: int) -> None:
        header = UpdateConsumerOffsetRequest(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        await self._brokers.call_broker(queue, code, header, self._timeout_ms)


class ConsumeFrom(enum.Enum):
    """Where a group begins that never committed on a queue (ConsumeFromWhere.java).

        PushConsumer("billing", namesrv="127.0.0.1:9876", consume_from=ConsumeFrom.FIRST)

    LAST: with what is sent from now on (others call it latest); FIRST: with all that the broker
    has (earliest); TIMESTAMP: with what was stored at `consume_timestamp_ms` or later. A committed
    offset always wins; and a broker answers 0 instead of "none" for a queue whose first message is
    still in its memory, so that LAST begins there, too.
    """

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class StartingPoint(msgspec.Struct, frozen=True):
    """`consume_from`, and for TIMESTAMP the milliseconds since 1970."""

    consume_from: ConsumeFrom = ConsumeFrom.LAST
    timestamp_ms: int = 0

    @classmethod
    def of(cls, consume_from: ConsumeFrom, timestamp_ms: int | None) -> Self:
        """Take a user's words; who names no time means half an hour ago. Raises InvalidUse."""
        if not isinstance(consume_from, ConsumeFrom):
            hint = (
                "write ConsumeFrom.FIRST (what others call earliest) or ConsumeFrom.LAST (latest)"
            )
            raise wrong_argument("consume_from", "a ConsumeFrom", consume_from, hint)
        if timestamp_ms is None:
            return cls(consume_from, wall_clock_ms() - HALF_AN_HOUR_MS)
        return cls(consume_from, whole_number("consume_timestamp_ms", timestamp_ms, 0, OFFSET_MAX))

    async def find(self, queue: MessageQueue, offsets: OffsetStore) -> int:
        """Return the first offset that the group should pull (RebalancePushImpl.java).

        FIRST answers 0 even where older messages are gone: the first pull corrects it.
        """
        committed = await offsets.committed(queue)
        if committed is not None and committed >= 0:
            return committed
        retry = queue.topic.startswith(RETRY_PREFIX)
        if self.consume_from is ConsumeFrom.FIRST:
            return 0
        if self.consume_from is ConsumeFrom.LAST:
            return 0 if retry else await offsets.newest(queue)
        if retry:
            return await offsets.newest(queue)
        return await offsets.at_time(queue, self.timestamp_ms)
