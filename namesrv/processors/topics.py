"""Lists of topics, and what tools change about them: 206, 216, 224, 304, 311-313, 205 and 327."""

import logging

from aerobee.namesrv import route_views
from aerobee.namesrv.context import NamesrvContext
from aerobee.remoting.bodies import TopicList, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode, TopicSysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.namesrv import (
    AddWritePermReply,
    BrokerNameRequest,
    TopicsByClusterRequest,
    WipeWritePermReply,
)
from aerobee.remoting.headers.topics import DeleteTopicRequest
from aerobee.remoting.net.routes import NoHeader, Reply, Request, Routes

log = logging.getLogger(__name__)

routes: Routes[NamesrvContext] = Routes("topics")


@routes.on(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
def all_topics(ctx: NamesrvContext, request: Request[NoHeader]) -> Reply:
    """List every topic, unless enableAllTopicList is off."""
    return _list(route_views.all_topics(ctx.table), ctx.settings.enable_all_topic_list)


@routes.on(RequestCode.GET_TOPICS_BY_CLUSTER, TopicsByClusterRequest)
def topics_of_cluster(ctx: NamesrvContext, request: Request[TopicsByClusterRequest]) -> Reply:
    """List one cluster's topics, unless enableTopicList is off."""
    topics = route_views.topics_of_cluster(ctx.table, request.header.cluster)
    return _list(topics, ctx.settings.enable_topic_list)


@routes.on(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
def system_topics(ctx: NamesrvContext, request: Request[NoHeader]) -> Reply:
    """List the topics named after clusters and brokers."""
    return _list(route_views.system_topics(ctx.table), True)


@routes.on(RequestCode.GET_UNIT_TOPIC_LIST)
def unit_topics(ctx: NamesrvContext, request: Request[NoHeader]) -> Reply:
    """List the topics that belong to a unit."""
    topics = route_views.topics_by_flag(ctx.table, TopicSysFlag.UNIT)
    return _list(topics, ctx.settings.enable_topic_list)


@routes.on(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)
def unit_subscribed_topics(ctx: NamesrvContext, request: Request[NoHeader]) -> Reply:
    """List the topics that units subscribe to."""
    topics = route_views.topics_by_flag(ctx.table, TopicSysFlag.UNIT_SUB)
    return _list(topics, ctx.settings.enable_topic_list)


@routes.on(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
def shared_unit_subscribed_topics(ctx: NamesrvContext, request: Request[NoHeader]) -> Reply:
    """List the topics that units subscribe to and that belong to none."""
    topics = route_views.topics_by_flag(ctx.table, TopicSysFlag.UNIT_SUB, TopicSysFlag.UNIT)
    return _list(topics, ctx.settings.enable_topic_list)


@routes.on(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicRequest)
def delete_topic(ctx: NamesrvContext, request: Request[DeleteTopicRequest]) -> Reply:
    """Forget a topic, in one cluster or everywhere."""
    ctx.table.delete_topic(request.header.topic, request.header.cluster_name or None)
    return Reply()


@routes.on(RequestCode.WIPE_WRITE_PERM_OF_BROKER, BrokerNameRequest)
def wipe_write_perm(ctx: NamesrvContext, request: Request[BrokerNameRequest]) -> WipeWritePermReply:
    """Send no more producers to a broker, until it registers changed topics."""
    count = ctx.table.wipe_write_perm(request.header.broker_name)
    _log_perm("wiped", request, count)
    return WipeWritePermReply(wipe_topic_count=count)


@routes.on(RequestCode.ADD_WRITE_PERM_OF_BROKER, BrokerNameRequest)
def add_write_perm(ctx: NamesrvContext, request: Request[BrokerNameRequest]) -> AddWritePermReply:
    """Send producers to a broker again."""
    count = ctx.table.add_write_perm(request.header.broker_name)
    _log_perm("added", request, count)
    return AddWritePermReply(add_topic_count=count)


def _log_perm(change: str, request: Request[BrokerNameRequest], count: int) -> None:
    name, remote = request.header.broker_name, request.connection.remote
    log.info("write perm %s broker=%s topics=%d by=%s", change, name, count, remote)


def _list(topics: TopicList, enabled: bool) -> Reply:
    if not enabled:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "disable")
    return Reply(body=encode_body(topics))
