"""Which position of the log a time stands for, as the queues of each topic see it."""

from collections.abc import Sequence

from aerobee.storage.queues.snapshot import QueueSnapshot
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.reads.search import offset_by_time, stamp_of

Asked = tuple[QueueSnapshot, str, int]
"""A queue, its topic, and the time (ms) before which its messages are too old."""


class Expiring:
    """What is too old of some topics; `end` is a position of the log behind all that count.

    Of a topic of which a queue could not be looked at nothing is.
    """

    def __init__(self, end: int) -> None:
        self._end = end
        self.positions: dict[str, int] = {}  # of the first message that is not, of each topic
        self.expired: dict[str, int] = {}  # messages before it
        self._unknown: set[str] = set()

    def look(self, asked: Sequence[Asked], lookup: FileLookup) -> OSError | None:
        """Look at some queues, and return the first error of the disk.

        For a thread: some twenty reads a queue that has older messages, one for any other.
        """
        failed: OSError | None = None
        for queue, topic, timestamp_ms in asked:
            if topic in self._unknown:
                continue
            try:
                self._look_at(lookup, queue, topic, timestamp_ms)
            except OSError as error:
                failed = failed or error
                self._unknown.add(topic)
                self.expired.pop(topic, None)
        return failed

    def _look_at(
        self, lookup: FileLookup, queue: QueueSnapshot, topic: str, timestamp_ms: int
    ) -> None:
        """Find the first message stored at or after a time.

        The log is in the order of time, so the first such message of any queue of a topic is where
        all of them are cut.
        """
        if queue.min_offset >= queue.max_offset:
            return
        entries = lookup.entries(queue)
        offset, first = queue.min_offset, stamp_of(lookup, entries, queue.min_offset)
        if first is None or first < timestamp_ms:
            offset = offset_by_time(lookup, entries, timestamp_ms)
        position = self.positions.get(topic, self._end)
        if offset < queue.max_offset:
            position = min(position, entries.entry(offset)[0])
        self.positions[topic] = position
        self.expired[topic] = self.expired.get(topic, 0) + offset - queue.min_offset
