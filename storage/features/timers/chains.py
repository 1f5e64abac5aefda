"""What waits for a second, the last message first: by its slot's chain, or by the timers' queue.

Both may be read on after an error: what was not read comes next.
"""

from collections.abc import Iterator

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.features.timers.codecs import Slot, Unit
from aerobee.storage.features.timers.timer_log import TimerLog
from aerobee.storage.queues.consume_queue import ConsumeQueue


class Chain:
    """The units of a slot, up to one that is not of its second, or not before the last in the log.

    `is_whole` when it has come to the slot's first one: else the files are damaged. `place` is
    where the unit is that was yielded last.
    """

    def __init__(self, timer_log: TimerLog, slot: Slot | None, before: int) -> None:
        self._log = timer_log
        self._time_s = slot.time_s if slot is not None else -1
        self._first = slot.first if slot is not None else -1
        self._next = slot.last if slot is not None else -1
        self._before = before
        self.is_whole = slot is not None and slot.first < 0 and slot.last < 0
        self.place = -1

    def __iter__(self) -> Iterator[Unit]:
        return self

    def __next__(self) -> Unit:
        if self._next < 0:
            raise StopIteration
        unit = self._log.unit(self._next)
        if unit is None or unit.time_s != self._time_s or unit.position >= self._before:
            self._next = -1
            raise StopIteration
        self.place, self._before = self._next, unit.position
        self.is_whole = self.place == self._first
        self._next = -1 if self.is_whole or unit.previous >= self.place else unit.previous
        return unit


class QueuedMessages:
    """Position and size of the messages of a queue before an offset, up to a position of the log.

    What the log has lost is left out.
    """

    def __init__(self, queue: ConsumeQueue | None, before_offset: int, from_position: int) -> None:
        self._queue = queue
        self._offset = before_offset - 1
        self._from = from_position

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self

    def __next__(self) -> tuple[int, int]:
        queue = self._queue
        while queue is not None and self._offset >= queue.min_offset:
            position, size, _ = queue.entry(self._offset)
            self._offset -= 1
            if size == BLANK_SIZE:
                continue
            if position < self._from:
                break
            return position, size
        self._queue = None
        raise StopIteration
