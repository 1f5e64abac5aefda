"""How far groups are, and who may read: 43, 303, 308, 314, 317, 345 and 353."""

import asyncio
from typing import Final

import msgspec

from aerobee.broker.rules.names import check_group
from aerobee.broker.rules.own_groups import check_own_group
from aerobee.broker.start.context import Context
from aerobee.broker.start.group_progress import progress_of, queue_body
from aerobee.remoting.bodies import (
    ConsumeStats,
    ConsumeTimeSpanBody,
    CorrectionOffsetsBody,
    GroupForbidden,
    QueueBody,
    QueueTimeSpan,
    SubscriptionReply,
    TopicConfig,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.groups import (
    AllConsumeStatsRequest,
    CloneGroupOffsetRequest,
    ConsumeTimeSpanRequest,
    CorrectionOffsetRequest,
    GroupForbiddenRequest,
    SubscriptionByConsumerRequest,
)
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes
from aerobee.storage.queues.consume_queue import ConsumeQueue

routes: Routes[Context] = Routes("progress")

REPORT_BYTES_MAX: Final = 15 << 20  # Java reads frames of up to 16 MiB
NOTHING_TO_CORRECT: Final = 2**63 - 1  # Long.MAX_VALUE


@routes.on(RequestCode.GET_ALL_CONSUMER_OFFSET)
def all_offsets(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Return every committed offset, as consumerOffset.json has them."""
    return Reply(body=ctx.tables.offsets.encode())


@routes.on(RequestCode.GET_BROKER_CONSUME_STATS, AllConsumeStatsRequest)
async def all_consume_stats(ctx: Context, request: Request[AllConsumeStatsRequest]) -> Outcome:
    """Return how far every group is in its topics, of ordered ones alone where that is asked.

    Topics that the broker does not have are left out, and so are those that no member of a
    connected group subscribes to any more.
    """
    pieces, size, behind, in_flight = [], 0, 0, 0
    async with ctx.tables.groups.reports:
        for config in ctx.tables.groups:
            group, stats = config.group_name, []
            for topic in _topics_of(ctx, group, ordered=request.header.is_order):
                body = await _consume_stats(ctx, group, topic)
                for progress in body.offset_table.values():
                    behind += progress.broker_offset - progress.consumer_offset
                    in_flight += progress.pull_offset - progress.consumer_offset
                stats.append(encode_body(body, strict=False))
                size += len(stats[-1])
                if size > REPORT_BYTES_MAX:
                    raise RequestError(
                        ResponseCode.SYSTEM_ERROR,
                        f"the progress of all groups has more than {REPORT_BYTES_MAX} bytes, which"
                        " fits into no reply: ask group by group (208)",
                    )
            pieces.append(b"{%b:[%b]}" % (msgspec.json.encode(group), b",".join(stats)))
            await asyncio.sleep(0)
        address = msgspec.json.encode("{}:{}".format(*ctx.front.host))
        return Reply(
            body=b'{"brokerAddr":%b,"consumeStatsList":[%b],"totalDiff":%d,"totalInflightDiff":%d}'
            % (address, b",".join(pieces), behind, in_flight)
        )


def _topics_of(ctx: Context, group: str, *, ordered: bool) -> list[TopicConfig]:
    """Return the topics in which a group has committed, and that are still of interest to it."""
    connected = ctx.consumers.members.group(group)
    wanted = connected.subscriptions if connected is not None else {}
    found = []
    for topic in sorted(ctx.tables.offsets.topics_of(group)):
        config = ctx.tables.topics.get(topic)
        if config is None or (ordered and not config.order) or (wanted and topic not in wanted):
            continue
        found.append(config)
    return found


async def _consume_stats(ctx: Context, group: str, topic: TopicConfig) -> ConsumeStats:
    """Return how far a group is in one topic, and what it pulls of it per second."""
    name = topic.topic_name
    rows = [progress_of(ctx, group, name, number) for number in range(topic.write_queue_nums)]
    times = await ctx.cold.lookups.store_times(
        [(queue, progress.consumer_offset - 1) for queue, progress in rows]
    )
    table = {
        queue_body(ctx, name, number): msgspec.structs.replace(
            progress, last_timestamp=max(last_ms, 0)
        )
        for number, ((_, progress), last_ms) in enumerate(zip(rows, times, strict=True))
    }
    tps = ctx.health.metrics.pulled_by.per_second((name, group))
    return ConsumeStats(offset_table=table, consume_tps=tps)


@routes.on(RequestCode.QUERY_CONSUME_TIME_SPAN, ConsumeTimeSpanRequest)
async def consume_time_span(ctx: Context, request: Request[ConsumeTimeSpanRequest]) -> Outcome:
    """Return how far a group is behind in each queue of a topic, in time; -1 where none is known.

    `delayTime` is the age of the message that it consumes next, 0 where there is none.
    """
    topic, group = request.header.topic, request.header.group
    config = _topic(ctx, topic)
    asked = [
        _messages_to_look_at(ctx, group, topic, number) for number in range(config.write_queue_nums)
    ]
    times = iter(
        await ctx.cold.lookups.store_times([place for places in asked for place in places])
    )
    spans = [
        _span(ctx, topic, number, [next(times) for _ in places])
        for number, places in enumerate(asked)
    ]
    return Reply(body=encode_body(ConsumeTimeSpanBody(consume_time_span_set=spans)))


@routes.on(RequestCode.QUERY_CORRECTION_OFFSET, CorrectionOffsetRequest)
def correction_offsets(ctx: Context, request: Request[CorrectionOffsetRequest]) -> Outcome:
    """Return the least offset of all groups by queue, the largest number where one group is behind.

    The groups to filter out are left out; RocketMQ deletes their offsets.
    """
    header = request.header
    left_out = set((header.filter_groups or "").split(","))
    least: dict[int, int] = {}
    for topic, group, queues in ctx.tables.offsets.entries():
        if topic != header.topic or group in left_out:
            continue
        for queue_id, offset in queues.items():
            queue = ctx.store.find_queue(topic, queue_id)
            if queue is None or offset >= queue.min_offset:
                least[queue_id] = min(least.get(queue_id, offset), offset)
    for queue_id, offset in ctx.tables.offsets.of_group(header.compare_group, header.topic).items():
        if least.get(queue_id, -1) > offset:
            least[queue_id] = NOTHING_TO_CORRECT
    body = CorrectionOffsetsBody(correction_offsets=dict(sorted(least.items())))
    return Reply(body=encode_body(body, strict=False))


@routes.on(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffsetRequest)
def clone_group_offset(ctx: Context, request: Request[CloneGroupOffsetRequest]) -> Outcome:
    """Commit for one group what another has committed, in one topic or in all of its topics.

    Topics to which a connected source group is not subscribed are left out, unless `offline`.
    """
    header = request.header
    check_group(header.dest_group)
    check_own_group(header.dest_group)
    named = (header.topic or "").strip()
    source = None if header.offline else ctx.consumers.members.group(header.src_group)
    subscribed = source.subscriptions if source is not None else {}
    for topic in [named] if named else ctx.tables.offsets.topics_of(header.src_group):
        if ctx.tables.topics.get(topic) is None or (subscribed and topic not in subscribed):
            continue
        for queue_id, offset in ctx.tables.offsets.of_group(header.src_group, topic).items():
            ctx.tables.offsets.commit(
                header.dest_group, topic, queue_id, offset, request.connection.remote
            )
    return Reply()


@routes.on(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, SubscriptionByConsumerRequest)
def subscription_by_consumer(
    ctx: Context, request: Request[SubscriptionByConsumerRequest]
) -> Outcome:
    """Return what a connected group wants of a topic, nothing where it wants nothing."""
    group, topic = request.header.group, request.header.topic
    body = SubscriptionReply(
        group=group,
        topic=topic,
        subscription_data=ctx.consumers.members.subscription(group, topic or ""),
    )
    return Reply(body=encode_body(body))


@routes.on(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, GroupForbiddenRequest)
async def group_forbidden(ctx: Context, request: Request[GroupForbiddenRequest]) -> Outcome:
    """Close a topic to a group or open it again, if asked to; return how it stands.

    Both must exist, unless nothing is to be changed: RocketMQ keeps flags for any names.
    """
    group, topic, readable = request.header.group, request.header.topic, request.header.readable
    if readable is not None:
        if group not in ctx.tables.groups:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"group[{group}] not exist"
            )
        _topic(ctx, topic)
        ctx.tables.groups.forbid_reading(group, topic, forbidden=not readable)
        await ctx.tables.groups.file.flush()
    readable = not ctx.tables.groups.is_read_forbidden(group, topic)
    body = GroupForbidden(group=group, topic=topic, readable=readable)
    return Reply(body=encode_body(body), remark="")  # a remark without words, as RocketMQ's


def _topic(ctx: Context, topic: str) -> TopicConfig:
    config = ctx.tables.topics.get(topic)
    if config is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    return config


def _messages_to_look_at(
    ctx: Context, group: str, topic: str, queue_id: int
) -> list[tuple[ConsumeQueue | None, int]]:
    """Name the messages whose times tell how far a group is: the oldest, the newest, the one that
    it consumed last, and the one that is next."""
    queue = ctx.store.find_queue(topic, queue_id)
    if queue is None:
        return []
    committed = ctx.tables.offsets.committed(group, topic, queue_id)
    last = queue.min_offset if committed is None or committed <= 0 else committed - 1
    following = -1 if committed is None else committed
    offsets = (queue.min_offset, queue.max_offset - 1, last, following)
    return [(queue, offset) for offset in offsets]


def _span(ctx: Context, topic: str, queue_id: int, times: list[int]) -> QueueTimeSpan:
    """Say how far a group is by the times that were asked for."""
    oldest_ms, newest_ms, consumed_ms, next_ms = times or (-1, -1, -1, -1)
    place = QueueBody(topic=topic, broker_name=ctx.settings.broker_name, queue_id=queue_id)
    return QueueTimeSpan(
        message_queue=place,
        min_time_stamp=oldest_ms,
        max_time_stamp=newest_ms,
        consume_time_stamp=consumed_ms,
        delay_time=max(ctx.now_ms() - next_ms, 0) if next_ms >= 0 else 0,
    )
