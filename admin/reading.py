"""Messages where they lie: queues are read by pulls (11) that join, commit and hold nothing."""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Callable
from typing import Final

import msgspec

from aerobee.admin.calls import AdminCalls, side_by_side
from aerobee.admin.topics import TopicAdmin
from aerobee.client.cluster.decoding import decode_pulled
from aerobee.client.errors import InvalidUse
from aerobee.client.finding.found import FoundMessages
from aerobee.client.finding.search import Search, find
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.raw import PullStatus, read_reply
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.codes import PullSysFlag, RequestCode
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.headers.offsets import OffsetReply, SearchOffsetRequest
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.headers.typed import decode_header, encode_header
from aerobee.remoting.words import SQL92, TAG

TOOLS_CONSUMER: Final = "TOOLS_CONSUMER"
"""The group that brokers let read without it having been made (MixAll.java)."""
PULL_MESSAGES: Final = 32
PULL_BYTES: Final = 64 * 1024
"""What one pull brings: a listing holds so much of each queue."""
FOLLOW_S: Final = 0.3
"""Between two looks at queues that have nothing new."""
FOUND_MAX: Final = 64
"""Messages of one key or id that are told, unless more are asked for."""
FIND_TIMEOUT_MS: Final = 10_000
ANY_TAG: Final = "*"
TAG_SEPARATOR: Final = "||"


class MessageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages are wanted: all that is given has to hold.

    `tags` is an expression such as "new || paid", or `sql` one over properties, which brokers judge
    (enablePropertyFilter); `key` is a business key, `text` stands somewhere in the body. Times are
    ms since 1970 at which messages were stored, both included.
    """

    tags: str = ANY_TAG
    sql: str | None = None
    key: str | None = None
    text: bytes | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be asked for together."""
        if self.sql is not None and self.tags != ANY_TAG:
            raise InvalidUse("give one of tags and sql: SQL has TAGS as a property")

    def matches(self, message: ReceivedMessage) -> bool:
        """Whether a message that the broker let pass is wanted; brokers compare hashes of tags."""
        if self.sql is None and self.tags != ANY_TAG:
            wanted = {tag.strip() for tag in self.tags.split(TAG_SEPARATOR)}
            if message.tags not in wanted:
                return False
        if self.key is not None and self.key not in message.keys:
            return False
        return self.text is None or self.text in message.body


class QueueSpan(msgspec.Struct, frozen=True):
    """Messages of one queue, `first` to before `end`; `address` is the broker's."""

    queue: MessageQueue
    address: str
    first: int
    end: int


class PulledPart(msgspec.Struct, frozen=True):
    """What one pull brought, and the offset to go on from."""

    messages: list[ReceivedMessage]
    next_offset: int


class MessageAdmin:
    """Reads messages, in the order in which they were stored, and takes none from any group.

    spans = await admin.message.spans("orders")
    async for message in admin.message.browse(spans, MessageFilter(key="order-1")):
        print(message.queue, message.queue_offset, message.body)
    """

    def __init__(self, admin: AdminCalls, topics: TopicAdmin) -> None:
        self._admin = admin
        self._topics = topics

    async def spans(
        self,
        topic: str,
        *,
        broker: str | None = None,
        queue_id: int | None = None,
        since_ms: int | None = None,
        newest: int | None = None,
        first: int | None = None,
    ) -> list[QueueSpan]:
        """Return what each queue of a topic has at present, from a time on, or the newest ones.

        `newest` is for each queue, and so is `first`, an offset before which nothing is wanted.
        Raises InvalidUse for a topic, broker or queue that is not there; where a broker is away,
        what that raises.
        """
        addresses = await self._admin.masters_with(topic)
        if broker is not None and broker not in addresses:
            raise InvalidUse(f"topic {topic!r} is on {', '.join(addresses)}, not on {broker!r}")
        asked = {name: at for name, at in addresses.items() if broker in (None, name)}
        stats = (
            await self._admin.each(asked, lambda each: self._topics.stats(each, topic))
        ).or_raise()
        whole = [
            QueueSpan(MessageQueue.of(place), asked[name], offsets.min_offset, offsets.max_offset)
            for name, table in stats.items()
            for place, offsets in table.offset_table.items()
            if queue_id in (None, place.queue_id)
        ]
        if not whole:
            raise InvalidUse(f"topic {topic!r} has no such queue")
        whole.sort(key=lambda each: each.queue)

        async def cut(span: QueueSpan) -> QueueSpan:
            begin = max(span.first, first or 0)
            if since_ms is not None:
                begin = max(begin, await self._at_time(span, since_ms))
            if newest is not None:
                begin = max(begin, span.end - newest)
            return msgspec.structs.replace(span, first=min(begin, span.end))

        by_queue = {span.queue: span for span in whole}
        return list((await side_by_side(by_queue, lambda each: cut(by_queue[each]))).values())

    async def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        message_id: str | None = None,
        messages_max: int = FOUND_MAX,
        timeout_ms: int = FIND_TIMEOUT_MS,
    ) -> FoundMessages:
        """Find messages by a business key or an id in the brokers' index (12), the oldest first.

        Raises InvalidUse unless one of both is given, RouteMissing for a topic that nobody has.
        """
        search = Search.of(topic, key, message_id, (None, None), messages_max)
        return await find(self._admin.routed(), search, timeout_ms)

    async def browse(
        self,
        spans: list[QueueSpan],
        wanted: MessageFilter,
        *,
        seen: Callable[[int], None] = lambda count: None,
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """Give the messages of queues in the order of their times, as far as they are wanted.

        One whose body cannot be read comes with its `damage`. `seen` is called with how many
        messages a pull has gone past, wanted or not.
        """
        readers = [self._queue(span, wanted, seen) for span in spans if span.first < span.end]
        try:
            firsts = await side_by_side(range(len(readers)), lambda at: anext(readers[at], None))
            heap = [
                (_place(message), at, message)
                for at, message in firsts.items()
                if message is not None
            ]
            heapq.heapify(heap)
            while heap:
                _, at, message = heap[0]
                yield message
                following = await anext(readers[at], None)
                if following is None:
                    heapq.heappop(heap)
                else:
                    heapq.heapreplace(heap, (_place(following), at, following))
        finally:
            for reader in readers:
                await reader.aclose()

    async def follow(
        self, spans: list[QueueSpan], wanted: MessageFilter
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """Give messages as they come, from the end of each span on, until nobody asks any more.

        A broker that is away is asked again; what came meanwhile is given then.
        """
        offsets = {span.queue: span.end for span in spans}
        by_queue = {span.queue: span for span in spans}

        async def look(queue: MessageQueue) -> PulledPart | None:
            try:
                return await self.pull(by_queue[queue], offsets[queue], wanted)
            except Unavailable:
                return None

        while True:
            found: list[ReceivedMessage] = []
            before = dict(offsets)
            for queue, part in (await side_by_side(by_queue, look)).items():
                if part is not None:
                    offsets[queue] = part.next_offset
                    found += part.messages
            for message in sorted(found, key=_place):
                yield message
            if offsets == before:  # what was passed over as not wanted was news, too
                await asyncio.sleep(FOLLOW_S)

    async def pull(self, span: QueueSpan, offset: int, wanted: MessageFilter) -> PulledPart:
        """Return the wanted ones of the messages from an offset on, as many as one pull brings."""
        sql = wanted.sql
        header = PullMessageRequest(
            consumer_group=TOOLS_CONSUMER,
            topic=span.queue.topic,
            queue_id=span.queue.queue_id,
            queue_offset=offset,
            max_msg_nums=PULL_MESSAGES,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription=wanted.tags if sql is None else sql,
            expression_type=TAG if sql is None else SQL92,
            max_msg_bytes=PULL_BYTES,
        )
        ext = encode_header(header)
        reply = await self._admin.connections.call(span.address, RequestCode.PULL_MESSAGE, ext)
        raw = read_reply(reply, span.address, 0)
        if raw.status is not PullStatus.FOUND:
            return PulledPart([], max(raw.next_offset, offset))
        decoded = decode_pulled(raw.body, span.queue, span=(offset, raw.next_offset))
        matching = [each for each in decoded.messages if wanted.matches(each)]
        found = sorted([*matching, *decoded.unreadable], key=lambda each: each.queue_offset)
        return PulledPart(found, decoded.next_offset or raw.next_offset)

    async def _queue(
        self, span: QueueSpan, wanted: MessageFilter, seen: Callable[[int], None]
    ) -> AsyncGenerator[ReceivedMessage, None]:
        offset = span.first
        while offset < span.end:
            part = await self.pull(span, offset, wanted)
            for message in part.messages:
                if message.queue_offset >= span.end:
                    return
                if wanted.until_ms is not None and message.store_timestamp_ms > wanted.until_ms:
                    return
                yield message
            seen(part.next_offset - offset)
            if part.next_offset <= offset:
                return  # the broker has nothing where it said that there was something
            offset = part.next_offset

    async def _at_time(self, span: QueueSpan, since_ms: int) -> int:
        topic, _, queue_id = span.queue
        header = SearchOffsetRequest(topic=topic, queue_id=queue_id, timestamp=since_ms)
        reply = await self._admin.connections.request(
            span.address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header
        )
        return decode_header(OffsetReply, reply.ext).offset


def _place(message: ReceivedMessage) -> tuple[int, str, int]:
    """Order messages by their times, and those of one broker's millisecond as it stored them."""
    return message.store_timestamp_ms, message.queue.broker_name, message.position
