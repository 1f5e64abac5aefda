"""New topics: on disk and known to every nameserver before a message of theirs is stored."""

import asyncio

from aerobee.broker.context import Context
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError


async def announce(ctx: Context, topic: TopicConfig) -> None:
    """Return when a topic is known; whoever needs it meanwhile waits for the same announcement.

    Raises RequestError (SERVICE_NOT_AVAILABLE) where it cannot be kept.
    """
    name = topic.topic_name
    announcement = ctx.announcing.get(name)
    if announcement is None:
        announcement = asyncio.ensure_future(ctx.registration.announce(topic))
        ctx.announcing[name] = announcement
        announcement.add_done_callback(lambda _: ctx.announcing.pop(name, None))
    try:
        await asyncio.shield(announcement)
    except OSError as error:
        remark = f"topic[{name}] cannot be kept: {error}"
        raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
