"""What trace topics tell of one message; without an index, their messages are looked through."""

from collections.abc import Sequence
from typing import Final

import msgspec

from aerobee.client.errors import OFFSET_MAX, InvalidUse, RouteMissing, text, whole_number
from aerobee.client.message import MessageQueue
from aerobee.client.plain.pull_consumer import PullConsumer
from aerobee.client.pulls.raw import PullStatus
from aerobee.client.settings import ClientSettings
from aerobee.client.traces.records import (
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    Trace,
    decode_traces,
)
from aerobee.remoting.words import TRACE_TOPIC

READER_GROUP: Final = "aerobee-trace-readers"
MESSAGES_MAX: Final = 1_000_000  # of the trace topic, that one search looks at


class Handled(msgspec.Struct, frozen=True):
    """One time that a consumer got the message; `after` is None while nothing is known of it."""

    before: SubBeforeTrace | None
    after: SubAfterTrace | None


class MessageTraces(msgspec.Struct, frozen=True):
    """What is known of one message, each in the order of time."""

    sent: list[PubTrace]
    handled: list[Handled]
    transactions: list[EndTransactionTrace]
    recalls: list[RecallTrace]


async def read_traces(
    namesrv: str | Sequence[str] | None,
    message_id: str,
    *,
    trace_topic: str = TRACE_TOPIC,
    begin_ms: int = 0,
    client: ClientSettings | None = None,
) -> MessageTraces:
    """Return what RocketMQ's clients, and ours, have traced of a message, by its client's id.

        traces = await read_traces("127.0.0.1:9876", result.message_id)

    Reads the trace topic from what was stored at `begin_ms` (since 1970) to its end, MESSAGES_MAX
    messages at most: needs no index, and takes time where there is much. Raises Unavailable and
    BrokerRefused as pulls do; a topic that does not exist has no traces.
    """
    if not text("message_id", message_id).strip() or " " in message_id:
        raise InvalidUse(f"message_id={message_id!r}: an id is not empty and has no spaces")
    begin_ms = whole_number("begin_ms", begin_ms, 0, OFFSET_MAX)
    traces: list[Trace] = []
    left = MESSAGES_MAX
    async with PullConsumer(READER_GROUP, namesrv=namesrv, client=client) as consumer:
        try:
            queues = await consumer.fetch_queues(trace_topic)
        except RouteMissing:
            queues = []
        for queue in queues:
            left = await _read_queue(consumer, queue, begin_ms, message_id, traces, left)
    return traces_of(message_id, traces)


async def _read_queue(
    consumer: PullConsumer,
    queue: MessageQueue,
    begin_ms: int,
    message_id: str,
    traces: list[Trace],
    left: int,
) -> int:
    """Add one queue's traces; return how many messages may still be looked at."""
    wanted = message_id.encode()
    offset = await consumer.offset_for_timestamp(queue, begin_ms) if begin_ms else 0
    end = await consumer.newest_offset(queue)
    while offset < end and left > 0:
        result = await consumer.pull(queue, offset)
        for message in result.messages:
            if wanted in message.body:
                traces += decode_traces(message.body)
        left -= len(result.messages)
        if result.next_offset <= offset and result.status is not PullStatus.FOUND:
            break
        offset = result.next_offset
    return left


def traces_of(message_id: str, traces: Sequence[Trace]) -> MessageTraces:
    """Pick what is said of one message, or of a batch with it, and put together what belongs so."""
    mine = [trace for trace in traces if message_id in trace.message_id.split(",")]
    befores = {each.request_id: each for each in mine if isinstance(each, SubBeforeTrace)}
    afters = {each.request_id: each for each in mine if isinstance(each, SubAfterTrace)}
    requests = dict.fromkeys((*befores, *afters))
    handled = [Handled(befores.get(at), afters.get(at)) for at in requests]
    return MessageTraces(
        sorted((each for each in mine if isinstance(each, PubTrace)), key=_time),
        sorted(handled, key=lambda each: each.before.timestamp_ms if each.before else 0),
        sorted((each for each in mine if isinstance(each, EndTransactionTrace)), key=_time),
        sorted((each for each in mine if isinstance(each, RecallTrace)), key=_time),
    )


def _time(trace: PubTrace | EndTransactionTrace | RecallTrace) -> int:
    return trace.timestamp_ms
