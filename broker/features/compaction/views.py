"""What pulls and look-ups see of a compaction topic's copies."""

from collections.abc import Callable

from msgspec.structs import replace

from aerobee.remoting.message.message_id import kept_position
from aerobee.storage.features.compaction.copied_queue import CopiedQueue, Taken
from aerobee.storage.features.compaction.records import moved
from aerobee.storage.features.compaction.source import CopySource


class CopyView:
    """The copy of one queue as pulls read it; all but `end` is for threads that may wait.

    `queue_bounds` are the offsets that the queue itself, the `source`, has by now: its copy has
    nothing later.
    """

    def __init__(
        self,
        queue_id: int,
        queue: CopiedQueue,
        queue_bounds: tuple[int, int],
        source: CopySource | None,
        passed_over: Callable[[int], None],
    ) -> None:
        self._queue_id = queue_id
        self._queue = queue
        self._queue_bounds = queue_bounds
        self._source = source  # None where it is loaded
        self._passed_over = passed_over

    @property
    def end(self) -> int:
        """From which offset on the queue itself is read; its end, until it is loaded."""
        return self._queue.end if self._queue.loaded else self._queue_bounds[1]

    def read(
        self, offset: int, messages_max: int, bytes_max: int, wanted: frozenset[int] | None
    ) -> Taken:
        """Return messages from an offset on, with positions that are none of the log's."""
        self._queue.load(*self._queue_bounds, self._source)
        if offset >= self._queue.end:  # files are lost that were noted
            return Taken((), offset)
        taken = self._queue.read(offset, messages_max, bytes_max, wanted)
        if taken.passed_over:
            self._passed_over(taken.passed_over)
        return replace(
            taken,
            records=[
                (at, moved(record, kept_position(self._queue_id, at)))
                for at, record in taken.records
            ],
        )

    def first_since(self, timestamp_ms: int) -> int | None:
        """Return the offset of the first message stored at a time or later, None: none was."""
        self._queue.load(*self._queue_bounds, self._source)
        return self._queue.first_since(timestamp_ms)

    def oldest(self) -> tuple[int, int] | None:
        """Return offset and time of the oldest message, None where there is none."""
        self._queue.load(*self._queue_bounds, self._source)
        return self._queue.oldest()
