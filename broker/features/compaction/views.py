"""What pulls and look-ups see of a compaction topic's copies."""

from collections.abc import Callable

from aerobee.storage.features.compaction.copied_queue import CopiedQueue, Taken
from aerobee.storage.features.compaction.source import CopySource


class CopyView:
    """The copy of one queue as pulls read it; all but `end` is for threads that may wait.

    `queue_bounds` are the offsets that the queue itself, the `source`, has by now: its copy has
    nothing later.
    """

    def __init__(
        self,
        queue: CopiedQueue,
        queue_bounds: tuple[int, int],
        source: CopySource | None,
        passed_over: Callable[[int], None],
    ) -> None:
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
        """Return messages from an offset on."""
        self._queue.load(*self._queue_bounds, self._source)
        if offset >= self._queue.end:  # files are lost that were noted
            return Taken((), offset)
        taken = self._queue.read(offset, messages_max, bytes_max, wanted)
        if taken.passed_over:
            self._passed_over(taken.passed_over)
        return taken

    def first_since(self, timestamp_ms: int) -> int | None:
        """Return the offset of the first message stored at a time or later, None: none was."""
        self._queue.load(*self._queue_bounds, self._source)
        return self._queue.first_since(timestamp_ms)

    def oldest(self) -> tuple[int, int] | None:
        """Return offset and time of the oldest message, None where there is none."""
        self._queue.load(*self._queue_bounds, self._source)
        return self._queue.oldest()
