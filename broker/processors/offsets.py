"""Offsets: where groups stopped, where queues begin and end: 14, 15, 29, 30, 31 and 32."""

from functools import partial
from typing import Final

from aerobee.broker.handover.owned_queue import Verdict
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.rules.own_groups import check_own_group
from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.offsets import (
    EarliestStoreTimeRequest,
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetReply,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    TimestampReply,
    UpdateConsumerOffsetRequest,
)
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes, answer, failure
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.reads.search import Boundary

routes: Routes[Context] = Routes("offsets")

PENDING: Final = Reply(
    code=ResponseCode.HANDOVER_PENDING,
    remark="the owner of the queue has not given it up yet, ask again",
)


@routes.on(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetRequest)
def query_consumer_offset(ctx: Context, request: Request[QueryConsumerOffsetRequest]) -> Outcome:
    """Tell a group where it stopped in one queue, when the queue's owner has given it up.

    A group that never committed is told 0 where the queue still has its first message at hand, so
    that it misses nothing of a fresh topic; elsewhere, or with setZeroIfNotFound=false, it learns
    that there is no offset and decides by its ConsumeFromWhere.
    """
    header = request.header
    topic = ctx.tables.topics.get(header.topic)
    if topic is not None and 0 <= header.queue_id < topic.read_queue_nums:
        key = GroupQueue(header.consumer_group, header.topic, header.queue_id)
        verdict = ctx.consumers.handovers.ask(
            request.connection, key, partial(_answer_later, ctx, request)
        )
        if verdict is None:
            return None
    return _offset(ctx, header)


def _answer_later(
    ctx: Context, request: Request[QueryConsumerOffsetRequest], verdict: Verdict
) -> None:
    """Answer a request that had to wait, whatever has become of the disk meanwhile."""
    outcome: Outcome = PENDING
    if verdict is Verdict.OFFSET:
        try:
            outcome = _offset(ctx, request.header)
        except Exception as error:  # noqa: BLE001  who asks is told, as if it had not waited
            outcome = failure(request.command, error, ctx.health.faults.caught)
    answer(request.connection, request.command, outcome)


def _offset(ctx: Context, header: QueryConsumerOffsetRequest) -> Outcome:
    offset = ctx.tables.offsets.committed(header.consumer_group, header.topic, header.queue_id)
    if offset is not None and offset >= 0:
        return OffsetReply(offset=offset)
    if header.set_zero_if_not_found is False:
        raise RequestError(
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, do not set to zero, maybe this group boot first",
        )
    queue = ctx.store.find_queue(header.topic, header.queue_id)
    if queue is not None and _starts_in_memory(ctx, queue):
        return OffsetReply(offset=0)
    raise RequestError(
        ResponseCode.QUERY_NOT_FOUND,
        "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
    )


@routes.on(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequest)
def update_consumer_offset(ctx: Context, request: Request[UpdateConsumerOffsetRequest]) -> Outcome:
    """Remember how far a group has consumed one queue."""
    header = request.header
    group, topic = header.consumer_group, header.topic
    check_own_group(group)
    if group not in ctx.tables.groups:
        raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
    config = ctx.tables.topics.get(topic)
    if config is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
    if not 0 <= header.queue_id < max(config.read_queue_nums, config.write_queue_nums):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER, f"topic {topic} has no queue {header.queue_id}"
        )  # RocketMQ takes any number, and keeps it for ever
    if (group, topic, header.queue_id) in ctx.tables.offsets.resets:
        return Reply(remark="Offset has been previously reset")
    key = GroupQueue(group, topic, header.queue_id)
    kept = True
    if ctx.consumers.handovers.takes_commit(request.connection, key, header.commit_offset):
        remote = request.connection.remote
        kept = ctx.tables.offsets.commit(
            group, topic, header.queue_id, header.commit_offset, remote
        )
    ctx.consumers.handovers.committed(request.connection, key)
    if not kept:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"the offset of {group} in {topic} cannot be kept: offsetsMax is the limit",
        )
    return Reply()


@routes.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetRequest)
async def search_offset(ctx: Context, request: Request[SearchOffsetRequest]) -> Outcome:
    """Find the message of one queue that was stored at, or next to, a time."""
    header = request.header
    queue = ctx.store.find_queue(header.topic, header.queue_id)
    if queue is None:
        return OffsetReply(offset=0)
    upper = (header.boundary_type or "").upper() == "UPPER"
    boundary: Boundary = "UPPER" if upper else "LOWER"
    return OffsetReply(
        offset=await ctx.cold.lookups.offset_of_time(queue, header.timestamp, boundary)
    )


@routes.on(RequestCode.GET_MAX_OFFSET, MaxOffsetRequest)
def max_offset(ctx: Context, request: Request[MaxOffsetRequest]) -> Outcome:
    """Return the offset that the next message of one queue will get."""
    queue = ctx.store.find_queue(request.header.topic, request.header.queue_id)
    return OffsetReply(offset=0 if queue is None else queue.max_offset)


@routes.on(RequestCode.GET_MIN_OFFSET, MinOffsetRequest)
async def min_offset(ctx: Context, request: Request[MinOffsetRequest]) -> Outcome:
    """Return the offset of the oldest message of one queue that can still be read."""
    queue = ctx.store.find_queue(request.header.topic, request.header.queue_id)
    kept = None if queue is None else await ctx.cold.views.oldest(queue)
    offset = 0 if queue is None else queue.min_offset
    reply = OffsetReply(offset=offset if kept is None else min(kept[0], offset))
    return Reply(reply, remark="")  # RocketMQ's comes through RpcClientUtils, with an empty remark


@routes.on(RequestCode.GET_EARLIEST_MSG_STORETIME, EarliestStoreTimeRequest)
async def earliest_store_time(ctx: Context, request: Request[EarliestStoreTimeRequest]) -> Outcome:
    """Return when the oldest message of one queue was stored, -1 where there is none."""
    queue = ctx.store.find_queue(request.header.topic, request.header.queue_id)
    oldest = -1 if queue is None else queue.min_offset
    if queue is not None and (kept := await ctx.cold.views.oldest(queue)) is not None:
        return TimestampReply(timestamp=kept[1])
    (time_ms,) = await ctx.cold.lookups.store_times([(queue, oldest)])
    return TimestampReply(timestamp=time_ms)


def _starts_in_memory(ctx: Context, queue: ConsumeQueue) -> bool:
    """Whether message 0 is there and still recent enough to be in the page cache."""
    if queue.min_offset > 0 or queue.max_offset == 0:
        return False
    position = ctx.store.reader.position_of(queue, 0)
    return position is not None and ctx.store.in_memory(position)
