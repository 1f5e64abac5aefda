"""Looking at old messages without waiting for the disk on the loop: by position, and by time."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from aerobee.broker.context import Context
from aerobee.remoting.errors import CorruptRecord
from aerobee.storage.cold.places import FilePlaces
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.place import QueuePlace
from aerobee.storage.reads.search import Boundary, offset_by_time, record_bytes_at, stamp_of

LOOKUPS = "look-ups of the broker"
"""Whose turn it is among the groups that wait for the disk."""

STATISTICS = "statistics of the broker"
"""The same for what looks at many queues: single look-ups do not wait behind it."""


def places_of(ctx: Context) -> FilePlaces:
    """Return what is committed by now as another thread finds it in the files."""
    ctx.tick.commit_log()
    store = ctx.store
    return FilePlaces(
        store.files,
        store.commit_log.place_of_files(),
        store.queues.root,
        store.settings.queue_file_entries,
    )


async def warm_record(ctx: Context, position: int) -> None:
    """Return when the record at a position, if there is one, is in memory.

    Who asks the store for it next waits for nothing. Raises OSError where the disk refuses.
    """
    if not ctx.store.reader.is_warm(position):
        await ctx.cold_reads.run(LOOKUPS, partial(_look, places_of(ctx), position))


def _look(places: FilePlaces, position: int) -> None:
    with suppress(CorruptRecord):  # which is told to who looks next
        record_bytes_at(places, position)


async def offset_of_time(
    ctx: Context, queue: ConsumeQueue, timestamp_ms: int, boundary: Boundary = "LOWER"
) -> int:
    """Return the offset that a time stands for, see search.offset_by_time; some forty reads."""
    places = places_of(ctx)
    entries = places.entries(queue.place_of_files())
    return await ctx.cold_reads.run(
        LOOKUPS, lambda: offset_by_time(places, entries, timestamp_ms, boundary)
    )


async def earliest_times(
    ctx: Context, asked: dict[tuple[str, str], list[tuple[QueuePlace, int]]]
) -> dict[tuple[str, str], int | None]:
    """Return by topic and group when the earliest of some messages was stored (ms).

    0 where there is none, None where the disk refuses.
    """
    places = places_of(ctx)
    return await ctx.cold_reads.run(
        STATISTICS, lambda: {key: _earliest(places, where) for key, where in asked.items()}
    )


def _earliest(places: FilePlaces, where: Iterable[tuple[QueuePlace, int]]) -> int | None:
    try:
        times = [stamp_of(places, places.entries(queue), offset) for queue, offset in where]
    except OSError:  # others are told of
        return None
    return min((time for time in times if time is not None), default=0)


async def store_times(ctx: Context, asked: Sequence[tuple[ConsumeQueue | None, int]]) -> list[int]:
    """Return when messages were stored (ms), by their queue and offset; -1 where there is none.

    Raises OSError where the disk refuses.
    """
    places = places_of(ctx)
    where = [
        (queue.place_of_files(), offset)
        if queue is not None and queue.min_offset <= offset < queue.max_offset
        else None
        for queue, offset in asked
    ]
    return await ctx.cold_reads.run(STATISTICS, lambda: [_store_time(places, at) for at in where])


def _store_time(places: FilePlaces, where: tuple[QueuePlace, int] | None) -> int:
    if where is None:
        return -1
    time = stamp_of(places, places.entries(where[0]), where[1])
    return -1 if time is None else time
