"""Group administration: 200, 207 and 352 (AdminBrokerProcessor)."""

from typing import Final

from aerobee.broker.rules.names import check_group
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import SubscriptionGroupConfig, decode_body, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.groups import DeleteGroupRequest, GroupRequest
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("groups")

RETRY_QUEUES_MAX: Final = 32_767


@routes.on(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
async def update_and_create_group(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Make a group, or configure it anew."""
    if not request.command.body:
        return Reply()  # as RocketMQ: nothing to do is done
    config = decode_body(SubscriptionGroupConfig, request.command.body)
    check_group(config.group_name or "")
    if not 0 <= config.retry_queue_nums <= RETRY_QUEUES_MAX:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"retryQueueNums is {config.retry_queue_nums}, allowed: 0 to {RETRY_QUEUES_MAX}",
        )
    ctx.tables.groups.update(config)
    await ctx.tables.groups.file.flush()
    return Reply()


@routes.on(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupRequest)
async def delete_group(ctx: Context, request: Request[DeleteGroupRequest]) -> Outcome:
    """Remove a group and, if asked, the offsets it committed; no error where there is none."""
    name = request.header.group_name
    ctx.tables.groups.delete(name)
    ctx.health.metrics.forget(group=name)
    if request.header.clean_offset:
        ctx.tables.offsets.delete_group(name)
    await ctx.tables.groups.file.flush()
    return Reply()


@routes.on(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupRequest)
async def get_group_config(ctx: Context, request: Request[GroupRequest]) -> Outcome:
    """Return one group's configuration as JSON; an unknown group is made, as RocketMQ does."""
    config = ctx.tables.groups.find(request.header.group)
    if config is None:
        raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    await ctx.tables.groups.file.flush()
    return Reply(body=encode_body(config))
