"""Where in the log groups read that are not far behind, so that it stays in memory for them."""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from aerobee.broker.members.registry import Members
from aerobee.broker.tables.committed import OffsetTable
from aerobee.storage.store import MessageStore

LOOK_S: Final = 0.002

_Bounds = tuple[int, int]
_UNBOUNDED: Final = (-1, 1 << 63)


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
        self._bounds: dict[tuple[str, int], _Bounds] = {}  # offsets of this round: far, and slowest

    def lowest(self) -> int:
        """Return from which position on the log is wanted, at its end where all have read all."""
        until_s = time.monotonic() + LOOK_S
        for topic, group, queue_id, offset in self._round:
            if self._members.group(group) is not None:
                self._look(topic, queue_id, offset)
            if time.monotonic() >= until_s:
                break
        else:
            self._lowest, self._seen = self._seen, self._store.commit_log.committed
            self._bounds.clear()
            self._round = self._offsets.pulled_entries()
        return min(self._lowest, self._seen)

    def _look(self, topic: str, queue_id: int, offset: int) -> None:
        """Take note of where a group reads on in a queue; most are between others seen before."""
        key = topic, queue_id
        far, slowest = self._bounds.get(key, _UNBOUNDED)
        store = self._store
        queue = store.find_queue(topic, queue_id)
        if queue is None or not far < offset < min(slowest, queue.max_offset):
            return
        position = None
        if offset >= queue.min_offset:
            with suppress(OSError, ValueError):  # lost, or cut: whoever pulls is told so
                position = store.reader.position_in_memory(queue, offset)
        if position is None or not store.in_memory(position):
            self._bounds[key] = offset, slowest
        else:
            self._bounds[key] = far, offset
            self._seen = min(self._seen, position)
