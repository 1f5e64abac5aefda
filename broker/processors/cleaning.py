"""What an administrator has removed before its time: 306 and 329 (AdminBrokerProcessor)."""

import asyncio
from typing import Final

from aerobee.broker.start.context import Context
from aerobee.broker.start.gone_topics import PAUSE_S, clean_topics, find_topics
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes
from aerobee.storage.queues.light import LIGHT_QUEUE_ID

routes: Routes[Context] = Routes("cleaning")

LIGHT_QUEUES_PER_TURN: Final = 50


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
    queues, topics = ctx.store.queues, ctx.tables.topics

    def is_empty(name: str) -> bool:
        if not queues.is_light(name) or topics.is_listed(name):  # a topic made since the start
            return False
        queue = ctx.store.find_queue(name, LIGHT_QUEUE_ID)
        return queue is not None and 0 < queue.max_offset == queue.min_offset

    empty = await find_topics(ctx, is_empty)
    if empty:
        await clean_topics(ctx, "empty light queues", empty, is_empty, LIGHT_QUEUES_PER_TURN)


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
