"""Storing messages with every check (SendMessageProcessor): 10, 310 and 320.

The fast path (`broker.sends.fast`) declines whatever is unusual, so what is here is complete.
"""

from aerobee.broker.sends.checked import Outcome
from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import AnySend, SendMessageRequest, SendMessageRequestV2
from aerobee.remoting.net.routes import Request, Routes

routes: Routes[Context] = Routes("send")


@routes.on(RequestCode.SEND_MESSAGE, SendMessageRequest)
@routes.on(RequestCode.SEND_MESSAGE_V2, SendMessageRequestV2)
@routes.on(RequestCode.SEND_BATCH_MESSAGE, SendMessageRequestV2)
def send(ctx: Context, request: Request[AnySend]) -> Outcome:
    """Check and store what one request carries, a message or a batch of one queue."""
    try:
        checked = ctx.sends.checks.check_request(request, request.header)
    except RequestError as error:
        return ctx.sends.checked.refused(error)
    known = ctx.cluster.announcements.until_known(checked.topic, is_new=checked.is_new)
    return ctx.sends.checked.store_request(request, checked, known)
