"""Brokers come, are heard and go: 103, 322, 904, 104 and 217 (DefaultRequestProcessor.java)."""

from typing import Final

from aerobee.namesrv.context import Context
from aerobee.namesrv.kv_config import ORDER_TOPIC_CONFIG
from aerobee.namesrv.route_table import Registration
from aerobee.remoting.bodies import DataVersion, TopicRouteData, decode_body, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.namesrv import BrokerHeartbeatRequest
from aerobee.remoting.headers.registration import (
    QueryDataVersionReply,
    QueryDataVersionRequest,
    RegisterBrokerReply,
    RegisterBrokerRequest,
    RegisterTopicRequest,
    UnregisterBrokerRequest,
)
from aerobee.remoting.net.routes import Reply, Request, Routes
from aerobee.remoting.registration_body import decode_register_body

ZONE_NAME: Final = "__ZONE_NAME"  # MixAll.ZONE_NAME, beside the header's own fields

routes: Routes[Context] = Routes("registration")


@routes.on(RequestCode.REGISTER_BROKER, RegisterBrokerRequest)
def register_broker(ctx: Context, request: Request[RegisterBrokerRequest]) -> Reply:
    """Take in a broker and its topics; answer a slave with its master, all with the order table."""
    header, command, connection = request.header, request.command, request.connection
    body = decode_register_body(header, command.version, command.body)
    master = ctx.table.register(
        Registration(
            cluster=header.cluster_name,
            name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
            ha_address=header.ha_server_addr,
            zone=command.ext.get(ZONE_NAME),
            timeout_ms=header.heartbeat_timeout_millis,
            acting_master=header.enable_acting_master,
            topics=body.topic_config_serialize_wrapper,
            filter_servers=body.filter_server_list,
            channel=connection,
        )
    )
    if ctx.table.channel_closed not in connection.on_closed:
        connection.on_closed.append(ctx.table.channel_closed)
    order_table = None
    if ctx.settings.return_order_topic_config_to_broker:
        order_table = ctx.kv.namespace(ORDER_TOPIC_CONFIG)
    return Reply(
        RegisterBrokerReply(ha_server_addr=master.ha_address, master_addr=master.address),
        body=order_table or b"",
    )


@routes.on(RequestCode.QUERY_DATA_VERSION, QueryDataVersionRequest)
def query_data_version(ctx: Context, request: Request[QueryDataVersionRequest]) -> Reply:
    """Tell a broker whether its topics changed since it registered, and count it as heard."""
    cluster, address = request.header.cluster_name, request.header.broker_addr
    known = ctx.table.data_version(cluster, address)
    changed = known is None or known != decode_body(DataVersion, request.command.body)
    ctx.table.touch(cluster, address)
    body = b"" if known is None else encode_body(known)
    return Reply(QueryDataVersionReply(changed=changed), body=body)


@routes.on(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeatRequest)
def broker_heartbeat(ctx: Context, request: Request[BrokerHeartbeatRequest]) -> Reply:
    """Count a broker as heard."""
    ctx.table.touch(request.header.cluster_name, request.header.broker_addr)
    return Reply()


@routes.on(RequestCode.UNREGISTER_BROKER, UnregisterBrokerRequest)
def unregister_broker(ctx: Context, request: Request[UnregisterBrokerRequest]) -> Reply:
    """Forget a broker that says that it goes."""
    header = request.header
    ctx.table.unregister(header.cluster_name, header.broker_name, header.broker_addr)
    return Reply()


@routes.on(RequestCode.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequest)
def register_topic(ctx: Context, request: Request[RegisterTopicRequest]) -> Reply:
    """Set the queues of one topic; silently nothing when one of its brokers is not known."""
    if request.command.body:
        route = decode_body(TopicRouteData, request.command.body)
        if route.queue_datas:
            ctx.table.register_topic(request.header.topic, route.queue_datas)
    return Reply()
