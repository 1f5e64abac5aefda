"""The file `timerwheel`: for each second its slot, of which memory has those that changed."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.sectors import PAGE_BYTES
from aerobee.storage.features.timers.codecs import (
    SLOT_BYTES,
    SLOTS,
    WHEEL_BYTES,
    Slot,
    decode_slot,
    encode_slot,
    slot_index,
)
from aerobee.storage.features.timers.pages import read_pages, write_pages

log = logging.getLogger(__name__)

STEP_BYTES: Final = 1 << 20
DOUBTED: Final = 1
"""As `magic` of a slot, which RocketMQ does not use: not all that waits there is in its chain."""

_EMPTY: Final = bytes(SLOT_BYTES)
_EMPTY_PAGE: Final = bytes(PAGE_BYTES)


class Wheel:
    """Slots by second; what `put` changes is in memory until the files of it are written.

    The file is sparse: a slot that was never used takes no room on the disk. Of the slots from the
    second on that `load` is told, memory has one byte each that says whether anything waits there.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._fd = -1
        self._used = bytearray()
        self.begin_s = 0  # no second before it has a slot any more
        self._changed: dict[int, bytes] = {}  # by slot, since the last note
        self._noted: dict[int, bytes] = {}  # of the last note, perhaps not on the disk

    def load(self, from_s: int, changed: Mapping[int, bytes]) -> int:
        """Read which slots from a second on are used; `changed` holds against the file.

        Returns how many messages wait in them.
        """
        self._used = bytearray(SLOTS)
        self.begin_s = from_s
        self._changed = dict(changed)
        waiting, damaged = 0, dict[int, bytes]()
        for index, data in self._slots():
            slot = decode_slot(data)
            if slot.time_s > 0 and slot_index(slot.time_s) != index:  # no second has it there
                time_s = from_s + (index - from_s) % SLOTS
                log.error("timer_slot_damaged second=%d says=%d", time_s, slot.time_s)
                slot = Slot(time_s, -1, -1, 0, DOUBTED)
                damaged[index] = encode_slot(slot)
            if from_s <= slot.time_s < from_s + SLOTS and slot_index(slot.time_s) == index:
                self._used[index] = 1
                waiting += slot.count
        self._changed |= damaged
        return waiting

    def slot(self, time_s: int) -> Slot | None:
        """Return the slot of a second, None where nothing was ever put there."""
        slot = self.there(time_s)
        return slot if slot.time_s == time_s else None

    def waiting(self, time_s: int) -> Slot:
        """Return the slot of a second as it is to be added to; an empty one where nothing waits.

        Where something waits, and its place has another second, bits have flipped: it is doubted.
        """
        if not self.uses(time_s):
            return Slot(time_s, -1, -1, 0)
        slot = self.there(time_s)
        return slot if slot.time_s == time_s else Slot(time_s, -1, -1, 0, DOUBTED)

    def there(self, time_s: int) -> Slot:
        """Return what lies in the place of a second, of whichever second that is."""
        index = slot_index(time_s)
        data = self._changed.get(index) or self._noted.get(index)
        if data is None:
            data = self._read(index * SLOT_BYTES, SLOT_BYTES)
        return decode_slot(data.ljust(SLOT_BYTES, b"\0"))

    def put(self, slot: Slot) -> None:
        """Change a slot."""
        index = slot_index(slot.time_s)
        self._changed[index] = encode_slot(slot)
        self._used[index] = 1

    def done(self, time_s: int) -> None:
        """Take note that nothing waits in a slot any more; its bytes stay, as RocketMQ's do."""
        self._used[slot_index(time_s)] = 0

    def next_used(self, from_s: int) -> int | None:
        """Return the first second from one on that has messages, None if none has."""
        index = slot_index(from_s)
        found = self._used.find(1, index)
        if found >= 0:
            return from_s + found - index
        found = self._used.find(1, 0, index)
        time_s = from_s + SLOTS - index + found
        return None if found < 0 or time_s >= self.begin_s + SLOTS else time_s

    def uses(self, time_s: int) -> bool:
        """Whether messages wait in the slot of a second."""
        return bool(self._used and self._used[slot_index(time_s)])

    def take(self) -> Mapping[int, bytes]:
        """Return the slots for a note: those that changed, and those that the disk may not have."""
        self._noted |= self._changed
        self._changed = {}
        return dict(self._noted)

    def written(self, slots: Mapping[int, bytes]) -> None:
        """Forget slots that are in the file now, and on the disk; see `write_slots`."""
        for index, data in slots.items():
            if self._noted.get(index) == data:
                del self._noted[index]

    def stored(self) -> Iterator[Slot]:
        """Yield every slot that was ever used."""
        for _, data in self._slots():
            yield decode_slot(data)

    def placed(self) -> Iterator[tuple[int, Slot]]:
        """Yield every slot that was ever used, with its place among them."""
        for index, data in self._slots():
            yield index, decode_slot(data)

    def _slots(self) -> Iterator[tuple[int, bytes]]:
        yield from self._changed.items()
        if self._open() < 0:
            return
        at = 0
        while (found := self._files.next_data(self._fd, at)) is not None and found < WHEEL_BYTES:
            at = found - found % SLOT_BYTES
            data = self._read(at, STEP_BYTES)
            if not data:
                return
            for page in range(0, len(data), PAGE_BYTES):
                if data[page : page + PAGE_BYTES] == _EMPTY_PAGE:  # a file that was copied is dense
                    continue
                for place in range(page, min(page + PAGE_BYTES, len(data)), SLOT_BYTES):
                    slot = data[place : place + SLOT_BYTES]
                    index = (at + place) // SLOT_BYTES
                    whole = len(slot) == SLOT_BYTES
                    if whole and slot != _EMPTY and index not in self._changed:
                        yield index, slot
            at += len(data)

    def _read(self, at: int, count: int) -> bytes:
        if self._fd < 0 and self._open() < 0:
            return b""
        return read_pages(self._files, self._fd, self._path, count, at)

    def _open(self) -> int:
        if self._fd < 0:
            try:
                self._fd = self._files.open(self._path, write=False)
            except FileNotFoundError:
                return -1
        return self._fd

    def remove(self) -> None:
        """Remove the file: what is put from now on is all there is."""
        self.close()
        self._files.remove(self._path)
        self._changed, self._noted = {}, {}

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1


def write_slots(files: Files, path: Path, slots: Mapping[int, bytes]) -> None:
    """Write slots into the wheel's file, which is made when it is missing, and sync it."""
    fd = files.open(path, create=True)
    try:
        if files.size(path) != WHEEL_BYTES:
            files.resize(fd, WHEEL_BYTES)
        for index, data in slots.items():
            write_pages(files, fd, path, data, index * SLOT_BYTES)
        files.sync(fd)
    finally:
        files.close(fd)
