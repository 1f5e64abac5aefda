"""Clients come, stay and go: 34, 35, 38 and 46 (ClientManageProcessor, ConsumerManageProcessor)."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from aerobee.broker.members.group import Client
from aerobee.broker.members.subscriptions import check_property_filter, is_tag_type
from aerobee.broker.members.waiting_heartbeats import WaitingHeartbeat
from aerobee.broker.rules.names import retry_topic
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import (
    CheckClientConfig,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    decode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode, TopicSysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.heartbeat import (
    ConsumerListRequest,
    HeartbeatReply,
    UnregisterClientRequest,
)
from aerobee.remoting.msgpack_header import EXT_MSGPACK
from aerobee.remoting.net.routes import (
    NoHeader,
    Outcome,
    Reply,
    Request,
    Routes,
    answer,
    failure,
)
from aerobee.remoting.words import CONSUME_ACTIVELY

routes: Routes[Context] = Routes("heartbeat")


@routes.on(RequestCode.HEART_BEAT)
def heart_beat(ctx: Context, request: Request[NoHeader]) -> Outcome | Coroutine[Any, Any, Outcome]:
    """Note which groups a client consumes and produces for; make groups that are new.

    The answer waits only where a group or its retry topic was made: until both are on disk and
    every nameserver has the topic. The client joins its groups after that, for the notice that
    follows must not overtake the answer by much: a Java 5.x client that shares out queues while
    its heartbeat is under way raises its subscription's version and cannot tell the broker. With
    SQL92 it gets SUBSCRIPTION_NOT_LATEST for its pulls until the next heartbeat, 30 s later.
    What comes behind a heartbeat that waits holds against it, as `WaitingHeartbeats` says.
    """
    data = decode_body(HeartbeatData, request.command.body)
    _check_size(ctx, data)
    made = _make_groups(ctx, data)
    if made or ctx.tables.groups.file.dirty:
        join = ctx.consumers.members.waiting.begin(request.connection, data)
        announcement = ctx.cluster.announcements.announce(*made) if made else None
        return _join_when_kept(ctx, request, data, announcement, join)
    newer = WaitingHeartbeat(data)
    ctx.consumers.members.waiting.overtaken(request.connection, newer.consumers, newer.producers)
    return _join(ctx, request, data, newer)


def _make_groups(ctx: Context, data: HeartbeatData) -> list[TopicConfig]:
    """Make what the heartbeat's consumers lack; return the retry topics that are new."""
    made = []
    for consumer in _accepted(ctx, data):
        config = ctx.tables.groups.find(consumer.group_name)
        if config is not None:
            topic, new = _retry_topic(ctx, consumer, config)
            if new:
                made.append(topic)
    return made


def _accepted(ctx: Context, data: HeartbeatData) -> list[ConsumerData]:
    rejecting = ctx.settings.reject_pull_consumer_enable
    return [
        consumer
        for consumer in data.consumer_data_set
        if not (rejecting and consumer.consume_type == CONSUME_ACTIVELY)
    ]


def _join(
    ctx: Context, request: Request[NoHeader], data: HeartbeatData, groups: WaitingHeartbeat
) -> Reply:
    """Enter the client into the registries, as far as its groups are still its own; answer."""
    command = request.command
    client = Client(request.connection, data.client_id, command.language, command.version)
    version_2 = data.heartbeat_fingerprint != 0
    without_sub = version_2 and data.without_sub
    changed = not version_2  # V1 has no fingerprint to compare: every heartbeat may be a change
    for consumer in _accepted(ctx, data):
        if consumer.group_name not in groups.consumers:
            continue
        changed |= ctx.consumers.members.note_fingerprint(
            consumer.group_name, data.heartbeat_fingerprint, without_sub=without_sub
        )
        config = ctx.tables.groups.find(consumer.group_name)
        if config is not None:
            ctx.consumers.members.register_consumer(
                client,
                consumer,
                notified=config.notify_consumer_ids_changed_enable,
                without_sub=without_sub,
            )
    for producer in data.producer_data_set:
        if producer.group_name in groups.producers:
            ctx.consumers.members.register_producer(client, producer.group_name)
    reply = HeartbeatReply(is_sub_change=changed, handover=_holds_queues(ctx, data) or None)
    return Reply(reply, ext=_offer(request))


@routes.on(RequestCode.UNREGISTER_CLIENT, UnregisterClientRequest)
def unregister_client(ctx: Context, request: Request[UnregisterClientRequest]) -> Outcome:
    """Take a client out of a producer group, a consumer group or both."""
    header = request.header
    ctx.consumers.members.waiting.overtaken(
        request.connection,
        [] if header.consumer_group is None else [header.consumer_group],
        [] if header.producer_group is None else [header.producer_group],
    )
    if header.producer_group is not None:
        ctx.consumers.members.unregister_producer(request.connection, header.producer_group)
    if header.consumer_group is not None:
        ctx.consumers.members.unregister_consumer(request.connection, header.consumer_group)
    return Reply()


@routes.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerListRequest)
def consumer_list(ctx: Context, request: Request[ConsumerListRequest]) -> Outcome:
    """List the clients among which a group's queues are to be shared, when it can be done."""
    group = request.header.consumer_group
    if not ctx.consumers.handovers.ask_members(
        request.connection, group, partial(_list_later, ctx, request)
    ):
        return None
    return _listed(ctx, group, ctx.consumers.members.client_ids(group))


def _list_later(
    ctx: Context, request: Request[ConsumerListRequest], client_ids: list[str] | None
) -> None:
    """Answer a request that had to wait: where it is refused, clients keep the queues they have."""
    group = request.header.consumer_group
    try:
        if client_ids is None:
            remark = f"group {group} is changing, its members finish first and are told then"
            raise RequestError(ResponseCode.SYSTEM_BUSY, remark)
        outcome: Outcome = _listed(ctx, group, client_ids)
    except RequestError as error:
        outcome = failure(request.command, error)
    answer(request.connection, request.command, outcome)


def _listed(ctx: Context, group: str, client_ids: list[str]) -> Outcome:
    if not client_ids:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
    return Reply(body=ctx.consumers.members.lists.body(group, client_ids))


@routes.on(RequestCode.CHECK_CLIENT_CONFIG)
def check_client_config(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Tell a consumer before it starts whether its filter expression can be evaluated here."""
    if request.command.body:
        checked = decode_body(CheckClientConfig, request.command.body)
        if checked.subscription_data is not None:
            _check_expression(ctx, checked.subscription_data)
    return Reply()


def _check_expression(ctx: Context, subscription: SubscriptionData) -> None:
    expression_type = subscription.expression_type
    if is_tag_type(expression_type):
        return
    check_property_filter(expression_type, enabled=ctx.settings.enable_property_filter)
    filters = ctx.consumers.members.sql_filters
    problem = filters.problem(filters.get(subscription.sub_string, expression_type))
    if problem is not None:
        raise RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, problem)


def _check_size(ctx: Context, data: HeartbeatData) -> None:
    limit = ctx.settings.client_id_chars_max
    if len(data.client_id) > limit:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"a clientID of {len(data.client_id)} characters, clientIdCharsMax is {limit}",
        )
    limit = ctx.settings.groups_per_heartbeat_max
    count = max(len(data.consumer_data_set), len(data.producer_data_set))
    if count > limit:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"a heartbeat with {count} groups, groupsPerHeartbeatMax is {limit}",
        )
    limit = ctx.settings.subscriptions_per_group_max
    for consumer in data.consumer_data_set:
        if len(consumer.subscription_data_set) > limit:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"group {consumer.group_name} has {len(consumer.subscription_data_set)} "
                f"subscriptions, subscriptionsPerGroupMax is {limit}",
            )


def _retry_topic(
    ctx: Context, consumer: ConsumerData, config: SubscriptionGroupConfig
) -> tuple[TopicConfig, bool]:
    """Return the group's retry topic and whether it is new or has changed."""
    ordered = any(
        ctx.tables.topics.is_order_topic(subscription.topic)
        for subscription in consumer.subscription_data_set
    )
    return ctx.tables.topics.create_for_group(
        retry_topic(consumer.group_name),
        config.retry_queue_nums,
        order=ordered,
        topic_sys_flag=TopicSysFlag.UNIT_SUB if consumer.unit_mode else 0,
    )


async def _join_when_kept(
    ctx: Context,
    request: Request[NoHeader],
    data: HeartbeatData,
    announcement: asyncio.Future[None] | None,
    join: WaitingHeartbeat,
) -> Outcome:
    """Join and answer when what the heartbeat made will survive and can be found."""
    try:
        announced = [] if announcement is None else [asyncio.shield(announcement)]
        await asyncio.gather(ctx.tables.groups.file.flush(), *announced)
    except OSError:  # consuming goes on from a full disk; the broker tells of files not saved
        pass
    finally:
        ctx.consumers.members.waiting.end(request.connection, join)
    if request.connection.closed:
        return None  # gone meanwhile: nobody would take it out of the registries again
    return _join(ctx, request, data, join)


def _holds_queues(ctx: Context, data: HeartbeatData) -> bool:
    """Whether to tell a client that its queues are held until it gives them up; ours alone ask."""
    return ctx.settings.handover_wait_millis > 0 and any(
        consumer.handover_timeout_millis is not None for consumer in data.consumer_data_set
    )


def _offer(request: Request[NoHeader]) -> dict[str, str]:
    """Agree on msgpack headers with a client that knows them; nobody else ever hears of it."""
    if request.command.ext.get(EXT_MSGPACK) != "true":
        return {}
    request.connection.msgpack = True
    return {EXT_MSGPACK: "true"}
