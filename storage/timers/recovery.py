"""What waits when a store is opened: by the last note, else by RocketMQ's files, else by the log.

A note is believed if the log has all that it speaks of, and `timercheck` is one of the two that it
names; else RocketMQ has had the store meanwhile, and its timer log says what waits: every unit of a
second that it has not reached. What the timer log does not have is read from the timers' queue, by
`TimerIndex.add`, as after every start.
"""

import logging

from aerobee.remoting.message.layout import RECORD_FIELDS
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.layout import TIMER_CHECK, TIMER_LOG, TIMER_WHEEL, TIMERS, FileSpan
from aerobee.storage.store import MessageStore
from aerobee.storage.timers.codecs import (
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
from aerobee.storage.timers.index import TimerIndex
from aerobee.storage.timers.marks import delivered_between
from aerobee.storage.timers.note import NOTE_BYTES_MAX, TimersNote, decode_note

log = logging.getLogger(__name__)

_HEAD = RECORD_FIELDS.pick("queue_offset", "position")


class TimerRecovery:
    """Finds out once, after the store is open, how far timers were.

    `counts` are those of the note.
    """

    def __init__(self, store: MessageStore, index: TimerIndex) -> None:
        self._store = store
        self._index = index
        root, files = store.settings.root, store.files
        self._log_folder = root / TIMER_LOG
        self._wheel_path = root / TIMER_WHEEL
        self._check = files.read_all(root / TIMER_CHECK, CHECK_BYTES) or b""
        self._note = decode_note(files.read_all(root / TIMERS, NOTE_BYTES_MAX))
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
        if note is not None and self._is_true(note):
            self._believe(note)
        else:
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
            and self._is_ours()
            and note.position <= end
            and note.queue_offset <= queue.max_offset
            and (not note.log_end or (bool(spans) and note.log_end <= _end(spans)))
            and (damage is None or not damage.touches(note.position, end))
        )

    def _believe(self, note: TimersNote) -> None:
        index = self._index
        index.read_s, index.position = note.read_s, note.position
        index.next_offset = note.queue_offset
        index.log.start(note.log_end)
        index.waiting = index.wheel.load(note.read_s, note.slots)
        self.counts = note.counts
        self.is_believed = True

    def _derive(self, check: TimerCheck) -> None:
        """Take every unit of a second that was not reached as waiting; begin the wheel anew."""
        index, files = self._index, self._store.files
        index.read_s = check.read_ms // PRECISION_MS
        slots: dict[int, Slot] = {}
        last: Unit | None = None
        end = index.log.begin
        for place, unit in index.log.units():
            last, end = unit, place + UNIT_BYTES
            time_s, step = unit.time_s, -1 if unit.magic & DELETE else 1
            if time_s >= index.read_s:
                slot = slots.get(time_s)
                first, count = (slot.first, slot.count) if slot is not None else (place, 0)
                slots[time_s] = Slot(time_s, first, place, count + step)
        index.log.start(end)
        if not self._store.read_only:
            files.remove(self._wheel_path)
        changed = {slot_index(time_s): encode_slot(slot) for time_s, slot in slots.items()}
        index.waiting = index.wheel.load(index.read_s, changed)
        whole = end >= check.log_position and check.read_ms > 0
        index.next_offset = self._offset_behind(last)
        index.known_offset, index.known_s = check.queue_offset, index.read_s
        if whole and not self._is_ours():
            index.next_offset = max(index.next_offset, check.queue_offset)
            index.position = self._store.commit_log.committed  # RocketMQ leaves no marks
        else:
            index.position = self._first_position()

    def _is_ours(self) -> bool:
        note = self._note
        return note is not None and self._check.ljust(CHECK_BYTES, b"\0") in (
            note.check, note.check_before,
        )  # fmt: skip

    def _offset_behind(self, last: Unit | None) -> int:
        """Return the offset behind the message of the last unit; 0 where that is not to be had."""
        if last is None:
            return 0
        head = self._store.commit_log.read(last.position, RECORD_FIELDS.size)
        if len(head) < RECORD_FIELDS.size:
            return 0
        offset, position = _HEAD.unpack_from(head)
        return offset + 1 if position == last.position else 0

    def _first_position(self) -> int:
        queue = self._store.find_queue(TIMER_TOPIC, 0)
        if queue is None or queue.min_offset >= queue.max_offset:
            return self._store.commit_log.committed
        return queue.place_of(queue.min_offset)[0]


def _end(spans: list[FileSpan]) -> int:
    return spans[-1].begin + spans[-1].size
