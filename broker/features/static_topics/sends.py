"""Sends to logical queues: into the physical queue that leads, answered with logical numbers."""

import inspect
from collections.abc import Coroutine
from typing import Any, Final, cast

import msgspec

from aerobee.broker.features.static_topics.mapped import MappedTopics, replaced
from aerobee.broker.features.static_topics.stretches import logical_loosely
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import TopicQueueMappingDetail
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import AnySend, SendMessageReply
from aerobee.remoting.net.routes import Outcome, Processor, Reply, Request

SENDS: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
)

AnyOutcome = Outcome | Coroutine[Any, Any, Outcome]


class LogicalSends:
    """What stands before the checked path of sends."""

    def __init__(self, mapped: MappedTopics) -> None:
        self._mapped = mapped

    def before(self, store: Processor[Any]) -> Processor[Any]:
        """Return what serves sends, of which those to other topics are served by `store`."""

        def send(ctx: Context, request: Request[AnySend]) -> AnyOutcome:
            detail = self._mapped.of(request.header.topic, request.command)
            if detail is None:
                return store(ctx, request)
            topic = ctx.tables.topics.get(request.header.topic)
            known = ctx.cluster.announcements.until_known(topic) if topic is not None else None
            if known is not None:  # it would wait between the look at the mapping and the append
                return self._when_known(ctx, request, store, known())
            return self._send(ctx, request, store, detail)

        return send

    async def _when_known(
        self,
        ctx: Context,
        request: Request[AnySend],
        store: Processor[Any],
        known: Coroutine[Any, Any, None],
    ) -> Outcome:
        try:
            await known
        except RequestError as error:
            return ctx.sends.checked.refused(error)
        detail = self._mapped.of(request.header.topic, request.command)
        served = store(ctx, request) if detail is None else self._send(ctx, request, store, detail)
        if inspect.iscoroutine(served):
            served = await served
        return cast("Outcome", served)

    def _send(
        self,
        ctx: Context,
        request: Request[AnySend],
        store: Processor[Any],
        detail: TopicQueueMappingDetail,
    ) -> AnyOutcome:
        queue_id = request.header.queue_id
        if queue_id < 0:
            queue_id = self._mapped.any_led(detail)
        try:
            queue = self._mapped.led(detail, queue_id)
        except RequestError as error:
            return ctx.sends.checked.refused(error)
        header = replaced(request.header, queue_id=queue.leader.queue_id)
        outcome = store(ctx, msgspec.structs.replace(request, header=header))
        if inspect.iscoroutine(outcome):
            return self._later(detail, outcome)
        return self._seen(detail, cast("Outcome", outcome))

    async def _later(
        self, detail: TopicQueueMappingDetail, outcome: Coroutine[Any, Any, Outcome]
    ) -> Outcome:
        return self._seen(detail, await outcome)

    def _seen(self, detail: TopicQueueMappingDetail, outcome: Outcome) -> Outcome:
        """Return an answer with the numbers of the logical queue."""
        if not isinstance(outcome, Reply) or not isinstance(outcome.header, SendMessageReply):
            return outcome
        place = outcome.header
        queue = self._mapped.stored_in(detail, place.queue_id)
        if queue is None:
            return outcome
        offset = logical_loosely(queue.leader, place.queue_offset)
        seen = replaced(place, queue_id=queue.queue_id, queue_offset=offset)
        return msgspec.structs.replace(outcome, header=seen)
