"""What the broker knows of topics, in all rooms, when the store has them no more."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from aerobee.broker.start.context import Context
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

PAUSE_S: Final = 0.005  # as long as a turn of the work, so that requests have half of the time
NAMES_PER_TURN: Final = 2000  # queues whose topics are asked for in one turn of the loop


def forget_topics(ctx: Context, names: Collection[str]) -> None:
    """Remove what the broker knows of topics that were deleted from the store."""

    def release(queue: TopicQueue) -> None:
        ctx.health.metrics.queue_gone(queue)
        ctx.pulls.holds.release(queue)

    for name in names:
        ctx.writing.queues.drop_topic(name, release)
        ctx.tables.offsets.delete_topic(name)
        ctx.tables.topics.delete(name)
        ctx.cluster.announcements.drop(name)
        ctx.health.metrics.forget(topic=name)


async def find_topics(ctx: Context, wanted: Callable[[str], bool]) -> list[str]:
    """Return the topics with a queue that are wanted; requests are served in between."""
    keys = list(ctx.store.queues.table)
    found: dict[str, bool] = {}
    for at in range(0, len(keys), NAMES_PER_TURN):
        for topic in {topic: None for topic, _ in keys[at : at + NAMES_PER_TURN]}:
            if topic not in found:
                found[topic] = wanted(topic)
        await asyncio.sleep(0)
    return [topic for topic, is_wanted in found.items() if is_wanted]


async def clean_topics(
    ctx: Context, what: str, names: list[str], goes: Callable[[str], bool], turn: int
) -> None:
    """Remove topics from the store, and all that the broker knows of them, so many at a time.

    `goes` is asked again in each turn, for requests are served in between. Raises RequestError
    where the disk refuses, which says how many are left.
    """
    for at in range(0, len(names), turn):
        going = [name for name in names[at : at + turn] if goes(name)]
        try:
            ctx.store.delete_topic(*going)
        except OSError as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"{len(names) - at} {what} are left, beginning with {names[at]}: the disk"
                f" refuses: {error}; make room on it, or look after it, and clean again",
            ) from None
        forget_topics(ctx, going)
        await asyncio.sleep(PAUSE_S)
    try:
        await ctx.tables.offsets.flush()
    except OSError as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"{what} are removed, but a restart may bring their offsets back: the disk"
            f" refuses: {error}",
        ) from None
