"""The path of a message: where its records lie, who consumed it, what traces tell (12, 14, 203)."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from aerobee.admin.calls import AdminCalls, side_by_side
from aerobee.admin.groups import GroupAdmin, is_own_group
from aerobee.admin.offsets import OffsetAdmin
from aerobee.admin.reading import MessageAdmin
from aerobee.admin.topics import TopicAdmin
from aerobee.client.errors import RouteMissing
from aerobee.client.received import ReceivedMessage
from aerobee.client.traces.records import (
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    Trace,
    decode_traces,
)
from aerobee.remoting.bodies import ConsumerConnection
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.message.properties import Property
from aerobee.remoting.words import (
    BROADCASTING,
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TAG,
    TRACE_TOPIC,
)

GROUPS_MAX: Final = 100
"""Groups of a topic whose part of the path is looked for."""
POP_SEPARATORS: Final = ("_", "+")
"""Between group and topic in the retry topics of pop consumers (KeyBuilder.java)."""


class RecordKind(StrEnum):
    """What one record of a message is."""

    SENT = "sent"
    WAITING = "waiting"
    RETRY = "retry"
    DEAD_LETTER = "dead letter"


class TrackState(StrEnum):
    """How a group stands to a message (TrackType.java, and two that tell more)."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    RETRYING = "RETRYING"
    DEAD_LETTER = "DEAD_LETTER"
    UNKNOWN = "UNKNOWN"


class TrackedRecord(msgspec.Struct, frozen=True):
    """One record of a message, and where it lies; `stored_ms` counts from 1970.

    `attempt` is how often handling it had failed by then; `passed` whether the group that it is for
    is past it, None where it is for nobody in particular or nobody can tell.
    """

    kind: RecordKind
    topic: str
    broker: str
    queue_id: int
    offset: int
    stored_ms: int
    attempt: int
    passed: bool | None = None


class TraceStep(msgspec.Struct, frozen=True):
    """What a client told of a message: it was sent, or handled; `host` is the client's address.

    `cost_ms` is how long that took; of a handling that has no end yet it is None.
    """

    what: str
    group: str
    host: str
    at_ms: int
    cost_ms: int | None
    succeeded: bool | None
    attempt: int = 0


class GroupTrack(msgspec.Struct, frozen=True):
    """A group's part of a message's path.

    `committed` is the group's offset in the message's queue, None where it has none; `records` are
    those of its retry topics and dead letters, the oldest first. `error` says why the group could
    not be looked at whole.
    """

    group: str
    state: TrackState
    committed: int | None
    members: int
    records: list[TrackedRecord]
    error: str | None = None


class MessageTrack(msgspec.Struct, frozen=True):
    """The path of one message: its records, the groups of its topic, and the traces of clients.

    `groups_left_out` counts groups beyond the limit; `problems` say what could not be asked.
    """

    message_id: str
    topic: str
    records: list[TrackedRecord]
    groups: list[GroupTrack]
    traces: list[TraceStep]
    groups_left_out: int
    problems: list[str]


class _Place(msgspec.Struct, frozen=True):
    """The first record of a message, as a topic's groups consume it."""

    topic: str
    message_id: str
    message: ReceivedMessage | None
    waiting: list[ReceivedMessage]
    addresses: dict[str, str]


class TrackAdmin:
    """Follows messages.

    (message,) = (await admin.message.find("orders", key="order-1")).messages
    track = await admin.track.of(message)
    print([(each.group, each.state) for each in track.groups])
    """

    def __init__(
        self,
        admin: AdminCalls,
        topics: TopicAdmin,
        groups: GroupAdmin,
        offsets: OffsetAdmin,
        messages: MessageAdmin,
    ) -> None:
        self._admin = admin
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._messages = messages

    async def of(self, message: ReceivedMessage, trace_topic: str = TRACE_TOPIC) -> MessageTrack:
        """Return the path of a message, of which any record will do: a retry, a dead letter.

        It is found by its id in the brokers' index. Raises InvalidUse where its topic is gone;
        whatever else cannot be asked is among the problems.
        """
        problems: list[str] = []
        topic, message_id = first_topic(message), message.message_id
        found = await self._find(topic, message_id, problems)
        if message.queue.topic == topic:
            found = [message, *(each for each in found if _at(each) != _at(message))]
        waiting = await self._find(SCHEDULE_TOPIC, message_id, problems)
        first = min(found, key=_by_time, default=None)
        place = _Place(topic, message_id, first, waiting, await self._admin.masters_with(topic))
        described = await self._topics.describe(topic)
        problems += [f"{name}: {error}" for name, error in described.failed.items()]
        groups = [each for each in described.groups if not is_own_group(each)]
        tracks = await side_by_side(groups[:GROUPS_MAX], lambda each: self._group(each, place))
        records = [_record(each, RecordKind.SENT) for each in found]
        records += [
            _record(each, RecordKind.WAITING)
            for each in waiting
            if each.properties.get(Property.REAL_TOPIC) == topic
        ]
        return MessageTrack(
            message_id,
            topic,
            sorted(records, key=lambda each: each.stored_ms),
            list(tracks.values()),
            await self._traces(trace_topic, message_id, problems),
            len(groups[GROUPS_MAX:]),
            problems,
        )

    async def _find(
        self, topic: str, message_id: str, problems: list[str]
    ) -> list[ReceivedMessage]:
        """Return the records of an id in a topic, none where nobody has the topic."""
        try:
            found = await self._messages.find(topic, message_id=message_id)
        except RouteMissing:
            return []
        except AerobeeError as error:
            problems.append(f"{topic}: {error}")
            return []
        problems += [f"{topic}, {name}: {error}" for name, error in found.failed.items()]
        return sorted([*found.messages, *found.unreadable], key=_by_time)

    async def _group(self, group: str, place: _Place) -> GroupTrack:
        problems: list[str] = []
        names = [
            RETRY_PREFIX + group,
            *(f"{RETRY_PREFIX}{group}{each}{place.topic}" for each in POP_SEPARATORS),
            DLQ_PREFIX + group,
        ]
        by_topic = await side_by_side(
            names, lambda each: self._find(each, place.message_id, problems)
        )
        dead = by_topic.pop(DLQ_PREFIX + group)
        retried = [each for found in by_topic.values() for each in found]
        records = [await self._retry(group, each, place.addresses) for each in retried]
        arrived = {(each.attempt, each.broker) for each in records}
        records += [
            _record(each, RecordKind.WAITING, passed=(_attempt(each) in arrived))
            for each in place.waiting
            if each.properties.get(Property.REAL_TOPIC) in by_topic
        ]
        records += [_record(each, RecordKind.DEAD_LETTER) for each in dead]
        records.sort(key=lambda each: each.stored_ms)
        try:
            masters = await self._admin.masters_of()
            connected = (await self._groups.connections(group, masters)).found.values()
            online = [each for each in connected if each is not None]
            committed = await self._committed(group, place.message, place.addresses)
        except AerobeeError as error:
            return GroupTrack(group, TrackState.UNKNOWN, None, 0, records, str(error))
        members = {each.client_id for found in online for each in found.connection_set}
        state = _state(place, committed, online, records)
        error_text = "; ".join(problems) or None
        return GroupTrack(group, state, committed, len(members), records, error_text)

    async def _retry(
        self, group: str, message: ReceivedMessage, addresses: dict[str, str]
    ) -> TrackedRecord:
        try:
            committed = await self._committed(group, message, addresses)
        except AerobeeError:
            return _record(message, RecordKind.RETRY)
        passed = committed is not None and committed > message.queue_offset
        return _record(message, RecordKind.RETRY, passed=passed)

    async def _committed(
        self, group: str, message: ReceivedMessage | None, addresses: dict[str, str]
    ) -> int | None:
        """Return where a group is in the queue of a record."""
        if message is None or (address := addresses.get(message.queue.broker_name)) is None:
            return None
        topic, _, queue_id = message.queue
        return await self._offsets.committed(address, group, topic, queue_id)

    async def _traces(self, topic: str, message_id: str, problems: list[str]) -> list[TraceStep]:
        """Return what clients told of a message, where their traces are on."""
        try:
            found = await self._messages.find(topic, key=message_id)
        except RouteMissing:
            return []
        except AerobeeError as error:
            problems.append(f"{topic}: {error}")
            return []
        told = [
            (each.born_host[0], trace)
            for each in found
            for trace in decode_traces(each.body)
            if message_id in trace.message_id.split(",")
        ]
        return sorted(_steps(told), key=lambda each: each.at_ms)


def first_topic(message: ReceivedMessage) -> str:
    """Return the topic that a message was sent to, whichever of its records this is."""
    properties = message.properties
    for name in (Property.DLQ_ORIGIN_TOPIC, Property.RETRY_TOPIC, Property.REAL_TOPIC):
        if properties.get(name):
            return properties[name]
    return message.queue.topic


def _state(
    place: _Place,
    committed: int | None,
    online: list[ConsumerConnection],
    records: list[TrackedRecord],
) -> TrackState:
    """Sum up how a group stands to a message."""
    if any(each.kind is RecordKind.DEAD_LETTER for each in records):
        return TrackState.DEAD_LETTER
    if any(each.passed is False for each in records):
        return TrackState.RETRYING
    if any(each.message_model == BROADCASTING for each in online):
        return TrackState.CONSUME_BROADCASTING
    message = place.message
    if message is None:
        return TrackState.UNKNOWN if not place.waiting else TrackState.NOT_CONSUME_YET
    if committed is not None and committed > message.queue_offset:
        if not records and _is_filtered(message, place.topic, online):
            return TrackState.CONSUMED_BUT_FILTERED
        return TrackState.CONSUMED
    return TrackState.NOT_CONSUME_YET if online else TrackState.NOT_ONLINE


def _is_filtered(message: ReceivedMessage, topic: str, online: list[ConsumerConnection]) -> bool:
    """Whether what members want now would have left a message out, as far as tags decide."""
    wanted = [each.subscription_table[topic] for each in online if topic in each.subscription_table]
    return bool(wanted) and all(
        each.expression_type == TAG and each.tags_set and message.tags not in each.tags_set
        for each in wanted
    )


def _steps(told: Iterable[tuple[str, Trace]]) -> list[TraceStep]:
    """Put together what traces tell, the begin and end of each handling as one."""
    steps: list[TraceStep] = []
    begun: dict[str, tuple[str, SubBeforeTrace]] = {}
    ended: dict[str, SubAfterTrace] = {}
    for host, trace in told:
        if isinstance(trace, PubTrace):
            host = trace.client_host or host
            steps.append(
                TraceStep(
                    "sent", trace.group, host, trace.timestamp_ms, trace.cost_ms, trace.succeeded
                )
            )
        elif isinstance(trace, SubBeforeTrace):
            begun[trace.request_id] = host, trace
        elif isinstance(trace, SubAfterTrace):
            ended[trace.request_id] = trace
    for request_id, (host, before) in begun.items():
        after = ended.get(request_id)
        steps.append(
            TraceStep(
                "handled",
                before.group,
                host,
                before.timestamp_ms,
                after.cost_ms if after is not None else None,
                after.succeeded if after is not None else None,
                before.retry_times,
            )
        )
    return steps


def _record(
    message: ReceivedMessage, kind: RecordKind, *, passed: bool | None = None
) -> TrackedRecord:
    topic, broker, queue_id = message.queue
    attempt, _ = _attempt(message)
    return TrackedRecord(
        kind, topic, broker, queue_id, message.queue_offset, message.store_timestamp_ms, attempt,
        passed,
    )  # fmt: skip


def _attempt(message: ReceivedMessage) -> tuple[int, str]:
    return message.reconsume_times, message.queue.broker_name


def _at(message: ReceivedMessage) -> tuple[str, int]:
    return message.queue.broker_name, message.position


def _by_time(message: ReceivedMessage) -> tuple[int, str, int]:
    return message.store_timestamp_ms, message.queue.broker_name, message.position
