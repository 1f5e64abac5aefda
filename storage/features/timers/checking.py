"""Files of timers of a store at rest: whether they agree with each other; nothing is written."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.features.timers.codecs import (
    CHECK_BYTES,
    CHECK_FILE_BYTES,
    DELETE,
    WHEEL_BYTES,
    Slot,
    Unit,
    decode_slot,
    slot_index,
)
from aerobee.storage.features.timers.note import NOTE_BYTES_MAX, TimersNote, decode_note
from aerobee.storage.features.timers.pages import read_small
from aerobee.storage.features.timers.timer_log import TimerLog
from aerobee.storage.features.timers.wheel import DOUBTED, Wheel
from aerobee.storage.layout import TIMER_CHECK, TIMER_LOG, TIMER_WHEEL, TIMERS, file_name

LOG_FILE_BYTES: Final = 4096  # of a timer log without files


class TimersAtRest:
    """What the files say; `note` is None for one that does not count, and RocketMQ's files do."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self.note_path, self.wheel_path = root / TIMERS, root / TIMER_WHEEL
        self.check_path, self.log_folder = root / TIMER_CHECK, root / TIMER_LOG
        data = read_small(files, self.note_path, NOTE_BYTES_MAX)
        found = decode_note(data)
        self.is_note_damaged = found is None and self.note_path.exists()
        self.check = read_small(files, self.check_path, CHECK_BYTES)
        self.note = found if found is not None and found.names(self.check) else None
        self.log = TimerLog(files, self.log_folder, LOG_FILE_BYTES)
        self.damaged: list[int] = []  # places of units that are none
        self.slots: dict[int, Slot] = {}  # by second, as the units have them

    def problems(self, log_end: int) -> Iterator[str]:
        """Yield what is wrong, a sentence each, with file and place."""
        if self.is_note_damaged:
            yield f"{self.note_path}: wrong length or checksum; RocketMQ's files count instead"
        yield from self._wrong_files()
        if self.note is None:
            for index in self.misplaced():
                yield f"{self.wheel_path}: slot {index} says a second that has another place"
            return
        if self.check not in (self.note.check, self.note.check_before):
            yield f"{self.check_path}: one bit is not as {self.note_path.name} has it"
        yield from self._wrong_units(self.note, log_end)
        if not self.damaged:
            yield from self._wrong_slots(self.note)

    def _wrong_files(self) -> Iterator[str]:
        spans = self.log.spans()
        for before, span in pairwise(spans):
            if (base := before.begin + self.log.file_bytes) < span.begin:
                yield f"{self.log_folder / file_name(base)}: missing, {span.path.name} follows"
        for span in spans:
            if span.size != self.log.file_bytes:
                yield f"{span.path}: {span.size} bytes, others have {self.log.file_bytes}"
        for path, size in ((self.wheel_path, WHEEL_BYTES), (self.check_path, CHECK_FILE_BYTES)):
            if path.exists():
                if (found := self._files.size(path)) != size:
                    yield f"{path}: {found} bytes, it should have {size}"
            elif self.note is not None:
                yield f"{path}: missing"

    def _wrong_units(self, note: TimersNote, log_end: int) -> Iterator[str]:
        position, end = -1, self.log.begin
        for place, unit in self.log.places(note.log_end):
            if unit is None:
                self.damaged.append(place)
                yield f"{self._name(place)}: the unit at {place} is damaged"
            elif not position < unit.position <= log_end - unit.record_bytes:
                yield (
                    f"{self._name(place)}: the unit at {place} leads to {unit.position}, behind"
                    f" {position} and before {log_end} was expected"
                )
            else:
                position = unit.position
                self.add(place, unit, note.read_s)
            end = place
        if end < note.log_end - 2 * self.log.file_bytes:
            yield f"{self.log_folder}: the units end at {end}, {note.log_end} was noted"

    def add(self, place: int, unit: Unit, read_s: int) -> int:
        """Count a unit to its slot if that is not done; return the place of the one before it."""
        if (time_s := unit.time_s) < read_s:
            return unit.previous
        step = -1 if unit.magic & DELETE else 1
        before = self.slots.get(time_s, Slot(time_s, place, -1, 0))
        self.slots[time_s] = Slot(time_s, before.first, place, before.count + step)
        return before.last

    def _wrong_slots(self, note: TimersNote) -> Iterator[str]:
        found = dict(self.stored_slots(note))
        for time_s in sorted(self.slots.keys() | found.keys()):
            wanted = self.slots.get(time_s, Slot(time_s, -1, -1, 0))
            slot = found.get(time_s, Slot(time_s, -1, -1, 0))
            if slot.magic == DOUBTED or (slot.first, slot.last, slot.count) != (
                wanted.first, wanted.last, wanted.count,
            ):  # fmt: skip
                yield (
                    f"{self.wheel_path}: the slot of second {time_s} has {slot.count} units from"
                    f" {slot.first} to {slot.last}, the timer log {wanted.count} from"
                    f" {wanted.first} to {wanted.last}"
                )

    def stored_slots(self, note: TimersNote) -> Iterator[tuple[int, Slot]]:
        """Yield the slots that are not done, by second, with those that the note has."""
        wheel = Wheel(self._files, self.wheel_path)
        try:
            stored = {slot_index(slot.time_s): slot for slot in wheel.stored()}
        finally:
            wheel.close()
        stored |= {index: decode_slot(data) for index, data in note.slots.items()}
        for slot in stored.values():
            if slot.time_s >= note.read_s:
                yield slot.time_s, slot

    def misplaced(self) -> Iterator[int]:
        """Yield the places of slots whose seconds have others."""
        wheel = Wheel(self._files, self.wheel_path)
        try:
            for index, slot in wheel.placed():
                if slot.time_s > 0 and slot_index(slot.time_s) != index:
                    yield index
        finally:
            wheel.close()

    def _name(self, place: int) -> Path:
        return self.log_folder / file_name(place // self.log.file_bytes * self.log.file_bytes)

    def close(self) -> None:
        """Let go of the files."""
        self.log.close()


def timer_problems(files: Files, root: Path, log_end: int) -> Iterator[str]:
    """Yield what is wrong with the files of timers of a store at rest, a sentence each."""
    if not any((root / name).exists() for name in (TIMERS, TIMER_LOG, TIMER_WHEEL)):
        return
    found = TimersAtRest(files, root)
    try:
        yield from found.problems(log_end)
    finally:
        found.close()
