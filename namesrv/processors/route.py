"""Where topics and brokers are: 105, 106 and 901 (ClientRequestProcessor.java)."""

from typing import Final

from msgspec.structs import replace

from aerobee.namesrv.context import NamesrvContext
from aerobee.namesrv.kv_config import ORDER_TOPIC_CONFIG
from aerobee.namesrv.processors.registration import ZONE_NAME
from aerobee.namesrv.route_views import cluster_info, in_zone, member_group, topic_route
from aerobee.remoting.bodies import BrokerMemberGroupReply, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.namesrv import BrokerMemberGroupRequest
from aerobee.remoting.headers.route import RouteInfoRequest
from aerobee.remoting.net.routes import NoHeader, Reply, Request, Routes

V4_9_4: Final = 401  # MQVersion: from here on clients read standard JSON
ZONE_MODE: Final = "__ZONE_MODE"  # MixAll.ZONE_MODE
FAQ: Final = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"  # FAQUrl.APPLY_TOPIC_URL

routes: Routes[NamesrvContext] = Routes("route")


@routes.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest)
def get_route(ctx: NamesrvContext, request: Request[RouteInfoRequest]) -> Reply:
    """Tell which brokers have how many queues of a topic."""
    topic, command = request.header.topic, request.command
    if not ctx.ready:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "name server not ready")
    route = topic_route(ctx.table, topic, acting_master=ctx.settings.support_acting_master)
    if route is None:
        raise RequestError(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {topic}"
            f"\nSee {FAQ} for further details.",
        )
    if ctx.settings.order_message_enable:
        route = replace(route, order_topic_conf=ctx.kv.get(ORDER_TOPIC_CONFIG, topic))
    zone = command.ext.get(ZONE_NAME, "")
    if zone.strip() and command.ext.get(ZONE_MODE, "").lower() == "true":
        route = in_zone(route, zone)
    strict = reads_standard_json(command) or bool(request.header.accept_standard_json_only)
    return Reply(body=encode_body(route, strict=strict))


@routes.on(RequestCode.GET_BROKER_CLUSTER_INFO)
def get_cluster_info(ctx: NamesrvContext, request: Request[NoHeader]) -> Reply:
    """List all brokers and clusters."""
    strict = reads_standard_json(request.command)
    return Reply(body=encode_body(cluster_info(ctx.table), strict=strict))


@routes.on(RequestCode.GET_BROKER_MEMBER_GROUP, BrokerMemberGroupRequest)
def get_member_group(ctx: NamesrvContext, request: Request[BrokerMemberGroupRequest]) -> Reply:
    """List the addresses of one broker name."""
    group = member_group(ctx.table, request.header.cluster_name, request.header.broker_name)
    return Reply(body=encode_body(BrokerMemberGroupReply(broker_member_group=group)))


def reads_standard_json(command: Command) -> bool:
    """Whether the asker's library takes integer keys in quotes for sure."""
    return command.version >= V4_9_4
