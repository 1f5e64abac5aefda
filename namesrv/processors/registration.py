"""Brokers come, are heard and go: 103, 322, 904, 104 and 217 (DefaultRequestProcessor.java)."""

from typing import Final

from aerobee.namesrv.context import NamesrvContext
from aerobee.namesrv.kv_config import ORDER_TOPIC_CONFIG
from aerobee.namesrv.route_table import Registration
from aerobee.remoting.bodies import DataVersion, TopicRouteData, decode_body, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.namesrv import BrokerHeartbeatRequest
from aerobee.remoting.headers.registration import (
    QueryDataVersionReply,
    QueryDataVersionRequest,
    RegisterBrokerReply,
    RegisterBrokerRequest,
    RegisterTopicRequest,
    UnregisterBrokerRequest,
)
from aerobee.remoting.net.addresses import BadAddress, check_address
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Reply, Request, Routes
from aerobee.remoting.registration_body import decode_register_body

ZONE_NAME: Final = "__ZONE_NAME"  # MixAll.ZONE_NAME, beside the header's own fields
NAME_CHARS_MAX: Final = 255

routes: Routes[NamesrvContext] = Routes("registration")


@routes.on(RequestCode.REGISTER_BROKER, RegisterBrokerRequest)
def register_broker(ctx: NamesrvContext, request: Request[RegisterBrokerRequest]) -> Reply:
    """Take in a broker and its topics; answer a slave with its master, all with the order table."""
    header, command, connection = request.header, request.command, request.connection
    _check_name("brokerName", header.broker_name)
    _check_name("brokerClusterName", header.cluster_name)
    _check_reachable(ctx, header.broker_name, header.broker_addr)
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
    _follow(ctx, connection)
    order_table = None
    if ctx.settings.return_order_topic_config_to_broker:
        order_table = ctx.kv.namespace(ORDER_TOPIC_CONFIG)
    return Reply(
        RegisterBrokerReply(ha_server_addr=master.ha_address, master_addr=master.address),
        body=order_table or b"",
    )


@routes.on(RequestCode.QUERY_DATA_VERSION, QueryDataVersionRequest)
def query_data_version(ctx: NamesrvContext, request: Request[QueryDataVersionRequest]) -> Reply:
    """Tell a broker whether its topics changed since it registered, and count it as heard.

    It stays as long as the connection on which it was heard last: one that came back and has
    nothing new does not register again, and goes not with its old connection.
    """
    cluster, address = request.header.cluster_name, request.header.broker_addr
    known = ctx.table.data_version(cluster, address)
    changed = known is None or known != decode_body(DataVersion, request.command.body)
    _heard(ctx, cluster, address, request.connection)
    body = b"" if known is None else encode_body(known)
    return Reply(QueryDataVersionReply(changed=changed), body=body)


@routes.on(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeatRequest)
def broker_heartbeat(ctx: NamesrvContext, request: Request[BrokerHeartbeatRequest]) -> Reply:
    """Count a broker as heard."""
    header = request.header
    _heard(ctx, header.cluster_name, header.broker_addr, request.connection)
    return Reply()


@routes.on(RequestCode.UNREGISTER_BROKER, UnregisterBrokerRequest)
def unregister_broker(ctx: NamesrvContext, request: Request[UnregisterBrokerRequest]) -> Reply:
    """Forget a broker that says that it goes."""
    header = request.header
    ctx.table.unregister(header.cluster_name, header.broker_name, header.broker_addr)
    return Reply()


@routes.on(RequestCode.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequest)
def register_topic(ctx: NamesrvContext, request: Request[RegisterTopicRequest]) -> Reply:
    """Set the queues of one topic; silently nothing when one of its brokers is not known."""
    if request.command.body:
        route = decode_body(TopicRouteData, request.command.body)
        if route.queue_datas:
            ctx.table.register_topic(request.header.topic, route.queue_datas)
    return Reply()


def _heard(ctx: NamesrvContext, cluster: str, address: str, connection: Connection) -> None:
    if ctx.table.touch(cluster, address, connection):
        _follow(ctx, connection)


def _follow(ctx: NamesrvContext, connection: Connection) -> None:
    """Have the table told when the connection ends."""
    if ctx.table.channel_closed not in connection.on_closed:
        connection.on_closed.append(ctx.table.channel_closed)


def _check_name(key: str, name: str) -> None:
    """Refuse what names nothing, and what would forge or flood a log where it is told."""
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"{key} has 1 to {NAME_CHARS_MAX} printable characters, not {name[:100]!r}",
        )


def _check_reachable(ctx: NamesrvContext, name: str, address: str) -> None:
    """Refuse an address that no client could connect to: it would stand in every route."""
    try:
        check_address(address)
    except BadAddress as error:
        ctx.table.complaints.tell(
            "broker refused name=%s address=%.300r error=%.300s", name, address, error
        )
        remark = f"broker {name} cannot be reached by clients: {error}; see its brokerIP1"
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark) from None
