"""Looking at single messages: 33 (QueryMessageProcessor)."""

from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.query import ViewMessageRequest
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("query")


@routes.on(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest)
async def view_message_by_id(ctx: Context, request: Request[ViewMessageRequest]) -> Outcome:
    """Return the record at a position of the log, as it is stored."""
    header = request.header
    return Reply(body=await ctx.cold.lookups.record(header.offset, header.topic))
