"""What waits when a store is opened: by the last note, else by RocketMQ's files, else by the log.

A note is believed if the log has all that it speaks of, and `timercheck` is one of the two that it
names; else RocketMQ has had the store meanwhile, and its timer log says what waits: every unit of a
second that it has not reached. What the timer log does not have is read from the timers' queue, by
`TimerIndex.add`, as after every start. Where the wheel has lost what the note says that it has, its
slots are made anew from the units.
"""

import logging
from collections.abc import Iterator
from typing import Final

from aerobee.remoting.message.layout import RECORD_FIELDS
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.features.timers.codecs import (
    CHECK_BYTES,
    DELETE,
    PRECISION_MS,
    UNIT_BYTES,
    Slot,
    TimerCheck,
    Unit,
    decode_check,
    encode_slot,
    slot_index,
)
from aerobee.storage.features.timers.index import TimerIndex
from aerobee.storage.features.timers.marks import delivered_between
from aerobee.storage.features.timers.note import NOTE_BYTES_MAX, TimersNote, decode_note
from aerobee.storage.features.timers.pages import read_small
from aerobee.storage.features.timers.repeated import delivered_unmarked
from aerobee.storage.layout import TIMER_CHECK, TIMERS, FileSpan
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

SLACK_MS: Final = 10_000  # a clock may have been set a little

_HEAD: Final = RECORD_FIELDS.pick("total_size", "queue_offset", "position")


class TimerRecovery:
    """Finds out once, after the store is open, how far timers were.

    `counts` are those of the note.
    """

    def __init__(self, store: MessageStore, index: TimerIndex) -> None:
        self._store = store
        self._index = index
        root, files = store.settings.root, store.files
        self._check = read_small(files, root / TIMER_CHECK, CHECK_BYTES)
        self._note = decode_note(read_small(files, root / TIMERS, NOTE_BYTES_MAX))
        self._behind = 0  # the offset behind the last unit's message
        self.is_believed = False
        self.counts = b""

    def run(self, now_s: int) -> None:
        """Bring the index up to the moment that the files bear out."""
        index, note = self._index, self._note
        queue = self._store.find_queue(TIMER_TOPIC, 0)
        if queue is None or (not queue.max_offset and note is None):
            return
        index.used = True
        index.check = check = decode_check(self._check)
        if note is None or not self._is_true(note) or not self._believe(note):
            self._derive(check)
        if index.next_offset < queue.min_offset:
            log.error("timer_messages_lost from=%d to=%d", index.next_offset, queue.min_offset)
            index.next_offset = queue.min_offset
        index.next_offset = min(index.next_offset, queue.max_offset)
        if not index.read_s:
            index.read_s = index.wheel.begin_s = index.wheel.next_used(0) or now_s
        if index.behind or index.wheel.next_used(index.read_s) is not None:
            end = self._store.commit_log.committed
            index.done, index.done_until_s = delivered_between(self._store, index.position, end)
            if not self.is_believed:  # another broker has had the store
                done, until_s = delivered_unmarked(self._store, index, end)
                index.done |= done
                index.compared = bool(index.done)
                index.done_until_s = max(index.done_until_s, until_s)
        log.info(
            "timers_recovered waiting=%d behind=%d read=%d offset=%d log_end=%d delivered=%d"
            " note=%s",
            index.waiting, index.behind, index.read_s, index.next_offset, index.log.end,
            len(index.done), "believed" if self.is_believed else "not believed",
        )  # fmt: skip

    def _is_true(self, note: TimersNote) -> bool:
        queue = self._store.find_queue(TIMER_TOPIC, 0)
        spans = self._index.log.spans()
        damage = self._store.commit_log.damage
        end = self._store.commit_log.committed
        return (
            queue is not None
            and note.names(self._check)
            and note.position <= end
            and note.queue_offset <= queue.max_offset
            and (not note.log_end or (bool(spans) and note.log_end <= _end(spans)))
            and (damage is None or not damage.touches(note.position, end))
        )

    def _believe(self, note: TimersNote) -> bool:
        """Take what a note says; False where neither wheel nor timer log have all of it."""
        index = self._index
        index.log.start(note.log_end)
        index.waiting = index.wheel.load(note.read_s, note.slots)
        if index.waiting != note.waiting:
            log.error("timer_wheel_damaged waiting=%d found=%d", note.waiting, index.waiting)
            units = index.log.units()
            self._make_wheel(
                note.read_s, ((place, unit) for place, unit in units if place < note.log_end)
            )
            if index.waiting != note.waiting:
                log.error("timer_log_damaged waiting=%d found=%d", note.waiting, index.waiting)
                return False
        index.read_s, index.position = note.read_s, note.position
        index.next_offset = note.queue_offset
        self.counts = note.counts
        self.is_believed = True
        return True

    def _make_wheel(self, from_s: int, units: Iterator[tuple[int, Unit]]) -> None:
        """Give every unit of a second from one on its slot, and forget the slots that there are."""
        index = self._index
        slots: dict[int, Slot] = {}
        for place, unit in units:
            time_s, step = unit.time_s, -1 if unit.magic & DELETE else 1
            if time_s >= from_s:
                slot = slots.get(time_s)
                first, count = (slot.first, slot.count) if slot is not None else (place, 0)
                slots[time_s] = Slot(time_s, first, place, count + step)
        begin_s = from_s or min(slots, default=0)
        if not self._store.read_only:
            index.wheel.remove()
        changed = {slot_index(time_s): encode_slot(slot) for time_s, slot in slots.items()}
        index.waiting = index.wheel.load(begin_s, changed)

    def _derive(self, check: TimerCheck) -> None:
        """Take every unit of a second that was not reached as waiting; begin the wheel anew."""
        index = self._index
        self._make_wheel(check.read_ms // PRECISION_MS, self._sound_units())
        index.read_s = index.wheel.begin_s
        index.known_offset, index.known_s = check.queue_offset, index.read_s
        index.next_offset = self._behind
        if check.read_ms > 0 and index.log.end >= check.log_position:
            index.next_offset = max(index.next_offset, check.queue_offset)
        index.position = self._position_at(check.read_ms)
        queue = self._store.find_queue(TIMER_TOPIC, 0)
        if queue is not None and queue.min_offset <= index.next_offset < queue.max_offset:
            # of those behind it, some may have been put aside once more long ago
            index.position = min(index.position, queue.entry(index.next_offset)[0])

    def _sound_units(self) -> Iterator[tuple[int, Unit]]:
        """Yield the units that the log bears out; the timer log ends behind the last of them.

        Their messages lie one behind the other in the log, and the last one is where it says.
        """
        index, committed = self._index, self._store.commit_log.committed
        position, last, end = -1, index.log.begin, index.log.begin
        for place, unit in index.log.units():
            if not position < unit.position <= committed - unit.record_bytes:
                break
            position, last, end = unit.position, place, place + UNIT_BYTES
        while end > index.log.begin and (stored := index.log.stored(last)) is not None:
            if (offset := self._offset_of(stored)) is not None:
                self._behind = offset + 1
                break
            if stored.position < self._store.commit_log.begin:
                break  # too old to be looked at
            end = last
            last = index.log.before(last)
        index.log.start(end)
        for place, unit in index.log.units():
            if place >= end:
                return
            yield place, unit

    def _offset_of(self, unit: Unit) -> int | None:
        """Return the offset of a unit's message in the timers' queue, None if it is not there."""
        head = self._store.commit_log.read(unit.position, RECORD_FIELDS.size)
        if len(head) < RECORD_FIELDS.size:
            return None
        size, offset, position = _HEAD.unpack_from(head)
        queue = self._store.find_queue(TIMER_TOPIC, 0)
        if (size, position) != (unit.record_bytes, unit.position) or queue is None:
            return None
        if not queue.min_offset <= offset < queue.max_offset:
            return None
        return offset if queue.place_of(offset) == (position, size) else None

    def _position_at(self, read_ms: int) -> int:
        """Return from where on the log may have deliveries of a second that was not reached.

        None of them comes before its time: from the last file on that begins earlier.
        """
        for segment in reversed(self._store.segments.items):
            stored_ms = self._store.store_time_at(segment.base)
            if stored_ms is not None and stored_ms < read_ms - SLACK_MS:
                return segment.base
        return self._store.commit_log.begin


def _end(spans: list[FileSpan]) -> int:
    return spans[-1].begin + spans[-1].size
