"""A broker's settings, read and changed: 25 and 26 (AdminBrokerProcessor)."""

from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.config.java_properties import parse_java_properties
from aerobee.remoting.errors import REMARK_CHARS_MAX, RequestError
from aerobee.remoting.headers.admin import BrokerConfigReply
from aerobee.remoting.net.admin_networks import is_trusted
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("settings")


@routes.on(RequestCode.UPDATE_BROKER_CONFIG)
async def update_broker_config(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Change settings; the body holds them as a properties file."""
    try:
        properties = parse_java_properties(bytes(request.command.body).decode())
    except ValueError as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}") from None
    permission = ctx.settings.broker_permission
    connection = request.connection
    trusted = is_trusted(connection, ctx.settings.admin_allowed_networks)
    remark = await ctx.changes.update(properties, "" if trusted else connection.remote)
    if ctx.settings.broker_permission != permission:
        ctx.tables.topics.next_version()
        await ctx.cluster.registration.announce_all()
    return Reply(remark=remark[:REMARK_CHARS_MAX])  # it names what nobody knows


@routes.on(RequestCode.GET_BROKER_CONFIG)
def get_broker_config(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Return every setting as a properties file."""
    version = encode_body(ctx.changes.data_version).decode()
    return Reply(BrokerConfigReply(version=version), body=ctx.changes.text().encode())
