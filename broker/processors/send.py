"""Storing messages with every check (SendMessageProcessor): 10, 310 and 320.

The fast path (`broker.fast_sends`) declines whatever is unusual, so what is here is complete, and
the first plain message that passes for a topic puts that topic on the fast path's list.
"""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from aerobee.broker.context import Context
from aerobee.broker.hooks import SendEvent
from aerobee.broker.send_checks import (
    AnySend,
    batch_messages,
    check,
    illegal,
    single_message,
)
from aerobee.broker.stored_message import Stamp
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import RequestCode, ResponseCode, SysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import (
    SendMessageReply,
    SendMessageRequest,
    SendMessageRequestV2,
)
from aerobee.remoting.message_id import offset_message_id
from aerobee.remoting.net.routes import Reply, Request, Routes
from aerobee.remoting.properties import Property, find_property
from aerobee.storage.errors import LogBusy, MessageTooLarge, StoreError

routes: Routes[Context] = Routes("send")

Outcome = Reply | Coroutine[Any, Any, Reply]


@routes.on(RequestCode.SEND_MESSAGE, SendMessageRequest)
def send_v1(context: Context, request: Request[SendMessageRequest]) -> Outcome:
    """Store one message; the header has long field names."""
    return send(context, request, request.header)


@routes.on(RequestCode.SEND_MESSAGE_V2, SendMessageRequestV2)
def send_v2(context: Context, request: Request[SendMessageRequestV2]) -> Outcome:
    """Store one message; the header has one-letter names."""
    return send(context, request, request.header)


@routes.on(RequestCode.SEND_BATCH_MESSAGE, SendMessageRequestV2)
def send_batch(context: Context, request: Request[SendMessageRequestV2]) -> Outcome:
    """Store several messages of one topic and queue."""
    return send(context, request, request.header)


def send(context: Context, request: Request[Any], header: AnySend) -> Outcome:
    """Check and store; a coroutine only where something has to be waited for."""
    known = context.topics.get(header.topic) is not None
    try:
        topic = check(context, request, header)
        if not known or header.topic in context.announcing:
            return send_to_new_topic(context, request, header, topic)
        return store(context, request, header, topic)
    except LogBusy:
        return send_when_room(context, request, header)
    except RequestError as error:
        return refused(context, error)


async def send_to_new_topic(
    context: Context, request: Request[Any], header: AnySend, topic: TopicConfig
) -> Reply:
    """Have the topic on disk and known to every nameserver before any message for it is stored."""
    name = header.topic
    announcement = context.announcing.get(name)
    if announcement is None:
        announcement = asyncio.ensure_future(context.registration.announce(topic))
        context.announcing[name] = announcement
        announcement.add_done_callback(lambda _: context.announcing.pop(name, None))
    try:
        await asyncio.shield(announcement)
    except OSError as error:
        remark = f"topic[{name}] cannot be kept: {error}"
        return refused(context, RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, remark))
    return await waited(context, store_or_refuse(context, request, header, topic))


async def send_when_room(context: Context, request: Request[Any], header: AnySend) -> Reply:
    """Wait for the helper that prepares the log, then try once more."""
    await asyncio.sleep(context.settings.wait_time_mills_in_send_queue / 1000)
    topic = check(context, request, header)
    return await waited(context, store_or_refuse(context, request, header, topic))


def store_or_refuse(
    context: Context, request: Request[Any], header: AnySend, topic: TopicConfig
) -> Outcome:
    """Store, with a refusal as a reply."""
    try:
        return store(context, request, header, topic)
    except LogBusy:
        return refused(
            context,
            RequestError(
                ResponseCode.SYSTEM_BUSY,
                "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                "the log's space is being prepared",
            ),
        )
    except RequestError as error:
        return refused(context, error)


async def waited(context: Context, outcome: Outcome) -> Reply:
    """Return the reply, when there is one."""
    return outcome if isinstance(outcome, Reply) else await outcome


def store(context: Context, request: Request[Any], header: AnySend, topic: TopicConfig) -> Outcome:
    """Append what the request carries; the reply waits for the disk where the store promises it."""
    batch = bool(header.batch) or request.command.code == RequestCode.SEND_BATCH_MESSAGE
    queue_id = header.queue_id
    if queue_id < 0:
        queue_id = random.randrange(max(topic.write_queue_nums, 1))
    event = SendEvent(
        request.connection,
        header.producer_group,
        header.topic,
        queue_id,
        header.properties or "",
        len(request.command.body),
    )
    for hook in context.hooks.before_send:
        hook(event)
    if batch:
        messages = batch_messages(context, header, request.command.body)
    else:
        messages = [single_message(context, header, request.command.body)]
    stamp = Stamp(request.connection.host_bytes, context.store_host)
    sys_flag = (header.sys_flag & ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)) | stamp.sys_flag
    if topic.topic_filter_type == "MULTI_TAG":
        sys_flag |= SysFlag.MULTI_TAGS
    queue = context.queues.get(header.topic, queue_id)
    offset = queue.stored.max_offset
    try:
        positions = context.appender.append(
            queue,
            sys_flag,
            header.born_timestamp,
            stamp.at(context.now_ms(), header.reconsume_times or 0),
            messages,
        )
    except LogBusy:
        raise
    except MessageTooLarge as error:
        raise illegal(context) from error
    except StoreError as error:
        raise RequestError(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now. It may be caused by one of the following reasons: "
            "the broker's disk is full, messages are put to the slave, message store has been "
            f"shut down, etc. ({error})",
        ) from error
    host, port = context.host
    reply = SendMessageReply(
        msg_id=",".join([offset_message_id(host, port, position) for position in positions]),
        queue_id=queue_id,
        queue_offset=offset,
        transaction_id=None if batch else find_property(messages[0].properties, Property.UNIQ_KEY),
    )
    admit(context, header, topic)
    return acknowledged(context, event, reply)


def acknowledged(context: Context, event: SendEvent, reply: SendMessageReply) -> Outcome:
    """Reply now, or when the disk has answered."""
    if context.tick.sync:
        return after_flush(context, event, reply)
    context.tick.commit_log()
    context.tick.schedule()  # somebody may wait for the message
    return finished(context, event, reply, ResponseCode.SUCCESS)


async def after_flush(context: Context, event: SendEvent, reply: SendMessageReply) -> Reply:
    """Wait for the group commit that covers this message."""
    flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def done(ok: bool) -> None:
        if not flushed.done():
            flushed.set_result(ok)

    context.tick.when_durable(done)
    context.tick.schedule()
    code = ResponseCode.SUCCESS if await flushed else ResponseCode.FLUSH_DISK_TIMEOUT
    return finished(context, event, reply, code)


def finished(context: Context, event: SendEvent, header: SendMessageReply, code: int) -> Reply:
    """Tell the hooks and build the reply."""
    if context.hooks.after_send:
        stored = SendEvent(
            event.connection,
            event.producer_group,
            event.topic,
            event.queue_id,
            event.properties,
            event.body_bytes,
            code,
            header.queue_offset,
        )
        for hook in context.hooks.after_send:
            hook(stored)
    return Reply(header, code=code, ext=reply_fields(context))


def refused(context: Context, error: RequestError) -> Reply:
    """Build the reply to a message that is not stored."""
    return Reply(code=error.code, remark=error.remark, ext=reply_fields(context))


def reply_fields(context: Context) -> dict[str, str]:
    """Return what every reply to a send carries beside its own header."""
    settings = context.settings
    return {
        "MSG_REGION": settings.region_id,
        "TRACE_ON": "true" if settings.trace_on else "false",
    }


def admit(context: Context, header: AnySend, topic: TopicConfig) -> None:
    """Let further plain messages for this topic take the fast path."""
    plain = topic.topic_filter_type != "MULTI_TAG" and not header.topic.startswith("%")
    if plain and not context.hooks.watch_sends:
        queues = max(topic.write_queue_nums, topic.read_queue_nums)
        context.queues.admit(header.topic, queues, topic.perm & context.settings.broker_permission)
