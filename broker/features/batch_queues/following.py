"""Units that follow the entries of a batch queue, so that RocketMQ finds its own files."""

import time
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.batch_units.taking import NEWEST_FILES
from aerobee.storage.recovery.batch_units.unit_files import UnitFiles
from aerobee.storage.recovery.batch_units.units import UNIT_MESSAGES_MAX, BatchUnit
from aerobee.storage.store import MessageStore

UNITS_AT_ONCE: Final = 2048  # that are collected in one turn of the loop
COLLECT_S: Final = 0.005  # ... which takes no longer


class UnitFollower:
    """Knows how far one queue's units are; `collect` in the store's thread, `write` in any.

    Units are derived: what is missing is written later, and what contradicts the entries again.
    """

    def __init__(self, store: MessageStore, queue: ConsumeQueue) -> None:
        self._store = store
        self.queue = queue
        self.files = UnitFiles(store.files, store.settings.root, queue.topic, queue.queue_id)
        self._number = 0  # of the next unit
        self._stamp = 0
        self._left_over = False  # units behind those, of messages that the log has lost
        self.next_offset: int | None = None  # not looked at yet

    @property
    def behind(self) -> bool:
        """Whether the queue has messages that its units do not have."""
        next_offset = self.next_offset
        return next_offset is None or self._left_over or next_offset < self.queue.max_offset

    def collect(self) -> tuple[int, list[BatchUnit]]:
        """Return what is missing, as far as the log has it, and the number of the first unit.

        Units never go further than the files of our entries: who reads those believes them then.
        """
        if self.next_offset is None:
            self._find()
        units: list[BatchUnit] = []
        queue, committed = self.queue, self._store.commit_log.committed
        offset = max(self.next_offset or 0, queue.min_offset)
        end_offset = min(queue.max_offset, queue.written)
        until_s = time.monotonic() + COLLECT_S  # pages of the log may have to be read
        while offset < end_offset and len(units) < UNITS_AT_ONCE:
            if units and time.monotonic() > until_s:
                break
            position, size, code = queue.entry(offset)
            if size == BLANK_SIZE:  # of these all are alike, wherever they are
                offset = queue.after_blanks(offset, end_offset)
                continue
            if position + size > committed:
                break
            end = self._end_of(offset, (position, size))
            if end > end_offset:
                break
            self._stamp = self._store.store_time_at(position) or self._stamp
            units.append(BatchUnit(position, size, code, self._stamp, offset, end - offset))
            offset = end
        if not units:
            self.next_offset = offset  # lost messages have none
        return self._number, units

    def write(self, number: int, units: list[BatchUnit]) -> None:
        """Write what was collected, and have the disk take it; OSError: it is tried again."""
        if self._left_over:
            self.files.cut(number)
            self._left_over = False
        if units:
            self.files.write(number, units)
            self._number, self.next_offset = number + len(units), units[-1].end
        self.files.trim(self.queue.min_offset)

    def _find(self) -> None:
        """Find the last unit that says what the entries say."""
        queue = self.queue
        self._number, self.next_offset = 0, queue.min_offset
        if (queue.topic, queue.queue_id) in self._store.recovered.mended:
            self._left_over = True  # entries may be there that were not, anywhere
            return
        for number, unit in self.files.read(self.files.newest(NEWEST_FILES)):
            known = queue.min_offset <= unit.first_offset and unit.end <= queue.max_offset
            place = (unit.position, unit.size)
            if known and (
                queue.place_of(unit.first_offset) != place or queue.place_of(unit.end - 1) != place
            ):
                known = False
            self._left_over = not known and unit.end > queue.min_offset
            if self._left_over:
                return
            if known or unit.end <= queue.min_offset:
                self._number, self.next_offset = number + 1, unit.end
                self._stamp = unit.store_timestamp

    def _end_of(self, offset: int, place: tuple[int, int]) -> int:
        """Return the offset behind the messages that share a record, by steps that double."""
        last, low, step = self.queue.max_offset, offset + 1, 1
        last = min(last, offset + UNIT_MESSAGES_MAX)
        while low < last and self.queue.place_of(min(low + step, last) - 1) == place:
            low = min(low + step, last)
            step *= 2
        high = min(low + step, last)
        while low < high:
            middle = (low + high) // 2
            if self.queue.place_of(middle) == place:
                low = middle + 1
            else:
                high = middle
        return low
