"""How far groups are behind: what they have not committed, have in hand, and have not pulled."""

from collections.abc import Iterator, Mapping

import msgspec

from aerobee.broker.measures.kinds import is_retry, is_system_group, system_topics, true_or_false
from aerobee.broker.measures.values import Values
from aerobee.broker.start.context import Context
from aerobee.remoting.words import RETRY_PREFIX
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.snapshot import QueueSnapshot

Unread = dict[tuple[str, str], list[tuple[QueueSnapshot, int]]]
"""By topic and group the oldest messages that are not consumed, queue by queue."""
StoredAt = Mapping[tuple[str, str], int | None]
"""By topic and group when the oldest of some messages was stored (ms); 0 where there is none."""


class Times(msgspec.Struct, frozen=True):
    """When the oldest messages were stored that were not committed, and not pulled."""

    uncommitted: StoredAt
    unpulled: StoredAt


def look_for_unread(ctx: Context, found: Unread) -> Iterator[None]:
    """Find the oldest messages that are not committed; yields after each topic of a group."""
    for topic, group, queues in ctx.tables.offsets.entries():
        if group in ctx.tables.groups:
            found[topic, group] = [
                (queue.snapshot(), max(committed, queue.min_offset))
                for queue, committed in _behind(ctx, topic, queues)
            ]
        yield


def look_for_unpulled(ctx: Context, found: Unread) -> Iterator[None]:
    """Find the oldest messages that no member has pulled; yields after each topic of a group."""
    for topic, group in _subscribed(ctx):
        pulled = ctx.tables.offsets.pulled_by(group, topic)
        found[topic, group] = [
            (queue.snapshot(), max(offset, queue.min_offset))
            for queue, offset in _behind(ctx, topic, pulled)
        ]
        yield


def progress(ctx: Context, values: Values, times: Times) -> Iterator[None]:
    """Add how far each group is behind in each topic; yields after each.

    What is not committed is told of every group that has committed, members or none; the rest of
    those with members, and of the topics that they subscribe to.
    """
    is_system = system_topics(ctx.settings)
    now_ms, told = ctx.now_ms(), set()

    def labels(topic: str, group: str) -> dict[str, str]:
        return {
            "topic": topic,
            "consumer_group": group,
            "is_retry": true_or_false(is_retry(topic)),
            "is_system": true_or_false(is_system(topic) or is_system_group(group)),
        }

    for topic, group, queues in ctx.tables.offsets.entries():
        if group in ctx.tables.groups:
            told.add((topic, group))
            of = labels(topic, group)
            lag = sum(queue.max_offset - offset for queue, offset in _behind(ctx, topic, queues))
            values.add("rocketmq_consumer_lag_messages", lag, **of)
            if (age_ms := _age_ms(times.uncommitted, topic, group, now_ms)) is not None:
                values.add("rocketmq_consumer_lag_latency_milliseconds", age_ms, **of)
        yield
    for topic, group in _subscribed(ctx):
        of = labels(topic, group)
        if (topic, group) not in told:  # it has committed nothing: it begins at the end
            values.add("rocketmq_consumer_lag_messages", 0, **of)
            values.add("rocketmq_consumer_lag_latency_milliseconds", 0, **of)
        committed = ctx.tables.offsets.of_group(group, topic)
        pulled = ctx.tables.offsets.pulled_by(group, topic)
        in_hand = sum(max(0, at - committed.get(queue, at)) for queue, at in pulled.items())
        ready = sum(queue.max_offset - offset for queue, offset in _behind(ctx, topic, pulled))
        values.add("rocketmq_consumer_inflight_messages", in_hand, **of)
        values.add("rocketmq_consumer_ready_messages", ready, **of)
        if (age_ms := _age_ms(times.unpulled, topic, group, now_ms)) is not None:
            values.add("rocketmq_consumer_queueing_latency_milliseconds", age_ms, **of)
        yield


def _subscribed(ctx: Context) -> Iterator[tuple[str, str]]:
    """Yield each topic that is there with each group that has members for it, once."""
    for group in ctx.consumers.members.groups():
        if group.name not in ctx.tables.groups:
            continue
        for topic in list(group.subscriptions):
            if not topic.startswith(RETRY_PREFIX) and ctx.tables.topics.get(topic) is not None:
                yield topic, group.name


def _behind(
    ctx: Context, topic: str, queues: Mapping[int, int]
) -> Iterator[tuple[ConsumeQueue, int]]:
    """Yield the queues that a group has not read to their end, and where it has got to."""
    for queue_id, offset in queues.items():
        queue = ctx.store.find_queue(topic, queue_id)
        if queue is not None and offset < queue.max_offset:
            yield queue, offset


def _age_ms(times: StoredAt, topic: str, group: str, now_ms: int) -> int | None:
    """Return how old the oldest is, 0 where there is none, None where the disk did not say."""
    if (stored_ms := times.get((topic, group))) is None:
        return None
    return max(0, now_ms - stored_ms) if stored_ms else 0
