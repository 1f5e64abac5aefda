"""Where in the log groups read that are not far behind, so that it stays in memory for them."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from aerobee.broker.members.registry import Members
from aerobee.broker.tables.committed import OffsetTable
from aerobee.storage.store import MessageStore

OFFSETS_PER_LOOK: Final = 1000  # two milliseconds


class ReadPositions:
    """Looks at where groups with members have pulled, a part of the table at each look.

    Who is further behind than counts as in memory (accessMessageInMemoryMaxRatio) reads from the
    disk anyway and does not count, nor does who pulls without being a member of a group.
    """

    def __init__(self, offsets: OffsetTable, members: Members, store: MessageStore) -> None:
        self._offsets = offsets
        self._members = members
        self._store = store
        self._round: Iterator[tuple[str, str, int, int]] = iter(())
        self._lowest = self._seen = 0  # of the last whole round, of this one so far

    def lowest(self) -> int:
        """Return from which position on the log is wanted, at its end where all have read all."""
        looked = 0
        for topic, group, queue_id, offset in islice(self._round, OFFSETS_PER_LOOK):
            looked += 1
            if self._members.group(group) is not None:
                self._seen = min(self._seen, self._position(topic, queue_id, offset))
        if looked < OFFSETS_PER_LOOK:
            self._lowest, self._seen = self._seen, self._store.commit_log.committed
            self._round = self._offsets.pulled_entries()
        return min(self._lowest, self._seen)

    def _position(self, topic: str, queue_id: int, offset: int) -> int:
        """Return where a group reads on in a queue; the log's end if that is of no account."""
        store = self._store
        end = store.commit_log.committed
        queue = store.find_queue(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return end
        try:
            if store.reader.cold_request(queue, offset, record=False) is not None:
                return end  # not even its entries are in memory
            position = store.reader.position_of(queue, offset)
        except (OSError, ValueError):  # a file that is lost, or cut: whoever pulls is told so
            return end
        return end if position is None or not store.in_memory(position) else position
