"""Offsets of logical queues: 14, 15 and 29 to 32, asked of whoever has the stretch.

ConsumerManageProcessor and AdminBrokerProcessor; where they differ is in README.md.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from aerobee.broker.features.static_topics.forwarding import OtherBrokers
from aerobee.broker.features.static_topics.mapped import LogicalQueue, MappedTopics, replaced
from aerobee.broker.features.static_topics.stretches import (
    find,
    is_decided,
    logical,
    logical_loosely,
    physical,
)
from aerobee.broker.handover.owned_queue import Verdict
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import LogicQueueMappingItem
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
from aerobee.remoting.headers.typed import Header, decode_header
from aerobee.remoting.net.routes import Outcome, Processor, Reply, Request

Answer: TypeAlias = Awaitable[Outcome]
Serve: TypeAlias = Callable[[Context, Request[Any], Processor[Any], LogicalQueue], Answer]
Item: TypeAlias = LogicQueueMappingItem


class LogicalOffsets:
    """What stands before the processors of offsets."""

    def __init__(self, mapped: MappedTopics, others: OtherBrokers) -> None:
        self._mapped = mapped
        self._others = others
        self.by_code: dict[int, Serve] = {
            RequestCode.QUERY_CONSUMER_OFFSET: self._committed,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._commit,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
            RequestCode.GET_MAX_OFFSET: self._max,
            RequestCode.GET_MIN_OFFSET: self._min,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self._earliest,
        }

    def before(self, code: int, serve: Processor[Any]) -> Processor[Any]:
        """Return what serves a code, of which other topics' requests are served by `serve`."""
        logical_queue = self.by_code[code]

        def ask(ctx: Context, request: Request[Any]) -> Any:
            detail = self._mapped.of(request.header.topic, request.command)
            if detail is None:
                return serve(ctx, request)
            queue = self._mapped.led(detail, request.header.queue_id)
            return logical_queue(ctx, request, serve, queue)

        return ask

    async def _commit(
        self,
        ctx: Context,
        request: Request[UpdateConsumerOffsetRequest],
        serve: Processor[Any],
        queue: LogicalQueue,
    ) -> Outcome:
        """Commit in the stretch that has the offset."""
        offset = request.header.commit_offset
        item = _stretch(queue, offset)
        header = replaced(
            request.header, queue_id=item.queue_id, commit_offset=physical(item, offset)
        )
        if item.bname == self._mapped.broker_name:
            return await _served(serve(ctx, msgspec.structs.replace(request, header=header)))
        reply = await self._others.ask(item.bname, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        return Reply(code=reply.code, remark=reply.remark)

    async def _committed(
        self,
        ctx: Context,
        request: Request[QueryConsumerOffsetRequest],
        serve: Processor[Any],
        queue: LogicalQueue,
    ) -> Outcome:
        """Return what a group has committed in the youngest stretch that has something of it."""
        header, leader = request.header, queue.leader
        key = GroupQueue(header.consumer_group, header.topic, leader.queue_id)
        if await self._given_up(ctx, request, key) is Verdict.PENDING:
            return Reply(
                code=ResponseCode.HANDOVER_PENDING,
                remark="the owner of the queue has not given it up yet, ask again",
            )
        for item in reversed(queue.items):
            if not is_decided(item):  # what it has is of an earlier life of that queue
                continue
            found = await self._committed_in(ctx, header, item)
            if found is not None:
                return OffsetReply(offset=logical(item, found))
        if len(queue.items) == 1 and leader.logic_offset == 0:  # as any queue
            asked = replaced(header, queue_id=leader.queue_id)
            return await _served(serve(ctx, msgspec.structs.replace(request, header=asked)))
        raise RequestError(
            ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first"
        )

    async def _given_up(
        self, ctx: Context, request: Request[QueryConsumerOffsetRequest], key: GroupQueue
    ) -> Verdict:
        """Wait until the owner of the queue has given it up, as for any other queue."""
        later: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

        def tell(verdict: Verdict) -> None:
            if not later.done():
                later.set_result(verdict)

        verdict = ctx.consumers.handovers.ask(request.connection, key, tell)
        return await later if verdict is None else verdict

    async def _committed_in(
        self, ctx: Context, header: QueryConsumerOffsetRequest, item: Item
    ) -> int | None:
        if item.bname == self._mapped.broker_name:
            found = ctx.tables.offsets.committed(header.consumer_group, header.topic, item.queue_id)
            return found if found is not None and found >= 0 else None
        asked = replaced(header, queue_id=item.queue_id, set_zero_if_not_found=False)
        reply = await self._others.ask(item.bname, RequestCode.QUERY_CONSUMER_OFFSET, asked)
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return _offset(reply.code, reply.remark, reply.ext)

    async def _max(
        self,
        ctx: Context,
        request: Request[MaxOffsetRequest],
        serve: Processor[Any],
        queue: LogicalQueue,
    ) -> Outcome:
        """Return where the youngest stretch ends of which it is known where it begins."""
        item = _stretch(queue, 2**63 - 1)
        end = await self._asked(ctx, request, serve, item)
        return OffsetReply(offset=logical(item, end))

    async def _min(
        self,
        ctx: Context,
        request: Request[MinOffsetRequest],
        serve: Processor[Any],
        queue: LogicalQueue,
    ) -> Outcome:
        """Return where the oldest stretch begins."""
        item = _stretch(queue, 0)
        start = await self._asked(ctx, request, serve, item)
        return Reply(OffsetReply(offset=logical_loosely(item, start)), remark="")

    async def _search(
        self,
        ctx: Context,
        request: Request[SearchOffsetRequest],
        serve: Processor[Any],
        queue: LogicalQueue,
    ) -> Outcome:
        """Look for a time in one stretch after the other, the oldest first."""
        header, offset = request.header, 0
        ends = Request(
            MaxOffsetRequest(topic=header.topic, queue_id=header.queue_id),
            request.command,
            request.connection,
        )
        decided = [item for item in queue.items if is_decided(item)]
        for item in decided:
            found = await self._asked(ctx, request, serve, item)
            offset = logical(item, found)
            if item is decided[-1] or found < await self._end(ctx, ends, item):
                break
        return OffsetReply(offset=offset)

    async def _end(self, ctx: Context, request: Request[MaxOffsetRequest], item: Item) -> int:
        if item.bname == self._mapped.broker_name:
            queue = ctx.store.find_queue(request.header.topic, item.queue_id)
            return 0 if queue is None else queue.max_offset
        return await self._asked_afar(RequestCode.GET_MAX_OFFSET, request.header, item)

    async def _earliest(
        self,
        ctx: Context,
        request: Request[EarliestStoreTimeRequest],
        serve: Processor[Any],
        queue: LogicalQueue,
    ) -> Outcome:
        """Return when the oldest message of the oldest stretch was stored."""
        item = _stretch(queue, 0)
        header = replaced(request.header, queue_id=item.queue_id)
        if item.bname == self._mapped.broker_name:
            return await _served(serve(ctx, msgspec.structs.replace(request, header=header)))
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        reply = await self._others.ask(item.bname, code, header)
        if reply.code != ResponseCode.SUCCESS:
            raise RequestError(reply.code, reply.remark or "")
        return decode_header(TimestampReply, reply.ext)

    async def _asked(
        self, ctx: Context, request: Request[Any], serve: Processor[Any], item: Item
    ) -> int:
        """Return the offset that the broker of a stretch answers for its physical queue."""
        if item.bname != self._mapped.broker_name:
            return await self._asked_afar(request.command.code, request.header, item)
        header = replaced(request.header, queue_id=item.queue_id)
        outcome = await _served(serve(ctx, msgspec.structs.replace(request, header=header)))
        found = outcome.header if isinstance(outcome, Reply) else outcome
        assert isinstance(found, OffsetReply)
        return found.offset

    async def _asked_afar(self, code: int, header: Header, item: Item) -> int:
        asked = replaced(header, queue_id=item.queue_id)
        reply = await self._others.ask(item.bname, code, asked)
        return _offset(reply.code, reply.remark, reply.ext)


def _stretch(queue: LogicalQueue, offset: int) -> Item:
    item = find(queue.items, offset)
    if item is None:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"{queue.detail.topic}-{queue.queue_id}: it is not decided yet where it begins",
        )
    return item


def _offset(code: int, remark: str | None, ext: Any) -> int:
    if code != ResponseCode.SUCCESS:
        raise RequestError(code, remark or "")
    return decode_header(OffsetReply, ext).offset


async def _served(outcome: Any) -> Outcome:
    found: Outcome = await outcome if inspect.iscoroutine(outcome) else outcome
    return found
