"""A page of messages out of a topic's queues, however many there are: bounded in messages and time.

Pages go on by times: `until_ms` or `since_ms` is that of the last message that was shown, and
`skip` how many of that very millisecond were.
"""

import asyncio
from contextlib import aclosing
from typing import Final

import msgspec

from aerobee.admin.reading import MessageAdmin, MessageFilter, QueueSpan
from aerobee.client.errors import InvalidUse
from aerobee.client.message import MessageQueue
from aerobee.client.received import ReceivedMessage
from aerobee.console.messages.bodies import snippet

LOOKED_MAX: Final = 5_000
"""Messages that are looked at for one page, wanted or not."""
LOOK_S: Final = 5.0
EVERYTHING: Final = MessageFilter()


class MessageRow(msgspec.Struct, frozen=True):
    """A message in a list: of its body the beginning, so that a page of large ones stays small."""

    queue: MessageQueue
    offset: int
    stored_ms: int
    tags: str
    keys: str
    body_bytes: int
    beginning: str
    attempt: int
    damage: str

    @classmethod
    def of(cls, message: ReceivedMessage) -> "MessageRow":
        """Keep what a list shows."""
        return cls(
            message.queue,
            message.queue_offset,
            message.store_timestamp_ms,
            message.tags or "",
            " ".join(message.keys),
            len(message.body),
            snippet(message.body),
            message.reconsume_times,
            message.damage.reason if message.damage is not None else "",
        )

    @property
    def place(self) -> tuple[int, MessageQueue, int]:
        """Where it stands in a list."""
        return self.stored_ms, self.queue, self.offset


class LookFor(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for: `limit` messages from a time, the newest or the oldest first."""

    wanted: MessageFilter = EVERYTHING
    from_ms: int | None = None
    skip: int = 0
    limit: int = 50


class LookedAt(msgspec.Struct, frozen=True):
    """A page of messages: `looked` is how many it took; `stopped` that there was no time for more.

    `next_ms` and `skip` lead to the next page; None where there is none.
    """

    rows: list[MessageRow]
    looked: int
    stopped: bool
    next_ms: int | None = None
    skip: int = 0


async def look_oldest(messages: MessageAdmin, spans: list[QueueSpan], asked: LookFor) -> LookedAt:
    """Return the oldest messages from `from_ms` on, of spans that begin there."""
    rows: list[MessageRow] = []
    looked, skip, last_ms, more = 0, asked.skip, 0, False
    try:
        async with asyncio.timeout(LOOK_S):
            async with aclosing(messages.browse(spans, EVERYTHING)) as browsed:
                async for each in browsed:
                    has_moved = bool(rows) or last_ms != asked.from_ms
                    if more := len(rows) == asked.limit or (looked >= LOOKED_MAX and has_moved):
                        break
                    looked, last_ms = looked + 1, each.store_timestamp_ms
                    if not _wants(asked.wanted, each):
                        continue
                    if skip and each.store_timestamp_ms == asked.from_ms:
                        skip -= 1
                        continue
                    rows.append(MessageRow.of(each))
    except TimeoutError:
        more = True
    if not more:
        return LookedAt(rows, looked, False)
    next_ms = rows[-1].stored_ms if len(rows) == asked.limit else last_ms or asked.from_ms
    same = sum(each.stored_ms == next_ms for each in rows)
    same += asked.skip if next_ms == asked.from_ms else 0
    return _page(asked, rows, looked, len(rows) < asked.limit, (next_ms, same))


async def look_newest(messages: MessageAdmin, spans: list[QueueSpan], asked: LookFor) -> LookedAt:
    """Return the newest messages of spans that end at `from_ms`, the newest first.

    Queues are read backwards in parts that grow: what is newer than the oldest message of each
    part is known whole.
    """
    backwards = _Backwards(messages, spans, asked)
    stopped = False
    try:
        async with asyncio.timeout(LOOK_S):
            while len(backwards.known()) < asked.limit and not backwards.is_whole:
                if backwards.looked >= LOOKED_MAX and backwards.has_moved:
                    stopped = True
                    break
                await backwards.go_on()
    except TimeoutError:
        stopped = True
    known = backwards.known()
    rows = known[: asked.limit]
    if len(rows) == asked.limit:
        more = len(known) > len(rows) or not backwards.is_whole
        next_ms = rows[-1].stored_ms if more else None
    else:
        next_ms = None if backwards.is_whole else backwards.known_from_ms
    same = sum(each.stored_ms == next_ms for each in rows)
    same += asked.skip if next_ms == asked.from_ms else 0
    return _page(asked, rows, backwards.looked, stopped, (next_ms, same))


def _page(
    asked: LookFor,
    rows: list[MessageRow],
    looked: int,
    stopped: bool,
    following: tuple[int | None, int],
) -> LookedAt:
    """Return a page that leads to another one, if there is one: never to itself."""
    if following[0] is not None and following == (asked.from_ms, asked.skip):
        return LookedAt(rows, looked, True)
    return LookedAt(rows, looked, stopped, *following)


async def look_at(
    messages: MessageAdmin, topic: str, broker: str, queue_id: int, offset: int
) -> ReceivedMessage:
    """Return the message at a place; raises InvalidUse, with what there is, where there is none."""
    (span,) = await messages.spans(topic, broker=broker, queue_id=queue_id)
    if span.first <= offset < span.end:
        part = await messages.pull(span, offset, EVERYTHING)
        if part.messages and part.messages[0].queue_offset == offset:
            return part.messages[0]
    place = f"queue {queue_id} of {topic} on {broker}"
    if span.first == span.end:
        raise InvalidUse(f"{place} is empty")
    raise InvalidUse(
        f"{place} has no message {offset}; it has those from {span.first} to {span.end - 1}"
    )


class _Backwards:
    """Queues that are read from their ends."""

    def __init__(self, messages: MessageAdmin, spans: list[QueueSpan], asked: LookFor) -> None:
        self._messages = messages
        self._asked = asked
        self._left = {span.queue: span for span in spans if span.first < span.end}
        self._oldest_ms: dict[MessageQueue, int | None] = dict.fromkeys(self._left)
        self._part = max(4, 2 * asked.limit // max(len(self._left), 1))
        self._rows: list[MessageRow] = []
        self.looked = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to read."""
        return not self._left

    @property
    def has_moved(self) -> bool:
        """Whether another page would begin elsewhere: there may be many of one millisecond."""
        return bool(self.known()) or self.known_from_ms != self._asked.from_ms

    @property
    def known_from_ms(self) -> int | None:
        """The time after which every message was read, None where there is none yet."""
        times = [self._oldest_ms[queue] for queue in self._left]
        known = [each for each in times if each is not None]
        return max(known) if known and len(known) == len(times) else self._asked.from_ms

    def known(self) -> list[MessageRow]:
        """Return what is known to be the newest, without what an earlier page has shown."""
        rows = sorted(self._rows, key=lambda each: each.place, reverse=True)
        if self._left:
            times = [self._oldest_ms[queue] for queue in self._left]
            if any(each is None for each in times):
                return []
            bound_ms = max(each for each in times if each is not None)
            rows = [each for each in rows if each.stored_ms > bound_ms]
        shown = 0
        while shown < min(self._asked.skip, len(rows)) and (
            rows[shown].stored_ms == self._asked.from_ms
        ):
            shown += 1
        return rows[shown:]

    async def go_on(self) -> None:
        """Read one part more of each queue."""
        parts = [
            msgspec.structs.replace(span, first=max(span.first, span.end - self._part))
            for span in self._left.values()
        ]
        found: list[MessageRow] = []
        oldest_ms: dict[MessageQueue, int] = {}
        looked = 0
        async with aclosing(self._messages.browse(parts, EVERYTHING)) as browsed:
            async for each in browsed:
                looked += 1
                oldest_ms.setdefault(each.queue, each.store_timestamp_ms)
                if _wants(self._asked.wanted, each):
                    found.append(MessageRow.of(each))
        self.looked += looked
        self._rows += found
        self._oldest_ms |= oldest_ms
        for part in parts:
            span = self._left[part.queue]
            if part.first == span.first:
                del self._left[part.queue]
            else:
                self._left[part.queue] = msgspec.structs.replace(span, end=part.first)
        self._part *= 2


def _wants(wanted: MessageFilter, message: ReceivedMessage) -> bool:
    """Whether a message is wanted; of the times the later one, as spans begin at the other."""
    if wanted.until_ms is not None and message.store_timestamp_ms > wanted.until_ms:
        return False
    if wanted.since_ms is not None and message.store_timestamp_ms < wanted.since_ms:
        return False
    return wanted.matches(message)
