"""What an administrator has removed before its time: 306 and 329 (AdminBrokerProcessor)."""

import asyncio
from typing import Final

from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("cleaning")

PAUSE_S: Final = 0.005  # as long as a slice of the work, so that requests have half of the time


@routes.on(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, NoHeader)
async def clean_expired_queues(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Let every queue begin with the first message that the log has, and remove files before it.

    A queue that has lost all of its messages keeps its last file, which says which offset comes
    next: groups go on where they are. (RocketMQ removes it; its offsets begin at 0 again, those of
    groups do not, and these miss what comes.)
    """
    _check_writable(ctx)
    shortening = ctx.store.retention.shortening
    shortening.begin()
    more = shortening.go_on()
    while more:
        await asyncio.sleep(PAUSE_S)
        more = shortening.go_on()
    return Reply()


@routes.on(RequestCode.DELETE_EXPIRED_COMMITLOG, NoHeader)
def delete_expired_log(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Have expired log files removed at any hour by the next twenty looks; answered at once."""
    _check_writable(ctx)
    ctx.store.retention.remove_expired_soon()
    return Reply()


def _check_writable(ctx: Context) -> None:
    if ctx.store.read_only:
        raise RequestError(
            ResponseCode.SERVICE_NOT_AVAILABLE, "the store is read-only: nothing can be removed"
        )
