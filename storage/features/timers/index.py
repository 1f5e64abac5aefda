"""What waits, second by second: wheel and timer log as one, kept in step with the log.

In memory are the changes since the last note, and one byte for each second; everything else is in
RocketMQ's files, however many messages wait. `add` is told each message of the timers' queue in its
order, `advance` which seconds are done.
"""

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.features.timers.chains import Chain, QueuedMessages
from aerobee.storage.features.timers.codecs import (
    CHECK_BYTES,
    CHECK_FILE_BYTES,
    DEFAULT,
    DELETE,
    PRECISION_MS,
    ROLL,
    SLOTS,
    Slot,
    TimerCheck,
    Unit,
    decode_check,
    encode_check,
)
from aerobee.storage.features.timers.note import TimersNote, encode_note
from aerobee.storage.features.timers.pages import read_small, write_pages
from aerobee.storage.features.timers.timer_log import TimerLog, write_units
from aerobee.storage.features.timers.wheel import DOUBTED, Wheel, write_slots
from aerobee.storage.layout import TIMER_CHECK, TIMER_LOG, TIMER_WHEEL, TIMERS
from aerobee.storage.store import MessageStore

DELAY_MS_MAX: Final = 2**31 - 1
NOTE_AGE_S: Final = 60
BLANK_SLOTS: Final = 60  # of a week's, which RocketMQ leaves free
ROLL_SLOTS_MAX: Final = SLOTS // 2 - BLANK_SLOTS


class Waiting(msgspec.Struct, frozen=True):
    """A message that is to wait: its place in the queue and in the log, and when it is due.

    `out_s` is the second of its slot, which ends when the second after it begins.
    """

    offset: int
    position: int
    record_bytes: int
    out_s: int
    due_ms: int
    is_delete: bool = False
    topic_hash: int = 0


class TimersShot(msgspec.Struct, frozen=True):
    """What is to be written of one moment, when the log is on the disk up to `position`."""

    number: int
    position: int
    note: TimersNote
    units_at: int
    units: bytes


class TimerIndex:
    """Every slot before `read_s` is done; every message before `next_offset` is in a slot.

    What is in the files is what the last note says. Nothing is made on the disk before something
    waits. One thread owns it; `write` alone may be called in another.
    """

    def __init__(self, store: MessageStore, log_file_bytes: int, roll_slots: int) -> None:
        root, files = store.settings.root, store.files
        self._store, self._files = store, files
        self._roll_slots = roll_slots if 2 <= roll_slots <= ROLL_SLOTS_MAX else ROLL_SLOTS_MAX
        self._note_path = root / TIMERS
        self._check_path = root / TIMER_CHECK
        self._wheel_path = root / TIMER_WHEEL
        self._log_folder = root / TIMER_LOG
        self.wheel = Wheel(files, self._wheel_path)
        self.log = TimerLog(files, self._log_folder, log_file_bytes)
        self._writing = threading.Lock()
        self._noted = (0, 0, 0)
        self._shots = self._written = 0
        self.used = False  # whether anything has ever waited here
        self.read_s = 0
        self.position = 0  # deliveries of `read_s` and later lie behind it
        self.next_offset = 0
        self.waiting = 0
        self.done: set[int] = set()  # offsets that were delivered before, see `recovery`
        self.done_until_s = 0  # ... all of them out of seconds up to this one
        self.compared = False  # ... found by more than our own marks: no note may say so
        self.check = TimerCheck()
        self.known_offset = -1  # messages before it, of seconds before the next, are done
        self.known_s = 0

    def begin(self, now_s: int) -> None:
        """Begin to be used: the first message is about to wait."""
        if not self.used:
            self.used = True
            self.read_s = now_s
            self.position = self._store.commit_log.committed
            self.wheel.load(now_s, {})

    @property
    def behind(self) -> int:
        """How many messages of the timers' queue have no slot yet."""
        queue = self._store.find_queue(TIMER_TOPIC, 0)
        return 0 if queue is None else max(0, queue.max_offset - self.next_offset)

    def add(self, message: Waiting, now_s: int) -> int | None:
        """Put the next message of the queue into its slot; return its second, None: it was done.

        LookupError: its slot may have messages of two weeks ago, which are to be delivered first.
        """
        assert message.offset == self.next_offset, "messages come in their order"
        time_s, magic = message.out_s, DEFAULT
        if time_s - now_s >= self._roll_slots:
            near = time_s - now_s - self._roll_slots < self._roll_slots // 3
            time_s = now_s + (self._roll_slots // 2 if near else self._roll_slots)
        time_s = max(time_s, self.read_s)  # which is far ahead where the clock was set back
        if time_s < message.out_s:
            magic |= ROLL
        if message.is_delete:
            magic |= DELETE
        known = message.offset < self.known_offset and message.out_s < self.known_s
        if known or message.offset in self.done:
            self._append(message, magic, self.read_s - 1, now_s, -1)
            return None
        if time_s >= self.read_s + SLOTS:
            raise LookupError(
                f"second {time_s} is two weeks behind {self.read_s}, which comes first"
            )
        mine = self.wheel.waiting(time_s)
        place = self._append(message, magic, time_s, now_s, mine.last)
        step = -1 if message.is_delete else 1
        first = mine.first if mine.first >= 0 else place
        self.wheel.put(Slot(time_s, first, place, mine.count + step, mine.magic))
        self.waiting += step
        return time_s

    def _append(self, message: Waiting, magic: int, time_s: int, now_s: int, previous: int) -> int:
        delay_ms = (time_s - now_s) * PRECISION_MS
        delay_ms = max(-DELAY_MS_MAX, min(delay_ms, DELAY_MS_MAX)) // PRECISION_MS * PRECISION_MS
        written_ms = time_s * PRECISION_MS - delay_ms
        after_ms = message.due_ms - time_s * PRECISION_MS
        unit = Unit(
            previous, magic, written_ms, delay_ms, message.position, message.record_bytes,
            message.topic_hash, after_ms if 0 < after_ms <= PRECISION_MS else 0,
        )  # fmt: skip
        place = self.log.append(unit)
        self.next_offset = message.offset + 1
        return place

    def chain(self, time_s: int) -> Chain:
        """Return the units of a second; as many as its slot counts, else the files are damaged."""
        return Chain(self.log, self.wheel.slot(time_s), self._store.commit_log.position)

    def queued(self, time_s: int) -> QueuedMessages:
        """Return position and size of each message that may wait for a second, the last one first.

        By the timers' queue, whatever wheel and timer log say; from where the slot's first unit is.
        """
        queue, slot = self._store.find_queue(TIMER_TOPIC, 0), self.wheel.slot(time_s)
        first = None if slot is None or slot.magic else self.log.unit(slot.first)
        is_sound = first is not None and first.time_s == time_s and first.previous < 0
        begin = first.position if first is not None and is_sound else 0
        end = min(self.next_offset, queue.max_offset) if queue is not None else 0
        return QueuedMessages(queue, end, begin)

    def advance(self, to_s: int, begun_at: int | None = None) -> None:
        """Take every second before one as done; what was delivered is in the log.

        `begun_at` is a position before the deliveries of those that are not, if there were any.
        """
        while (time_s := self.wheel.next_used(self.read_s)) is not None and time_s < to_s:
            slot = self.wheel.slot(time_s)
            self.waiting -= slot.count if slot is not None else 0
            self.wheel.done(time_s)
        self.read_s = self.wheel.begin_s = to_s
        if to_s > self.done_until_s:
            self.done.clear()
            self.compared = False
        if not self.done:  # else what they say is behind the last note, and in memory alone
            committed = self._store.commit_log.committed
            self.position = committed if begun_at is None else min(begun_at, committed)

    @property
    def changed(self) -> bool:
        """Whether there is anything to write since the last note."""
        return self.used and self._noted != self._marks()

    @property
    def aged(self) -> bool:
        """Whether the last note is so old that a start would have much of the log to read."""
        return self.read_s - self._noted[0] >= NOTE_AGE_S

    def _marks(self) -> tuple[int, int, int]:
        return self.read_s, self.next_offset, self.log.end

    def snapshot(self, counts: bytes, now_ms: int) -> TimersShot:
        """Return what is to be written of this moment; `counts` is the text of `timermetrics`."""
        before = encode_check(self.check)
        self.check = check = TimerCheck(
            self.read_s * PRECISION_MS, self.log.end, self.next_offset, self.next_offset,
            0, now_ms, self.check.counter + 1,
        )  # fmt: skip
        note = TimersNote(
            self.read_s, self.position, self.next_offset, self.log.end, self.waiting,
            encode_check(check), before, self.wheel.take(), counts,
        )  # fmt: skip
        position = self._store.commit_log.committed
        self._shots += 1
        return TimersShot(self._shots, position, note, self.log.written, self.log.take())

    def write(self, shot: TimersShot) -> None:
        """Write one moment: units, then the note, then wheel and check. Raises OSError.

        Whatever ends this in the middle, the last note that is whole says what is so.
        """
        with self._writing:
            if shot.number < self._written:
                return  # a thread that a stop has not waited for
            self._written = shot.number
            files, note = self._files, shot.note
            if shot.units:
                write_units(files, self._log_folder, self.log.file_bytes, shot.units_at, shot.units)
            replace_file(files, self._note_path, encode_note(note))
            write_slots(files, self._wheel_path, note.slots)
            self._write_check(note.check)

    def _write_check(self, data: bytes) -> None:
        files, path = self._files, self._check_path
        files.make_directory(path.parent)
        fd = files.open(path, create=True)
        try:
            files.resize(fd, CHECK_FILE_BYTES)
            write_pages(files, fd, path, data, 0)
            files.sync(fd)
        finally:
            files.close(fd)

    def wrote(self, shot: TimersShot) -> None:
        """Take note that a moment is on the disk."""
        self.log.taken(shot.note.log_end)
        self.wheel.written(shot.note.slots)
        self._noted = shot.note.read_s, shot.note.queue_offset, shot.note.log_end

    def read_check(self) -> None:
        """Look which check the disk has: after a moment that may have been written or not.

        The next note names it as the one that was there before.
        """
        self.check = decode_check(read_small(self._files, self._check_path, CHECK_BYTES))

    @property
    def unwritten_bytes(self) -> int:
        """How many bytes of units no file has."""
        return self.log.end - self.log.written

    def relink(self, time_s: int, waits: Callable[[Unit], bool], *, doubted: bool = False) -> None:
        """Take units out of a second, in the files: only those are left that wait.

        The others count to the last second that is done. It may be ended anywhere: they are known
        as done, by the marks of what was delivered. `doubted`: the chain lacks some that wait.
        """
        previous = -1
        left: list[tuple[int, Unit]] = []
        chain = self.chain(time_s)
        for unit in chain:
            if waits(unit):
                left.append((chain.place, unit))
            else:
                delay_ms = (self.read_s - 1) * PRECISION_MS - unit.written_ms
                self.log.rewrite(
                    chain.place,
                    msgspec.structs.replace(unit, previous=-1, delay_ms=delay_ms, after_ms=0),
                )
        count = 0
        for place, unit in reversed(left):
            if unit.previous != previous:
                self.log.rewrite(place, msgspec.structs.replace(unit, previous=previous))
            previous = place
            count += -1 if unit.magic & DELETE else 1
        first = left[-1][0] if left else -1
        before = self.wheel.slot(time_s)
        self.waiting += count - (before.count if before is not None else 0)
        self.wheel.put(Slot(time_s, first, previous, count, DOUBTED if doubted else 0))
        self.log.sync_rewritten()

    def close(self) -> None:
        """Let go of the files."""
        self.wheel.close()
        self.log.close()
