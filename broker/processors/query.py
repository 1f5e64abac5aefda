"""Looking at single messages: 33 (QueryMessageProcessor)."""

from aerobee.broker.context import Context
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.query import ViewMessageRequest
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("query")


@routes.on(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest)
def view_message_by_id(ctx: Context, request: Request[ViewMessageRequest]) -> Outcome:
    """Return the record at a position of the log, as it is stored."""
    ctx.tick.commit_log()
    record = ctx.store.record_at(request.header.offset)
    if record is None:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"can not find message by the offset, {request.header.offset}",
        )
    return Reply(body=bytes(record))
