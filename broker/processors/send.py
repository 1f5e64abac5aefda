"""Storing messages with every check (SendMessageProcessor): 10, 310 and 320.

The fast path (`broker.sends.fast`) declines whatever is unusual, so what is here is complete, and
the first plain message that passes for a topic puts that topic on the fast path's list.
"""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from aerobee.broker.cluster.announcing import until_known
from aerobee.broker.hooks import SendEvent
from aerobee.broker.sends.checks import AnySend
from aerobee.broker.start.context import Context
from aerobee.broker.writing.queues import TopicQueue
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import RequestCode, ResponseCode, SysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import (
    SendMessageReply,
    SendMessageRequest,
    SendMessageRequestV2,
)
from aerobee.remoting.message.message_id import offset_message_id
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.net.routes import Reply, Request, Routes
from aerobee.remoting.words import RETRY_PREFIX
from aerobee.storage.errors import LogBusy, MessageTooLarge, StoreError

routes: Routes[Context] = Routes("send")

Outcome = Reply | Coroutine[Any, Any, Reply]


@routes.on(RequestCode.SEND_MESSAGE, SendMessageRequest)
def send_v1(ctx: Context, request: Request[SendMessageRequest]) -> Outcome:
    """Store one message; the header has long field names."""
    return send(ctx, request, request.header)


@routes.on(RequestCode.SEND_MESSAGE_V2, SendMessageRequestV2)
def send_v2(ctx: Context, request: Request[SendMessageRequestV2]) -> Outcome:
    """Store one message; the header has one-letter names."""
    return send(ctx, request, request.header)


@routes.on(RequestCode.SEND_BATCH_MESSAGE, SendMessageRequestV2)
def send_batch(ctx: Context, request: Request[SendMessageRequestV2]) -> Outcome:
    """Store several messages of one topic and queue."""
    return send(ctx, request, request.header)


def send(ctx: Context, request: Request[Any], header: AnySend) -> Outcome:
    """Check and store; a coroutine only where something has to be waited for."""
    known = ctx.tables.topics.get(header.topic) is not None
    try:
        topic = ctx.sends.checks.check(request, header)
        if header.topic.startswith(RETRY_PREFIX):
            buried = ctx.sends.retries.instead_of_retry(header, request.command.version)
            if buried is not None:
                header, topic, is_new = buried
                known = not is_new
        if not known:
            ctx.cluster.announcements.announce(topic)
        announcement = ctx.cluster.announcements.of(topic)
        if announcement is not None:
            return send_when_known(ctx, request, header, topic, announcement)
        return store(ctx, request, header, topic)
    except LogBusy:
        return send_when_room(ctx, request, header)
    except RequestError as error:
        return refused(ctx, error)


async def send_when_known(
    ctx: Context,
    request: Request[Any],
    header: AnySend,
    topic: TopicConfig,
    announcement: asyncio.Future[None],
) -> Reply:
    """Store when the topic is on disk and known to every nameserver."""
    try:
        await until_known(announcement)
    except RequestError as error:
        return refused(ctx, error)
    return await waited(ctx, store_or_refuse(ctx, request, header, topic))


async def send_when_room(ctx: Context, request: Request[Any], header: AnySend) -> Reply:
    """Wait for the helper that prepares the log, then try once more."""
    await asyncio.sleep(ctx.settings.wait_time_mills_in_send_queue / 1000)
    topic = ctx.sends.checks.check(request, header)
    return await waited(ctx, store_or_refuse(ctx, request, header, topic))


def store_or_refuse(
    ctx: Context, request: Request[Any], header: AnySend, topic: TopicConfig
) -> Outcome:
    """Store, with a refusal as a reply."""
    try:
        return store(ctx, request, header, topic)
    except LogBusy:
        return refused(ctx, busy())
    except RequestError as error:
        return refused(ctx, error)


async def waited(ctx: Context, outcome: Outcome) -> Reply:
    """Return the reply, when there is one."""
    return outcome if isinstance(outcome, Reply) else await outcome


def store(ctx: Context, request: Request[Any], header: AnySend, topic: TopicConfig) -> Outcome:
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
    for hook in ctx.hooks.before_send:
        hook(event)
    now_ms = ctx.now_ms()
    body = request.command.body
    if batch:
        placed = ctx.sends.checks.batch_messages(header, queue_id, body)
    else:
        placed = ctx.sends.checks.single_message(header, queue_id, body, now_ms)
    stamp = Stamp(request.connection.host_bytes, ctx.store_host)
    sys_flag = (header.sys_flag & ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)) | stamp.sys_flag
    if topic.topic_filter_type == "MULTI_TAG":
        sys_flag |= SysFlag.MULTI_TAGS
    try:
        positions, offset = ctx.sends.placing.append(
            placed,
            sys_flag,
            header.born_timestamp,
            stamp.at(now_ms, header.reconsume_times or 0),
        )
    except LogBusy:
        raise
    except MessageTooLarge as error:
        raise ctx.sends.checks.illegal() from error
    except StoreError as error:
        ctx.troubles.met(error)
        raise unavailable(str(error)) from error
    host, port = ctx.host
    reply = SendMessageReply(
        msg_id=",".join([offset_message_id(host, port, position) for position in positions]),
        queue_id=queue_id,
        queue_offset=offset,
        transaction_id=None if batch else find_property(placed.messages[0][2], Property.UNIQ_KEY),
    )
    if placed.queue.name == header.topic:
        admit(ctx, placed.queue, topic)
    return acknowledged(ctx, event, reply)


def acknowledged(ctx: Context, event: SendEvent, reply: SendMessageReply) -> Outcome:
    """Reply now, or when the disk has answered."""
    if not ctx.writing.tick.commit_log():
        raise unavailable(ctx.store.commit_log.refusal or "the log could not be written")
    ctx.writing.tick.schedule()  # somebody may wait for the message
    if ctx.writing.tick.sync:
        return after_flush(ctx, event, reply)
    return finished(ctx, event, reply, ResponseCode.SUCCESS)


async def after_flush(ctx: Context, event: SendEvent, reply: SendMessageReply) -> Reply:
    """Reply when the group commit that covers this message is done."""
    code = ResponseCode.SUCCESS if await durable(ctx) else ResponseCode.FLUSH_DISK_TIMEOUT
    return finished(ctx, event, reply, code)


async def durable(ctx: Context) -> bool:
    """Wait until the disk has what was committed; False when it took too long."""
    flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def done(ok: bool) -> None:
        if not flushed.done():
            flushed.set_result(ok)

    ctx.writing.tick.when_durable(done)
    return await flushed


def busy() -> RequestError:
    """Refuse with SYSTEM_BUSY: the same request soon succeeds."""
    return RequestError(
        ResponseCode.SYSTEM_BUSY,
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
        "the log's space is being prepared",
    )


def unavailable(reason: str) -> RequestError:
    """Refuse with SERVICE_NOT_AVAILABLE in RocketMQ's words, and say which of them it is."""
    return RequestError(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. It may be caused by one of the following reasons: "
        "the broker's disk is full, messages are put to the slave, message store has been "
        f"shut down, etc. ({reason})",
    )


def finished(ctx: Context, event: SendEvent, header: SendMessageReply, code: int) -> Reply:
    """Tell the hooks and build the reply."""
    if ctx.hooks.after_send:
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
        for hook in ctx.hooks.after_send:
            hook(stored)
    return Reply(header, code=code, ext=reply_fields(ctx))


def refused(ctx: Context, error: RequestError) -> Reply:
    """Build the reply to a message that is not stored."""
    return Reply(code=error.code, remark=error.remark, ext=reply_fields(ctx))


def reply_fields(ctx: Context) -> dict[str, str]:
    """Return what every reply to a send carries beside its own header."""
    settings = ctx.settings
    return {
        "MSG_REGION": settings.region_id,
        "TRACE_ON": "true" if settings.trace_on else "false",
    }


def admit(ctx: Context, queue: TopicQueue, topic: TopicConfig) -> None:
    """Let further plain messages for this queue take the fast path."""
    plain = topic.topic_filter_type != "MULTI_TAG" and not queue.name.startswith("%")
    if plain and not ctx.hooks.watch_sends:
        queues = max(topic.write_queue_nums, topic.read_queue_nums)
        ctx.writing.queues.admit(queue, queues, topic.perm & ctx.settings.broker_permission)
