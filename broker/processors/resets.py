"""What tools make a group do: 222 and 223, 307 and 309 (AdminBrokerProcessor, Broker2Client)."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

import msgspec

from aerobee.broker.members.group import Member
from aerobee.broker.rules.own_groups import check_own_group
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import (
    ConsumerStatusBody,
    QueueBody,
    QueueOffset,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, Language
from aerobee.remoting.errors import AerobeeError, CallTimedOut, RequestError
from aerobee.remoting.headers.heartbeat import ConsumeDirectlyRequest, ConsumerRunningInfoRequest
from aerobee.remoting.headers.offsets import ConsumerStatusRequest, ResetOffsetRequest
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.message.message_id import parse_offset_message_id
from aerobee.remoting.message.record import decode_record
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

log = logging.getLogger(__name__)

routes: Routes[Context] = Routes("resets")

ANSWER_TIMEOUT_S: Final = 10.0  # Broker2Client.callClient
STATUS_TIMEOUT_S: Final = 5.0  # of each client, Broker2Client.getConsumeStatus
RESET_VERSION: Final = 28  # V3_0_7_SNAPSHOT, the first that knows 220 and 221
FORWARD_VERSION: Final = 62  # V3_1_8_SNAPSHOT, the first that knows 307 and 309


@routes.on(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffsetRequest)
async def reset_offset(ctx: Context, request: Request[ResetOffsetRequest]) -> Outcome:
    """Let a group go on elsewhere in a topic, or in one queue of it.

    The broker does it by itself (useServerSideResetOffset), so that nobody need be online; or it
    tells the members (220).
    """
    check_own_group(request.header.group)
    if not ctx.settings.use_server_side_reset_offset:
        return await _tell_members(ctx, request.header)
    header = request.header
    group, topic = header.group, header.topic
    offsets = await _reset_offsets(ctx, header)
    for queue_id, offset in offsets.items():
        ctx.tables.offsets.reset(group, topic, queue_id, offset)
        queue = ctx.writing.queues.find(topic, queue_id)
        if queue is not None:
            ctx.pulls.holds.wake(
                [queue]
            )  # its consumer hears of it now, not when a message arrives
    log.info("offsets_reset group=%s topic=%s to=%.500s", group, topic, offsets)
    return Reply(body=_reset_body(ctx, topic, offsets))


async def _reset_offsets(ctx: Context, header: ResetOffsetRequest) -> dict[int, int]:
    """Return where each queue in question has to go on; raises RequestError in RocketMQ's words."""
    config = ctx.tables.topics.get(header.topic)
    if config is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
    if header.group not in ctx.tables.groups:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist"
        )
    if header.queue_id < 0:
        queue_ids = range(config.read_queue_nums)
        return {id: await _offset_at(ctx, header.topic, id, header.timestamp) for id in queue_ids}
    if header.queue_id >= config.read_queue_nums:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"topic {header.topic} has no queue {header.queue_id}",
        )
    offset = header.offset
    if offset is None or offset == -1:
        offset = await _offset_at(ctx, header.topic, header.queue_id, header.timestamp)
    else:
        queue = ctx.store.find_queue(header.topic, header.queue_id)
        least, most = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        if queue is not None and (kept := await ctx.cold.views.oldest(queue)) is not None:
            least = min(kept[0], least)
        if not least <= offset <= most + 1:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"Target offset {offset} not in consume queue range [{least}-{most}]",
            )
    return {header.queue_id: offset}


async def _offset_at(ctx: Context, topic: str, queue_id: int, timestamp: int) -> int:
    """Return the offset of the first message of a time in ms since 1970; negative: of the end."""
    queue = ctx.store.find_queue(topic, queue_id)
    if queue is None:
        return 0
    if timestamp < 0:
        return queue.max_offset
    return max(await ctx.cold.lookups.offset_of_time(queue, timestamp), 0)


def _reset_body(ctx: Context, topic: str, offsets: dict[int, int]) -> bytes:
    name = ctx.settings.broker_name
    table = {
        QueueBody(topic=topic, broker_name=name, queue_id=queue_id): offset
        for queue_id, offset in offsets.items()
    }
    return encode_body(ResetOffsetBody(offset_table=table), strict=False)


async def _tell_members(ctx: Context, header: ResetOffsetRequest) -> Reply:
    """Let every member reset its offsets itself (Broker2Client.resetOffset)."""
    config = ctx.tables.topics.get(header.topic)
    if config is None:
        raise RequestError(
            ResponseCode.TOPIC_NOT_EXIST,
            f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}",
        )
    offsets: dict[int, int] = {}
    for queue_id in range(config.write_queue_nums):
        committed = ctx.tables.offsets.committed(header.group, header.topic, queue_id)
        if committed is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist"
            )
        wanted = await _offset_at(ctx, header.topic, queue_id, header.timestamp)
        offsets[queue_id] = wanted if header.is_force else min(wanted, committed)
    group = ctx.consumers.members.group(header.group)
    if group is None:
        raise RequestError(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"Consumer not online, so can not reset offset, Group: {header.group} "
            f"Topic: {header.topic} Timestamp: {header.timestamp}",
        )
    for member in group.members.values():
        _check_version(member, RESET_VERSION)
    body = _reset_body(ctx, header.topic, offsets)
    name = ctx.settings.broker_name
    list_form = ResetOffsetBodyForC(
        offset_table=[
            QueueOffset(topic=header.topic, broker_name=name, queue_id=queue_id, offset=offset)
            for queue_id, offset in offsets.items()
        ]
    )
    ext = encode_header(msgspec.structs.replace(header, queue_id=-1, offset=None))
    for member in group.members.values():
        if member.client.connection.closed:
            continue
        cpp = member.client.language == Language.CPP
        member.client.connection.oneway(
            Command(
                code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                ext=ext,
                body=encode_body(list_form) if cpp else body,
            )
        )
    return Reply(body=body)


@routes.on(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ConsumerStatusRequest)
def consumer_status(
    ctx: Context, request: Request[ConsumerStatusRequest]
) -> Coroutine[Any, Any, Outcome]:
    """Ask members, or the one with the id `client_addr`, where they are in their queues."""
    header = request.header
    group = ctx.consumers.members.group(header.group)
    if group is None:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"No Any Consumer online in the consumer group: [{header.group}]",
        )
    asked = [
        member
        for member in group.members.values()
        if header.client_addr in (None, "", member.client.client_id)
    ]
    for member in asked:
        _check_version(member, RESET_VERSION)
    return _statuses(header, asked)


async def _statuses(header: ConsumerStatusRequest, asked: list[Member]) -> Outcome:
    tables = await asyncio.gather(*(_status(header, member) for member in asked))
    return Reply(
        body=encode_body(
            ConsumerStatusBody(
                consumer_table={
                    member.client.client_id: table
                    for member, table in zip(asked, tables, strict=True)
                    if table is not None
                }
            ),
            strict=False,
        )
    )


async def _status(header: ConsumerStatusRequest, member: Member) -> dict[QueueBody, int] | None:
    """Return where one member is, None if it does not say; others are asked all the same."""
    command = Command(
        code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        ext=encode_header(msgspec.structs.replace(header, client_addr=None)),
    )
    try:
        reply = await member.client.connection.call(command, STATUS_TIMEOUT_S)
        if reply.code != ResponseCode.SUCCESS or not reply.body:
            return None
        return decode_body(ConsumerStatusBody, reply.body).message_queue_table
    except AerobeeError as error:
        log.warning("no status group=%s client=%s error=%s", header.group, member.client, error)
        return None


@routes.on(RequestCode.GET_CONSUMER_RUNNING_INFO, ConsumerRunningInfoRequest)
def running_info(
    ctx: Context, request: Request[ConsumerRunningInfoRequest]
) -> Coroutine[Any, Any, Outcome]:
    """Pass on to a member the question what it is doing."""
    header, command = request.header, request.command
    return _forward(ctx, header.consumer_group, header.client_id, command.ext, command)


@routes.on(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyRequest)
async def consume_directly(ctx: Context, request: Request[ConsumeDirectlyRequest]) -> Outcome:
    """Pass a stored message on to a member, which shall consume it at once."""
    header = request.header
    ext = dict(request.command.ext) | {"brokerName": ctx.settings.broker_name}
    topic = ctx.tables.topics.get(header.topic) if header.topic else None
    if topic is not None:
        ext["topicSysFlag"] = str(topic.topic_sys_flag)
    group = (
        ctx.tables.groups.find(header.consumer_group)
        if header.consumer_group in ctx.tables.groups
        else None
    )
    if group is not None:
        ext["groupSysFlag"] = str(group.group_sys_flag)
    try:
        _, _, position = parse_offset_message_id(header.msg_id or "")
    except ValueError as error:
        raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from None
    record = await ctx.cold.lookups.record(position, header.topic)
    if ctx.records is not None:
        ctx.records.check_consumed(request, decode_record(record))
    command = msgspec.structs.replace(request.command, body=record)
    return await _forward(ctx, header.consumer_group, header.client_id or "", ext, command)


def _forward(
    ctx: Context, group_name: str, client_id: str, ext: dict[str, str], command: Command
) -> Coroutine[Any, Any, Outcome]:
    """Ask a member what somebody asked; raises RequestError where it is not there, or too old."""
    group = ctx.consumers.members.group(group_name)
    for member in group.members.values() if group is not None else ():
        if member.client.client_id == client_id:
            _check_version(member, FORWARD_VERSION)
            return _ask(group_name, member, Command(code=command.code, ext=ext, body=command.body))
    raise RequestError(
        ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online"
    )


async def _ask(group_name: str, member: Member, command: Command) -> Outcome:
    """Return a member's reply as the broker's own."""
    who = f"consumer <{group_name}> <{member.client.client_id}>"
    try:
        reply = await member.client.connection.call(command, ANSWER_TIMEOUT_S)
    except CallTimedOut as error:
        raise RequestError(ResponseCode.CONSUME_MSG_TIMEOUT, f"{who} Timeout: {error}") from None
    except AerobeeError as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"invoke {who} Exception: {error}") from None
    return Reply(code=reply.code, body=reply.body, remark=reply.remark, ext=reply.ext)


def _check_version(member: Member, least: int) -> None:
    if member.client.version < least:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"the client does not support this feature. version={member.client.version}",
        )
