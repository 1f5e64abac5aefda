"""Reading every metric of a broker: on the loop in small turns, while it serves others."""

import asyncio
from collections.abc import Iterator
from typing import Final

from aerobee.broker.measures.connections import connections
from aerobee.broker.measures.progress import (
    Times,
    Unread,
    look_for_unpulled,
    look_for_unread,
    progress,
)
from aerobee.broker.measures.store import store
from aerobee.broker.measures.traffic import traffic
from aerobee.broker.measures.values import Values, empty, in_turns
from aerobee.broker.room import Room
from aerobee.broker.start.context import Context
from aerobee.remoting.errors import RequestError

DISK_WAIT_S: Final = 2.0  # then the metrics are told without what has to be read for them


async def collect(ctx: Context) -> Values:
    """Return every metric; what comes and goes meanwhile is in it, or not."""
    values = empty(ctx)
    store(ctx, values)
    for room in tuple(ctx.rooms):
        await in_turns(_of_room(room, values))
    unread: Unread = {}
    unpulled: Unread = {}
    await in_turns(look_for_unread(ctx, unread))
    await in_turns(look_for_unpulled(ctx, unpulled))
    await in_turns(traffic(ctx, values))
    await in_turns(connections(ctx, values))
    times = Times(await _times(ctx, unread), await _times(ctx, unpulled))
    await in_turns(progress(ctx, values, times))
    values.tell_left_out()
    return values


def _of_room(room: Room, values: Values) -> Iterator[None]:
    """Add what a room measures; yields after each, between which topics may come and go."""
    for sample in room.samples():
        values.add(sample.name, sample.value, **sample.labels)
        yield
    for distribution in room.distributions():
        values.spread(distribution)
        yield


async def _times(ctx: Context, unread: Unread) -> dict[tuple[str, str], int | None]:
    """Return when what is not consumed was stored; nothing where the disk does not answer."""
    try:
        async with asyncio.timeout(DISK_WAIT_S):
            return await ctx.cold.lookups.earliest_times(unread)
    except (TimeoutError, RequestError):
        return {}
