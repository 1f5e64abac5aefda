"""Requests that brokers make of a client."""

import asyncio
import logging
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Final

import msgspec

from aerobee.client.cluster.decoding import decode_messages
from aerobee.client.instance.consumer import Consumer
from aerobee.client.message import MessageQueue
from aerobee.client.received import ReceivedMessage
from aerobee.remoting import bodies
from aerobee.remoting.bodies import (
    ConsumerStatusBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.headers.heartbeat import (
    ConsumeDirectlyRequest,
    ConsumerRunningInfoRequest,
    NotifyConsumerIdsChangedRequest,
)
from aerobee.remoting.headers.offsets import ConsumerStatusRequest, ResetOffsetRequest
from aerobee.remoting.headers.send import PushReplyRequest
from aerobee.remoting.headers.transactions import CheckTransactionStateRequest
from aerobee.remoting.message.properties import Property
from aerobee.remoting.message.record import decode_record
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

if TYPE_CHECKING:
    from aerobee.client.instance.client_instance import ClientInstance

log = logging.getLogger(__name__)

STACKS_MAX: Final = 1_000  # tasks and threads that one answer describes

routes: Routes["ClientInstance"] = Routes("client")
"""All that a client answers; any other code gets REQUEST_CODE_NOT_SUPPORTED."""


@routes.on(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, NotifyConsumerIdsChangedRequest)
def notify_consumer_ids_changed(
    instance: "ClientInstance", request: Request[NotifyConsumerIdsChangedRequest]
) -> None:
    """Share the queues anew: a member joined or left (ClientRemotingProcessor.java)."""
    instance.members_changed(request.header.consumer_group)


@routes.on(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetRequest)
async def reset_offsets(
    instance: "ClientInstance", request: Request[ResetOffsetRequest]
) -> Outcome:
    """Go on elsewhere with the queues of a topic: what was fetched before is dropped.

    Java's client stops for 10 s and ignores what its handlers do meanwhile; here they end first
    (MQClientInstance.resetOffset).
    """
    header = request.header
    consumer = instance.consumers.get(header.group)
    if consumer is None:
        log.info("offsets not reset, no such consumer group=%s", header.group)
        return Reply()
    offsets = _offset_table(request.command.body)
    log.info("offsets reset group=%s topic=%s to=%.500s", header.group, header.topic, offsets)
    await consumer.reset_offsets(
        {queue: offset for queue, offset in offsets.items() if queue.topic == header.topic}
    )
    return Reply()


@routes.on(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ConsumerStatusRequest)
def consumer_status(instance: "ClientInstance", request: Request[ConsumerStatusRequest]) -> Outcome:
    """Tell up to where the queues of a topic are consumed here (MQClientInstance.java)."""
    consumer = instance.consumers.get(request.header.group)
    owned = consumer.ownership.queues if consumer is not None and consumer.ownership else {}
    table = {
        bodies.QueueBody(*queue): process.committable
        for queue, process in owned.items()
        if queue.topic == request.header.topic
    }
    return Reply(body=encode_body(ConsumerStatusBody(message_queue_table=table), strict=False))


@routes.on(RequestCode.GET_CONSUMER_RUNNING_INFO, ConsumerRunningInfoRequest)
def running_info(
    instance: "ClientInstance", request: Request[ConsumerRunningInfoRequest]
) -> Outcome:
    """Tell what a consumer is doing, on request with the stacks of all tasks and threads."""
    info = _consumer(instance, request.header.consumer_group).running_info()
    if request.header.jstack_enable:
        info = msgspec.structs.replace(info, jstack=stacks())
    return Reply(body=encode_body(info, strict=False))


@routes.on(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyRequest)
async def consume_directly(
    instance: "ClientInstance", request: Request[ConsumeDirectlyRequest]
) -> Outcome:
    """Give the record in the body to the group's handler now, whoever owns its queue."""
    header = request.header
    try:
        message = _message(request.command.body, header.broker_name)
    except (CorruptRecord, IndexError) as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"no message in the request to consume one: {error}"
        ) from error
    result = await _consumer(instance, header.consumer_group).consume_directly(message)
    if result is None:
        raise _not_here(header.consumer_group)
    return Reply(body=encode_body(result))


@routes.on(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, PushReplyRequest)
def reply_pushed(instance: "ClientInstance", request: Request[PushReplyRequest]) -> Outcome:
    """Give a reply to who waits for it; 0 also where nobody does (ClientRemotingProcessor.java)."""
    instance.replies.arrived(request.header, request.command.body)
    return Reply()


@routes.on(RequestCode.CHECK_TRANSACTION_STATE, CheckTransactionStateRequest)
def check_transaction(
    instance: "ClientInstance", request: Request[CheckTransactionStateRequest]
) -> None:
    """Have a producer of its group say what becomes of the half message in the body.

    Nobody waits for a reply, and what is not answered is asked again: trouble is only logged.
    """
    asked, remote = request.header, request.connection.remote
    try:
        message = _message(request.command.body, asked.broker_name)
    except (CorruptRecord, IndexError) as error:
        log.warning("check of a transaction not understood broker=%s: %s", remote, error)
        return
    group = message.properties.get(Property.PGROUP, "")
    checker = instance.checkers.find(group, message.message_id)
    if checker is None:
        log.warning(
            "check of a transaction, but nobody here answers for its group group=%s broker=%s"
            " message_id=%s",
            group,
            remote,
            message.message_id,
        )
        return
    checker.check(asked, message, request.connection)


def stacks() -> str:
    """Write where every task of this loop and every thread is, as `jstack` does for Java."""
    parts: list[str] = []
    for task in list(asyncio.all_tasks())[:STACKS_MAX]:
        frames = [
            line for frame in task.get_stack() for line in traceback.format_stack(frame, limit=1)
        ]
        parts.append(f"task {task.get_name()}\n{''.join(frames)}")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in list(sys._current_frames().items())[:STACKS_MAX]:
        lines = "".join(traceback.format_stack(frame))
        parts.append(f"thread {names.get(ident, ident)}\n{lines}")
    return "\n".join(parts)


def _message(body: bytes | memoryview, broker_name: str | None) -> ReceivedMessage:
    """Read the one record of a body; raises CorruptRecord, IndexError."""
    data = bytes(body)
    record = decode_record(data, body=False)
    queue = MessageQueue(record.topic, broker_name or "", record.queue_id)
    return decode_messages(data, queue)[0]


def _offset_table(body: bytes | memoryview) -> dict[MessageQueue, int]:
    """Read the body of a reset, in the form for Java or the one for C++; empty: no queue."""
    if not body:
        return {}
    try:
        table = decode_body(ResetOffsetBody, body).offset_table
    except RequestError:
        listed = decode_body(ResetOffsetBodyForC, body).offset_table
        return {MessageQueue.of(each): each.offset for each in listed}
    return {MessageQueue.of(queue): offset for queue, offset in table.items()}


def _consumer(instance: "ClientInstance", group: str) -> Consumer:
    consumer = instance.consumers.get(group)
    if consumer is None:
        raise _not_here(group)
    return consumer


def _not_here(group: str) -> RequestError:
    return RequestError(
        ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
    )
