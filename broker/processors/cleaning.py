"""What an administrator has removed before its time: 306 and 329 (AdminBrokerProcessor)."""

import asyncio
from typing import Final

from aerobee.broker.start.context import Context
from aerobee.broker.start.gone_topics import forget_topics
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes
from aerobee.storage.queues.light import LIGHT_QUEUE_ID

routes: Routes[Context] = Routes("cleaning")

LIGHT_QUEUES_PER_TURN: Final = 50
PAUSE_S: Final = 0.005  # as long as a slice of the work, so that requests have half of the time


@routes.on(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, NoHeader)
async def clean_expired_queues(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Let every queue begin with the first message that the log has, and remove files before it.

    A queue that has lost all of its messages keeps its last file, which says which offset comes
    next: groups go on where they are. (RocketMQ removes it; its offsets begin at 0 again, those of
    groups do not, and these miss what comes.) A light queue that has lost all goes as a whole, with
    the offsets of its groups: there may only be so many.
    """
    _check_writable(ctx)
    shortening = ctx.store.retention.shortening
    shortening.begin()
    more = shortening.go_on()
    while more:
        await asyncio.sleep(PAUSE_S)
        more = shortening.go_on()
    await _remove_empty_light_queues(ctx)
    return Reply()


async def _remove_empty_light_queues(ctx: Context) -> None:
    def is_empty(name: str) -> bool:
        queue = ctx.store.find_queue(name, LIGHT_QUEUE_ID)
        return queue is not None and 0 < queue.max_offset == queue.min_offset

    light = [name for name in ctx.store.topics() if ctx.store.queues.is_light(name)]
    empty = [name for name in light if is_empty(name)]
    for at in range(0, len(empty), LIGHT_QUEUES_PER_TURN):
        names = [name for name in empty[at : at + LIGHT_QUEUES_PER_TURN] if is_empty(name)]
        try:
            ctx.store.delete_topic(*names)
        except OSError as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{len(empty) - at} empty light queues are left, beginning with {empty[at]}: the"
                f" disk refuses: {error}; make room on it, or look after it, and clean again",
            ) from None
        forget_topics(ctx, names)
        await asyncio.sleep(PAUSE_S)
    if not empty:
        return
    try:
        await ctx.tables.offsets.flush()
    except OSError as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            "empty light queues are removed, but a restart may bring their offsets back: the disk"
            f" refuses: {error}",
        ) from None


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
