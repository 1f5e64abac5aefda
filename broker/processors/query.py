"""Looking at single messages, and at entries of queues: 33 (QueryMessageProcessor) and 321."""

from typing import Final

import msgspec

from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import QueueEntriesBody, QueueEntry, SubscriptionData, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.query import QueryQueueRequest, ViewMessageRequest
from aerobee.remoting.message.record import decode_record
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes
from aerobee.remoting.words import TAG
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.reads.cold.file_lookup import FileEntries

routes: Routes[Context] = Routes("query")

ENTRIES_MAX: Final = 4096  # of one answer; RocketMQ gives all that one file has


@routes.on(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest)
async def view_message_by_id(ctx: Context, request: Request[ViewMessageRequest]) -> Outcome:
    """Return the record at a position of the log, as it is stored."""
    header = request.header
    record = await ctx.cold.lookups.record(header.offset, header.topic)
    if ctx.records is not None:
        ctx.records.check_seen(request, decode_record(record))
    return Reply(body=record)


@routes.on(RequestCode.QUERY_CONSUME_QUEUE, QueryQueueRequest)
async def query_queue(ctx: Context, request: Request[QueryQueueRequest]) -> Outcome:
    """Return entries of a queue from an offset on, where it begins and ends, and who reads it.

    No entry and no body where the queue does not have that offset.
    """
    header = request.header
    index, name = header.index, f"{header.queue_id}@{header.topic}"
    queue = ctx.store.find_queue(header.topic, header.queue_id)
    if queue is None:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{name} is not exist!")
    snapshot = queue.snapshot()
    if not snapshot.min_offset <= index < snapshot.max_offset:
        return Reply(remark=f"Index {index} of {name} is not exist!")
    count = min(header.count, ENTRIES_MAX, snapshot.max_offset - index)
    found = await ctx.cold.lookups.beside(
        lambda lookup: _entries(lookup.entries(snapshot), index, count)
    )
    subscription, filter_data = None, None
    if (group := header.consumer_group) is not None:
        subscription = ctx.consumers.members.subscription(group, header.topic)
        filter_data = _filter(group, header.topic, subscription)
    body = QueueEntriesBody(
        min_queue_index=snapshot.min_offset,
        max_queue_index=snapshot.max_offset,
        queue_data=found,
        subscription_data=subscription,
        filter_data=filter_data,
    )
    return Reply(body=encode_body(body))


def _entries(queue: FileEntries, first: int, count: int) -> list[QueueEntry]:
    found: list[QueueEntry] = []
    while len(found) < count:
        data = queue.run(first + len(found), count - len(found))
        if len(data) < ENTRY.size:
            break  # the file has gone meanwhile
        found += [
            QueueEntry(physic_offset=position, physic_size=size, tags_code=tags_code)
            for position, size, tags_code in ENTRY.iter_unpack(data)
        ]
    return found


def _filter(group: str, topic: str, subscription: SubscriptionData | None) -> str:
    """Write as text what a group filters by, as RocketMQ does: null where that is tags."""
    if subscription is None:
        return f"{group}@{topic} is not online!"
    if subscription.expression_type in (None, "", TAG):
        return "null"
    shown = {
        "consumerGroup": group,
        "expression": subscription.sub_string,
        "expressionType": subscription.expression_type,
        "topic": topic,
    }
    return msgspec.json.format(msgspec.json.encode(shown), indent=1).decode()
