"""What a broker without copies says of them: 907, 908 and 1007 (AdminBrokerProcessor)."""

from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import Replication, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.admin import MasterFlushOffsetRequest
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("replication")


@routes.on(RequestCode.GET_BROKER_HA_STATUS)
def ha_status(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Describe a master that nobody copies, and where its log ends."""
    end = ctx.store.statistics().position
    return Reply(body=encode_body(Replication(master_commit_log_max_offset=end)))


@routes.on(RequestCode.RESET_MASTER_FLUSH_OFFSET, MasterFlushOffsetRequest)
def reset_master_flush_offset(ctx: Context, request: Request[MasterFlushOffsetRequest]) -> Outcome:
    """Do nothing: of a copy it says how far its master has flushed, and a master is none."""
    return Reply()


@routes.on(RequestCode.GET_BROKER_EPOCH_CACHE)
def epochs(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Refuse to list masters of the past: no controller has chosen any."""
    raise RequestError(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")
