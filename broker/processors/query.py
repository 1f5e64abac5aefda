"""Looking at single messages: 33 (QueryMessageProcessor)."""

from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.headers.query import ViewMessageRequest
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("query")


@routes.on(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest)
async def view_message_by_id(ctx: Context, request: Request[ViewMessageRequest]) -> Outcome:
    """Return the record at a position of the log, as it is stored."""
    await ctx.cold.lookups.warm_record(request.header.offset)
    return Reply(body=record_to_show(ctx, request.header.offset))


def record_to_show(ctx: Context, position: int) -> bytes:
    """Return the record at a position; RequestError where there is none, or it is damaged."""
    ctx.writing.tick.commit_log()
    try:
        record = ctx.store.record_at(position)
    except CorruptRecord as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{error}") from error
    if record is None:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {position}"
        )
    return record
