"""Files of timers of a store at rest, mended: what is damaged is made anew, what is sound stays.

A damaged unit is made from the record of its message: there is one unit for each message of the
timers' queue, in its order, so the units before and behind it say which ones are missing. Where
that does not come out even, or a whole file is gone, the note is set aside, and the next start
takes what waits from RocketMQ's files and from the log.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE, RECORD_FIELDS
from aerobee.remoting.message.properties import Property, parse_properties
from aerobee.remoting.message.record import Record, decode_record
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.features.timers.checking import TimersAtRest
from aerobee.storage.features.timers.codecs import (
    CHECK_FILE_BYTES,
    DEFAULT,
    DELETE,
    PRECISION_MS,
    ROLL,
    SLOT_BYTES,
    UNIT_BYTES,
    WHEEL_BYTES,
    Unit,
    encode_slot,
    ms_of,
    slot_index,
)
from aerobee.storage.features.timers.note import TimersNote, encode_note
from aerobee.storage.features.timers.wheel import write_slots
from aerobee.storage.layout import TIMER_LOG, file_name
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.consume_queues import ConsumeQueues
from aerobee.storage.settings import StoreSettings

DAMAGED_TIMERS: Final = "damaged/timers"

_OFFSET: Final = RECORD_FIELDS.pick("queue_offset")


class TimersMender:
    """Mends the files of one store that nobody uses. Killed anywhere it can be begun again."""

    def __init__(self, files: Files, settings: StoreSettings, log: LogSnapshot) -> None:
        self._files = files
        self._log = log
        self._aside = settings.root / DAMAGED_TIMERS
        self._found = TimersAtRest(files, settings.root)
        self._queues = ConsumeQueues(files, settings, write=False)

    def run(self) -> Iterator[str]:
        """Mend what there is to mend; yield what was done, a sentence each."""
        found = self._found
        try:
            if not any(found.problems(self._log.end)):
                return
            if self._give_sizes() or found.note is None:
                yield from self._forget()
                return
            self._queues.load({})
            if (mended := self._made(found.note)) is None:
                yield from self._forget()
                return
            yield from self._write(found.note, mended)
        finally:
            found.close()
            self._queues.close()

    def _give_sizes(self) -> bool:
        """Give files of the timer log that are missing or short their size; whether there were."""
        found, changed = self._found, False
        sizes = {span.begin: span.size for span in found.log.spans()}
        for base in range(found.log.begin, max(sizes, default=0) + 1, found.log.file_bytes):
            if sizes.get(base) != found.log.file_bytes:
                changed = True
                fd = self._files.open(found.log_folder / file_name(base), create=True)
                try:
                    self._files.resize(fd, found.log.file_bytes)
                    self._files.sync(fd)
                finally:
                    self._files.close(fd)
        if changed:
            self._files.sync_directory(found.log_folder)
        return changed

    def _forget(self) -> Iterator[str]:
        """Leave it to RocketMQ's files, without slots that no second can have, and to the log."""
        found = self._found
        if found.note_path.exists():
            self._set_aside(found.note_path)
            yield (
                f"{found.note_path} was set aside: the next start takes what waits from the timer"
                " log, and from the log"
            )
        if found.wheel_path.exists():
            if self._files.size(found.wheel_path) != WHEEL_BYTES:
                self._set_aside(found.wheel_path)
                yield f"{found.wheel_path} was set aside"
                return
            empty = dict.fromkeys(found.misplaced(), bytes(SLOT_BYTES))
            write_slots(self._files, found.wheel_path, empty)
            yield from (f"{found.wheel_path}: slot {index} emptied" for index in empty)

    def _set_aside(self, path: Path) -> None:
        self._files.make_directory(self._aside)
        self._files.replace(path, self._aside / path.name)
        self._files.sync_directory(self._aside)
        self._files.sync_directory(path.parent)

    def _made(self, note: TimersNote) -> dict[int, Unit] | None:
        """Return a unit for each place that has a damaged one, None where nobody can say it."""
        queue = self._queues.find(TIMER_TOPIC, 0)
        if queue is None:
            return None
        seconds = self._seconds(note)
        made: dict[int, Unit] = {}
        gap: list[int] = []
        before: Unit | None = None
        for place, unit in (*self._found.log.places(note.log_end), (-1, None)):
            if unit is None and place >= 0:
                gap.append(place)
                continue
            if gap:
                end = note.queue_offset if unit is None else self._offset(unit)
                begin = -1 if before is None else self._offset(before)
                entries = _between(queue, begin, end, len(gap))
                if entries is None:
                    return None
                for each, (position, size) in zip(gap, entries, strict=True):
                    made[each] = self._unit(position, size, seconds.get(each), note.read_s)
                gap = []
            before = unit
        return made

    def _seconds(self, note: TimersNote) -> dict[int, int]:
        """Return the seconds of units that others, or slots, name as the one before them."""
        seconds = {slot.last: time_s for time_s, slot in self._found.stored_slots(note)}
        for _, unit in self._found.log.places(note.log_end):
            if unit is not None and unit.time_s >= note.read_s:
                seconds[unit.previous] = unit.time_s
        return seconds

    def _offset(self, unit: Unit) -> int | None:
        head = self._read(unit.position, RECORD_FIELDS.size)
        return None if len(head) < RECORD_FIELDS.size else int(_OFFSET.unpack_from(head)[0])

    def _unit(self, position: int, size: int, time_s: int | None, read_s: int) -> Unit:
        """Return the unit of a message; of a second that is done where its record is damaged."""
        record = self._record(position, size)
        properties = {} if record is None else parse_properties(record.properties)
        out_ms = ms_of(properties.get(Property.TIMER_OUT_MS, ""))
        if out_ms is None:
            return Unit(-1, DEFAULT, (read_s - 1) * PRECISION_MS, 0, position, size)
        out_s, magic = out_ms // PRECISION_MS, DEFAULT
        time_s = out_s if time_s is None else time_s
        if time_s < out_s:
            magic |= ROLL
        if Property.TIMER_DEL_UNIQKEY in properties:
            magic |= DELETE
        topic = properties.get(Property.REAL_TOPIC, "")
        return Unit(
            -1, magic, time_s * PRECISION_MS, 0, position, size, java_string_hash(topic)
        )  # fmt: skip

    def _record(self, position: int, size: int) -> Record | None:
        try:
            return decode_record(self._read(position, size))
        except CorruptRecord:
            return None

    def _read(self, position: int, count: int) -> bytes:
        if not self._log.holds(position, count):
            return b""
        path, base = self._log.file(position)
        fd = self._files.open(path, write=False)
        try:
            return self._files.read(fd, count, position - base)
        finally:
            self._files.close(fd)

    def _write(self, note: TimersNote, made: dict[int, Unit]) -> Iterator[str]:
        """Write the units that were made, then all slots, with the note that says them."""
        found = self._found
        found.slots.clear()
        self._keep(sorted(made))
        for place, unit in found.log.places(note.log_end):
            if (new := unit or made.get(place)) is None:
                continue
            previous = found.add(place, new, note.read_s)
            if unit is None or (previous != new.previous and new.time_s >= note.read_s):
                found.log.rewrite(place, replace(new, previous=previous))
        found.log.sync_rewritten()
        if made:
            yield f"{len(made)} units of {TIMER_LOG} were made anew; the old ones are in damaged/"
        if found.wheel_path.exists():
            self._set_aside(found.wheel_path)
        slots = {slot_index(each.time_s): encode_slot(each) for each in found.slots.values()}
        waiting = sum(each.count for each in found.slots.values())
        new_note = replace(note, slots=slots, waiting=waiting, check_before=note.check)
        replace_file(self._files, found.note_path, encode_note(new_note))
        write_slots(self._files, found.wheel_path, slots)
        replace_file(self._files, found.check_path, note.check.ljust(CHECK_FILE_BYTES, b"\0"))
        self._files.sync_directory(found.wheel_path.parent)
        yield f"{found.wheel_path} was made anew: {len(slots)} slots, {waiting} messages wait"

    def _keep(self, places: list[int]) -> None:
        """Copy what damaged units have, a file for each run of them."""
        if places:
            self._files.make_directory(self._aside)
        numbered = enumerate(places)
        for _, run in groupby(numbered, lambda each: each[1] - each[0] * UNIT_BYTES):
            begin, *rest = map(itemgetter(1), run)
            data = self._found.log.raw(begin, (1 + len(rest)) * UNIT_BYTES)
            replace_file(self._files, self._aside / f"timerlog-{begin:020}", data)


def _between(
    queue: ConsumeQueue, begin: int | None, end: int | None, count: int
) -> list[tuple[int, int]] | None:
    """Return position and size of the messages between two offsets, if they are so many.

    From the queue's first unit on that may be others before them: those just before the end count.
    """
    if begin is None or end is None or end > queue.max_offset:
        return None
    low = max(end - count, queue.min_offset) if begin < 0 else begin + 1
    entries = [queue.entry(offset)[:2] for offset in range(max(low, queue.min_offset), end)]
    found = [each for each in entries if each[1] != BLANK_SIZE]
    return found if len(found) == count else None
