"""New topics: on disk and known to every nameserver before a message of theirs is stored."""

import asyncio

from aerobee.broker.context import Context
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError


def announce(ctx: Context, *topics: TopicConfig) -> asyncio.Future[None]:
    """Have topics that were made or changed kept and announced; `until_known` waits for that.

    From this call on they are among `ctx.announcing`, each with its newest announcement, which
    covers those before it; one that failed stays there.
    """
    announcement = asyncio.ensure_future(ctx.registration.announce(*topics))
    names = [topic.topic_name for topic in topics]
    ctx.announcing.update(dict.fromkeys(names, announcement))

    def forget(done: asyncio.Future[None]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        for name in names:
            if ctx.announcing.get(name) is done:
                del ctx.announcing[name]

    announcement.add_done_callback(forget)
    return announcement


def announcement_of(ctx: Context, topic: TopicConfig) -> asyncio.Future[None] | None:
    """Return what a message of the topic has to wait for, if anything; what failed begins anew."""
    last = ctx.announcing.get(topic.topic_name)
    return announce(ctx, topic) if last is not None and last.done() else last


async def until_known(announcement: asyncio.Future[None]) -> None:
    """Return when all topics of an announcement are known; others may wait for the same one.

    Raises RequestError (SERVICE_NOT_AVAILABLE) where they cannot be kept.
    """
    try:
        await asyncio.shield(announcement)
    except OSError as error:
        remark = f"the topic cannot be kept: {error}"
        raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
