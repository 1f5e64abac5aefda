"""Queues shared out by the broker: 400, 401 and 402 (QueryAssignmentProcessor)."""

import logging
from typing import Final

from aerobee.broker.start.context import Context
from aerobee.broker.tables.request_modes import PULL
from aerobee.remoting.allocation import STRATEGIES, allocate, sorted_members, sorted_queues
from aerobee.remoting.bodies import (
    QueryAssignmentBody,
    QueryAssignmentReply,
    QueueAssignment,
    QueueBody,
    RequestModeBody,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes
from aerobee.remoting.words import BROADCASTING, RETRY_PREFIX

log = logging.getLogger(__name__)

routes: Routes[Context] = Routes("assignment")

MODES: Final = ("PULL", "POP")


@routes.on(RequestCode.QUERY_ASSIGNMENT)
async def query_assignment(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Tell a client its share of a topic; without one in the reply it keeps what it has."""
    asked = decode_body(QueryAssignmentBody, request.command.body)
    queues = await ctx.cluster.routes.queues(asked.topic)
    share = _share(ctx, asked, queues) if queues is not None else None
    mode = ctx.settings.default_message_request_mode
    assignments = None
    if share is not None:
        assignments = [QueueAssignment(message_queue=queue, mode=mode) for queue in share]
    return Reply(body=encode_body(QueryAssignmentReply(message_queue_assignments=assignments)))


def _share(
    ctx: Context, asked: QueryAssignmentBody, queues: list[QueueBody]
) -> list[QueueBody] | None:
    """Return what falls to one client, None where that cannot be told."""
    group = asked.consumer_group
    if asked.message_model == BROADCASTING or not ctx.settings.server_load_balancer_enable:
        return queues
    members = ctx.consumers.members.client_ids(group)
    if not members:
        log.warning("no assignment group=%s topic=%s: it has no members", group, asked.topic)
        return None
    if asked.strategy_name not in STRATEGIES:
        log.warning(
            "no assignment group=%s topic=%s: unsupported strategy %.100s",
            group,
            asked.topic,
            asked.strategy_name,
        )
        return None
    return allocate(
        asked.strategy_name, sorted_queues(queues), sorted_members(members), asked.client_id
    )


@routes.on(RequestCode.SET_MESSAGE_REQUEST_MODE)
async def set_request_mode(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Decide how a group gets a topic's messages; pulling is all there is so far."""
    wanted = decode_body(RequestModeBody, request.command.body)
    if wanted.topic.startswith(RETRY_PREFIX):
        raise RequestError(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if ctx.tables.topics.get(wanted.topic) is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{wanted.topic}] not exist")
    if ctx.tables.groups.find(wanted.consumer_group) is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist"
        )
    if wanted.mode != PULL:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"mode {wanted.mode:.20} is not served by this broker yet, {PULL} is"
            if wanted.mode in MODES
            else f"no such mode: {wanted.mode:.20}, allowed: {PULL}",
        )
    ctx.tables.request_modes.set(wanted)
    await ctx.tables.request_modes.file.flush()
    return Reply()


@routes.on(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
def all_request_modes(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Return what was set by 401, as messageRequestMode.json has it."""
    return Reply(body=ctx.tables.request_modes.encode())
