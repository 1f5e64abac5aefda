"""Messages of one topic sent to another: each once, also over interruptions.

Who copies keeps his place as any group does, in committed offsets, so that the same call goes on
where the last one ended, from any machine:

- the progress group has, in each queue of the source, the offset of the message that is next;
- the mark group has, in each queue of a target, an offset before which nothing of what the
  progress group has yet to tell of was written. It is committed before the first message is sent.

Every copy carries where it comes from (COPIED_FROM). A run begins by reading the targets from the
mark group's offsets on: what is found there has been copied, whatever the progress group says.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from aerobee.admin.calls import AdminCalls, side_by_side
from aerobee.admin.groups import MARK_SUFFIX, GroupAdmin
from aerobee.admin.offsets import OffsetAdmin
from aerobee.admin.reading import MessageAdmin, MessageFilter, QueueSpan
from aerobee.client import Message, Producer, ProducerSettings
from aerobee.client.errors import InvalidUse
from aerobee.client.message import MessageQueue, check_name
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import ClientSettings
from aerobee.remoting.bodies import SubscriptionGroupConfig
from aerobee.remoting.codes import Perm
from aerobee.remoting.errors import AerobeeError

COPIED_FROM: Final = "AEROBEE_COPIED_FROM"
"""The property of a copy that names its original: group, topic, broker, queue and offset."""
GROUP_MAX: Final = 120 - len(MARK_SUFFIX)
QUEUES_AT_ONCE: Final = 16
CHECKPOINT_MESSAGES: Final = 1_000
"""Messages of a queue after which its place is committed."""
TARGETS_AT_ONCE: Final = 16

Rule = Callable[[ReceivedMessage], Message | None]
"""What becomes of a message; None: it is left out."""


class CopyCounts(msgspec.Struct):
    """What a run has done: sent, found to be there from an earlier run, left out, unreadable."""

    sent: int = 0
    there: int = 0
    left_out: int = 0
    unreadable: int = 0


class CopyEnd:
    """One cluster of a copy, and what is asked of it."""

    def __init__(
        self,
        admin: AdminCalls,
        groups: GroupAdmin,
        offsets: OffsetAdmin,
        messages: MessageAdmin,
    ) -> None:
        self.admin = admin
        self.groups = groups
        self.offsets = offsets
        self.messages = messages

    async def keep_group(self, group: str) -> None:
        """Make a group wherever it is not, and leave it as it is elsewhere."""
        configs = (await self.groups.configs()).or_raise()
        for master in await self.admin.masters_of():
            if group not in configs.get(master.name, {}):
                config = SubscriptionGroupConfig(group_name=group)
                await self.groups.put(master.address, config)


class TopicCopy:
    """Sends the messages of a topic on, queue by queue in their order, as a rule says.

    `group` names the copy: the progress group. Another call with the same name goes on where this
    one ends, however it ends.
    """

    def __init__(
        self, source: CopyEnd, target: CopyEnd, topic: str, group: str, rule: Rule
    ) -> None:
        check_name("group", group, GROUP_MAX)
        self._source, self._target = source, target
        self._topic = topic
        self._group = group
        self._rule = rule
        self._targets: dict[str, _Target] = {}
        self._opening = asyncio.Lock()
        self._firsts: dict[tuple[str, int], int] = {}
        self.counts = CopyCounts()

    async def run(
        self,
        producer: Producer,
        *,
        limit: int | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> CopyCounts:
        """Copy what the source has when the call is made, at most `limit` messages of it.

        Raises what reading or sending failed with; `counts` has what was done until then. The
        progress group must have no members: its offsets are moved.
        """
        spans = await self._source.messages.spans(self._topic)
        masters = await self._source.admin.masters_of()
        online = (await self._source.groups.connections(self._group, masters)).or_raise()
        if any(online.values()):
            raise InvalidUse(f"group {self._group!r} has connected members: stop them first")
        await self._target.keep_group(self._group + MARK_SUFFIX)  # first: it says whose group it is
        await self._source.keep_group(self._group)
        begun = {span.queue: await self._begin(span) for span in spans}
        self._firsts = {(queue[1], queue[2]): span.first for queue, span in begun.items()}
        total = sum(span.end - span.first for span in begun.values())
        left = _Left(total if limit is None else min(limit, total))
        whole = left.messages

        def tell() -> None:
            progress(whole - left.messages, whole)

        tell()
        await side_by_side(
            begun,
            lambda queue: self._copy_queue(begun[queue], producer, left, tell),
            QUEUES_AT_ONCE,
        )
        for target in self._targets.values():
            await target.finish()
        return self.counts

    async def _begin(self, span: QueueSpan) -> QueueSpan:
        """Return what is left of a queue."""
        committed = await self._source.offsets.committed(
            span.address, self._group, span.queue.topic, span.queue.queue_id
        )
        first = max(span.first, committed or 0)
        return msgspec.structs.replace(span, first=min(first, span.end))

    async def _copy_queue(
        self, span: QueueSpan, producer: Producer, left: "_Left", tell: Callable[[], None]
    ) -> None:
        """Send one queue's messages on; its place is committed now and then, and at its end."""
        offset = committed = span.first
        try:
            while offset < span.end and left.messages > 0:
                part = await self._source.messages.pull(span, offset, MessageFilter())
                before = offset
                for message in part.messages:
                    if message.queue_offset >= span.end or not left.take():
                        break
                    await self._copy_one(message, producer)
                    offset = message.queue_offset + 1
                    tell()
                else:
                    offset = min(max(part.next_offset, offset), span.end)
                if offset == before:
                    break  # the broker has nothing where it said that there was something
                if offset - committed >= CHECKPOINT_MESSAGES:
                    await self._commit(span, offset)
                    committed = offset
        except BaseException:
            if offset > committed:  # what cannot be told is found in the target
                with contextlib.suppress(AerobeeError):
                    await self._commit(span, offset)
            raise
        if offset > committed:
            await self._commit(span, offset)

    async def _copy_one(self, message: ReceivedMessage, producer: Producer) -> None:
        if message.damage is not None:
            self.counts.unreadable += 1
            return
        copied = self._rule(message)
        if copied is None:
            self.counts.left_out += 1
            return
        target = await self._open(copied.topic)
        origin = origin_of(self._group, message)
        if origin in target.there:
            self.counts.there += 1
            return
        copied.properties = copied.properties | {COPIED_FROM: origin}
        queues = target.queues
        same = next((each for each in queues if each[1:] == message.queue[1:]), None)
        chosen = same or queues[message.queue.queue_id % len(queues)]
        await producer.send(copied, queue=chosen)
        self.counts.sent += 1

    async def _open(self, topic: str) -> "_Target":
        """Return what is known of a target topic; the first one who asks looks."""
        if topic not in self._targets:
            async with self._opening:
                if topic not in self._targets:
                    if len(self._targets) >= TARGETS_AT_ONCE:
                        raise InvalidUse(
                            f"more than {TARGETS_AT_ONCE} target topics: choose one at a time"
                        )
                    target = _Target(self._target, topic, self._group + MARK_SUFFIX)
                    await target.look(f"{self._group}/{self._topic}", self._firsts)
                    self._targets[topic] = target
        return self._targets[topic]

    async def _commit(self, span: QueueSpan, offset: int) -> None:
        topic, _, queue_id = span.queue
        await self._source.offsets.commit(span.address, self._group, topic, queue_id, offset)


class _Left:
    """How many messages may still be taken."""

    def __init__(self, messages: int) -> None:
        self.messages = messages

    def take(self) -> bool:
        if self.messages <= 0:
            return False
        self.messages -= 1
        return True


class _Target:
    """A topic that is copied to: its queues, and what earlier runs have sent there."""

    def __init__(self, end: CopyEnd, topic: str, mark_group: str) -> None:
        self._end = end
        self._topic = topic
        self._group = mark_group
        self._spans: list[QueueSpan] = []
        self.queues: list[MessageQueue] = []
        self.there: set[str] = set()

    async def look(self, source: str, firsts: dict[tuple[str, int], int]) -> None:
        """Find what was sent there and not committed; mark the end where nothing was yet.

        `firsts` are the offsets of the source's queues, by broker and number, that are next.
        """
        route = await self._end.admin.route(self._topic)
        self.queues = [
            MessageQueue(self._topic, each.broker_name, queue_id)
            for each in (route.queue_datas if route is not None else ())
            if each.perm & Perm.WRITE
            for queue_id in range(each.write_queue_nums)
        ]
        if not self.queues:
            raise InvalidUse(
                f"no broker takes messages for topic {self._topic!r}: make it first"
                f" (aerobee topic create {self._topic})"
            )
        self._spans = await self._end.messages.spans(self._topic)
        await side_by_side(
            self._spans_by_queue(), lambda queue: self._look_at(queue, source, firsts)
        )

    async def finish(self) -> None:
        """Move the marks to the end: all that was sent so far is committed in the source."""
        for span in await self._end.messages.spans(self._topic):
            await self._mark(span, span.end)

    async def _look_at(
        self, queue: MessageQueue, source: str, firsts: dict[tuple[str, int], int]
    ) -> None:
        span = self._spans_by_queue()[queue]
        marked = await self._end.offsets.committed(
            span.address, self._group, self._topic, queue.queue_id
        )
        if marked is None:
            await self._mark(span, span.end)
            return
        rest = msgspec.structs.replace(span, first=min(max(span.first, marked), span.end))
        async for message in self._end.messages.browse([rest], MessageFilter()):
            origin = message.properties.get(COPIED_FROM, "")
            place = place_of(origin)
            if place is None or place[0] != source:
                continue
            if place[3] >= firsts.get((place[1], place[2]), 0):  # else it is committed
                self.there.add(origin)

    async def _mark(self, span: QueueSpan, offset: int) -> None:
        await self._end.offsets.commit(
            span.address, self._group, self._topic, span.queue.queue_id, offset
        )

    def _spans_by_queue(self) -> dict[MessageQueue, QueueSpan]:
        return {span.queue: span for span in self._spans}


def origin_of(group: str, message: ReceivedMessage) -> str:
    """Write which copy a message is of, and where the original is."""
    topic, broker, queue_id = message.queue
    return f"{group}/{topic}/{broker}/{queue_id}/{message.queue_offset}"


def place_of(origin: str) -> tuple[str, str, int, int] | None:
    """Read what `origin_of` wrote: "group/topic", broker, queue, offset; None for anything else."""
    parts = origin.rsplit("/", 3)
    if len(parts) != 4 or not all(_is_number(part) for part in parts[2:]):
        return None
    return parts[0], parts[1], int(parts[2]), int(parts[3])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def sent_again(message: ReceivedMessage, topic: str, **more: str) -> Message:
    """Return a message with the body, tag, keys and properties of another, and some `more`."""
    properties = {
        name: value for name, value in message.user_properties.items() if name != COPIED_FROM
    }
    return Message(
        topic,
        message.body,
        tags=message.tags,
        keys=message.keys,
        properties=properties | more,
        flag=message.flag,
    )


def as_it_is(topic: str) -> Rule:
    """Return the rule that sends a message to a topic with its body, tag, keys and properties."""
    return lambda message: sent_again(message, topic)


async def with_producer(
    namesrv: str | Sequence[str],
    settings: ClientSettings,
    work: Callable[[Producer], Awaitable[CopyCounts]],
) -> CopyCounts:
    """Do something with a producer that tries each message once: doubles are nobody's guess."""
    once = ProducerSettings(retries_max=0, send_timeout_ms=10_000)
    async with Producer(
        "aerobee-tools", namesrv=namesrv, settings=once, client=settings
    ) as producer:
        return await work(producer)
