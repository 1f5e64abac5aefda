"""Looking at old messages without waiting for the disk on the loop: by position, and by time."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.cold.views import LOOKUPS, View, Views
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.message.message_id import kept_place
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.snapshot import QueueSnapshot
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.reads.search import Boundary, offset_by_time, record_bytes_at, stamp_of
from aerobee.storage.store import MessageStore

Found = TypeVar("Found")

STATISTICS = "statistics of the broker"
"""The same for what looks at many queues: single look-ups do not wait behind it."""


class Lookups:
    """Looks for a broker; `commit` writes what is pending, so that it is there to be found."""

    def __init__(
        self,
        store: MessageStore,
        commit: Callable[[], object],
        cold_reads: ColdReads,
        views: Views,
    ) -> None:
        self._store = store
        self._commit = commit
        self._cold_reads = cold_reads
        self._views = views

    async def warm_record(self, position: int) -> None:
        """Return when the record at a position, if there is one, is in memory.

        Who asks the store for it next waits for nothing. Raises OSError where the disk refuses.
        """
        await self.warm_records((position,))

    async def warm_records(self, positions: Iterable[int]) -> None:
        """Return when the records at positions are in memory; see `warm_record`."""
        cold = [position for position in positions if not self.is_warm(position)]
        if cold:
            await self._cold_reads.run(LOOKUPS, partial(_look, self.files(), cold))

    def is_warm(self, position: int) -> bool:
        """Whether the record at a position, if there is one, is in memory."""
        return self._store.reader.is_warm(position)

    async def record(self, position: int, topic: str | None = None) -> bytes:
        """Return the record at a position of the log, as it is stored.

        One that is kept beside the log is found if its topic is said. Raises RequestError where
        there is none, or it is damaged; OSError where the disk refuses.
        """
        if (place := kept_place(position)) is not None:
            return await self._kept(position, topic or "", *place)
        await self.warm_record(position)
        self._commit()
        try:
            record = self._store.record_at(position)
        except CorruptRecord as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{error}") from error
        if record is None:
            raise _not_found(position)
        return record

    async def _kept(self, position: int, topic: str, queue_id: int, offset: int) -> bytes:
        """Return the record of an offset of a queue that has it beside the log."""
        view = self._views.find(topic, queue_id)
        if view is None:
            raise _not_found(position)
        taken = await self._cold_reads.run(LOOKUPS, lambda: view.read(offset, 1, 1, None))
        if not taken.records or taken.records[0][0] != offset:
            raise _not_found(position)
        return taken.records[0][1]

    async def offset_of_time(
        self, queue: ConsumeQueue, timestamp_ms: int, boundary: Boundary = "LOWER"
    ) -> int:
        """Return the offset that a time stands for, see search.offset_by_time; some forty reads.

        Where older messages are kept beside the queue, they are looked at first.
        """
        lookup = self.files()
        entries = lookup.entries(queue.snapshot())
        view = self._views.find(queue.topic, queue.queue_id)

        def look() -> int:
            found = None if view is None else _in_view(view, timestamp_ms, boundary)
            return (
                offset_by_time(lookup, entries, timestamp_ms, boundary) if found is None else found
            )

        return await self._cold_reads.run(LOOKUPS, look)

    async def earliest_times(
        self, asked: dict[tuple[str, str], list[tuple[QueueSnapshot, int]]]
    ) -> dict[tuple[str, str], int | None]:
        """Return by topic and group when the earliest of some messages was stored (ms).

        0 where there is none, None where the disk refuses.
        """
        lookup = self.files()
        return await self._cold_reads.run(
            STATISTICS, lambda: {key: _earliest(lookup, where) for key, where in asked.items()}
        )

    async def store_times(self, asked: Sequence[tuple[ConsumeQueue | None, int]]) -> list[int]:
        """Return when messages were stored (ms), by their queue and offset; -1 where none is.

        Raises OSError where the disk refuses.
        """
        lookup = self.files()
        where = [
            (queue.snapshot(), offset)
            if queue is not None and queue.min_offset <= offset < queue.max_offset
            else None
            for queue, offset in asked
        ]
        return await self._cold_reads.run(
            STATISTICS, lambda: [_store_time(lookup, at) for at in where]
        )

    async def beside(self, look: Callable[[FileLookup], Found]) -> Found:
        """Return what a longer look at the files finds, done by a thread that may wait for them.

        Raises OSError where the disk refuses.
        """
        lookup = self.files()
        return await self._cold_reads.run(STATISTICS, lambda: look(lookup))

    def files(self) -> FileLookup:
        """Return what is committed by now as another thread finds it in the files."""
        self._commit()
        store = self._store
        return FileLookup(
            store.files,
            store.commit_log.snapshot(),
            store.queues.root,
            store.settings.queue_file_entries,
        )


def _not_found(position: int) -> RequestError:
    return RequestError(
        ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {position}"
    )


def _in_view(view: View, timestamp_ms: int, boundary: Boundary) -> int | None:
    """Return what a time stands for among the messages of a view, None where it is a later one."""
    if boundary == "LOWER":
        return view.first_since(timestamp_ms)
    behind = view.first_since(timestamp_ms + 1)
    return None if behind is None else max(behind - 1, 0)


def _look(lookup: FileLookup, positions: Iterable[int]) -> None:
    for position in positions:
        with suppress(CorruptRecord):  # which is told to who looks next
            record_bytes_at(lookup, position)


def _earliest(lookup: FileLookup, where: Iterable[tuple[QueueSnapshot, int]]) -> int | None:
    try:
        times = [stamp_of(lookup, lookup.entries(queue), offset) for queue, offset in where]
    except OSError:  # others are told of
        return None
    return min((time for time in times if time is not None), default=0)


def _store_time(lookup: FileLookup, where: tuple[QueueSnapshot, int] | None) -> int:
    if where is None:
        return -1
    time = stamp_of(lookup, lookup.entries(where[0]), where[1])
    return -1 if time is None else time
