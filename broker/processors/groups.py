"""Group administration: 200, 207, 225 and 352 (AdminBrokerProcessor)."""

from typing import Final

from aerobee.broker.rules.names import check_group
from aerobee.broker.start.context import Context
from aerobee.broker.tables.turns import in_turns
from aerobee.remoting.bodies import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.groups import DeleteGroupRequest, GroupRequest
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("groups")

MADE_PER_TURN: Final = 256  # of a list, some milliseconds
RETRY_QUEUES_MAX: Final = 32_767


@routes.on(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
async def update_and_create_group(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Make a group, or configure it anew."""
    if not request.command.body:
        return Reply()  # as RocketMQ: nothing to do is done
    config = decode_body(SubscriptionGroupConfig, request.command.body)
    _check_wanted(config)
    ctx.tables.groups.update(config)
    await ctx.tables.groups.file.flush()
    return Reply()


@routes.on(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
async def update_and_create_groups(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Make or configure every group of a list; none, where one of them may not be so."""
    wanted = decode_body(SubscriptionGroupList, request.command.body).group_config_list
    groups = ctx.tables.groups
    async for config in in_turns(wanted, MADE_PER_TURN):
        _check_wanted(config)
        groups.planned(config)
    groups.check_new([config.group_name for config in wanted])
    try:
        async for config in in_turns(wanted, MADE_PER_TURN):
            groups.update(config)
    finally:  # others may have changed what the checks have seen
        await groups.file.flush()
    return Reply()


def _check_wanted(config: SubscriptionGroupConfig) -> None:
    """Refuse what no group may be, whatever it is so far."""
    check_group(config.group_name or "")
    if not 0 <= config.retry_queue_nums <= RETRY_QUEUES_MAX:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"retryQueueNums is {config.retry_queue_nums}, allowed: 0 to {RETRY_QUEUES_MAX}",
        )


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
