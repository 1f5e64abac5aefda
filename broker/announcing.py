"""New topics: on disk and known to every nameserver before a message of theirs is stored."""

import asyncio
from collections.abc import Awaitable, Iterable

from aerobee.broker.context import Context
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError


def announce(ctx: Context, *topics: TopicConfig) -> Awaitable[None]:
    """Have topics announced, from this call on: await what is returned until they are known.

    Whoever needs one meanwhile finds it among `ctx.announcing`, and waits for the same
    announcement. Raises RequestError (SERVICE_NOT_AVAILABLE) where a topic cannot be kept.
    """
    new = [topic for topic in topics if topic.topic_name not in ctx.announcing]
    if new:
        announcement = asyncio.ensure_future(ctx.registration.announce(*new))
        ctx.announcing.update((topic.topic_name, announcement) for topic in new)

        def forget(_: asyncio.Future[None]) -> None:
            for topic in new:
                ctx.announcing.pop(topic.topic_name, None)

        announcement.add_done_callback(forget)
    names = [topic.topic_name for topic in topics]
    return _known(names, {ctx.announcing[name] for name in names})


async def _known(names: Iterable[str], announcements: Iterable[asyncio.Future[None]]) -> None:
    try:
        for announcement in announcements:
            await asyncio.shield(announcement)
    except OSError as error:
        remark = f"topic[{', '.join(names)}] cannot be kept: {error}"
        raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
