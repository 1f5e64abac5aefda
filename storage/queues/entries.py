"""The entries of one queue as they are read: the newest from memory, the others from its files."""

import errno
import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aerobee.remoting.message.layout import BLANK_SIZE, ENTRY_FIELDS
from aerobee.storage.disk.residency import PAGE_BYTES, copied_bytes
from aerobee.storage.layout import ENTRY_BYTES, FileSpan, file_name, file_spans
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.files import BLANK_ENTRY, ENTRY
from aerobee.storage.queues.snapshot import QueueSnapshot

OLD_MAPS_MAX: Final = 4  # files of one queue that stay mapped for readers far behind

BLANKS_AT_ONCE: Final = 1024
ENTRIES_AT_ONCE: Final = 65_536
NEIGHBOURS: Final = (1, 2, 33)  # the last one lies outside of a sector that is damaged
_NOWHERE: Final = (0, -1)
_TWO: Final = struct.Struct(">" + 2 * ENTRY.format[1:])
_SIZE: Final = ENTRY_FIELDS.pick("size")

NO_TAIL: Final = bytearray()
"""The `buffer` of a queue that has no entries in memory."""


class QueueEntries:
    """Entries `min_offset` to `max_offset - 1`; offsets count messages from 0.

    Those from `base` on are in `buffer`; the files have all entries but the newest, as many as
    `written` says, which is never below `base`. Maps of files are counted in a pool, which may
    have them let go at any time; they are opened again by need.
    """

    __slots__ = (
        "_file_entries",
        "_files",
        "_folder",
        "_maps",
        "_pool",
        "_touched",
        "base",
        "batched",
        "buffer",
        "lost",
        "max_offset",
        "min_offset",
        "queue_id",
        "topic",
        "written",
    )

    def __init__(
        self, access: QueueAccess, directory: Path | str, topic: str, queue_id: int
    ) -> None:
        self._files = access.files
        self._folder = str(directory)  # a Path takes half a kilobyte, and queues may be many
        self._file_entries = access.file_entries
        self._maps: dict[int, mmap.mmap] = {}  # the one that was used last stands last
        self._pool = access.pool
        self._touched = _NOWHERE  # map and page that `entry` has looked at last
        self.topic = topic
        self.queue_id = queue_id
        self.buffer: bytearray = NO_TAIL
        self.base = 0
        self.written = 0
        self.batched = False  # whether messages may share a record (queue.type=BatchCQ)
        self.lost = False  # somebody has removed or replaced a file: what it had is not to be read
        self.min_offset = 0
        self.max_offset = 0

    @property
    def file_bytes(self) -> int:
        """The size of each file."""
        return self._file_entries * ENTRY_BYTES

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return Path(self._folder)

    def spans(self) -> list[FileSpan]:
        """List the files, oldest first."""
        return file_spans(self._folder)

    def _path(self, base: int) -> Path:
        return Path(f"{self._folder}/{file_name(base * ENTRY_BYTES)}")

    def entry(self, offset: int) -> tuple[int, int, int]:
        """Return (position, record size, tags code); OSError where the disk does not give it.

        A page of a file is asked for before it is touched for the first time in a row of looks.
        """
        buffer, at, _ = self.run(offset, 1)
        if buffer is not self.buffer:
            page = id(buffer), at // PAGE_BYTES
            if page != self._touched or (at + ENTRY_BYTES - 1) // PAGE_BYTES != page[1]:
                self.copied(offset, 1)
                self._touched = page
        return ENTRY.unpack_from(buffer, at)

    def copied(self, offset: int, count: int) -> bytes:
        """Copy entries, up to a file's end; OSError where the disk does not give them."""
        base, count = self._stretch(offset, count)
        if offset >= self.base:
            at = (offset - self.base) * ENTRY_BYTES
            return bytes(self.buffer[at : at + count * ENTRY_BYTES])
        self._see_file(base)
        at = (offset - base) * ENTRY_BYTES
        if (buffer := self._maps.get(base)) is not None:
            data = copied_bytes(buffer, at, count * ENTRY_BYTES)
        else:
            data = self._read(base, at, count * ENTRY_BYTES)
        if data is None:
            raise OSError(errno.EIO, f"entry {offset} cannot be read", str(self._path(base)))
        return data

    def _read(self, base: int, at: int, count: int) -> bytes | None:
        """Read from the file that begins with an entry, None where the disk does not give it."""
        fd = self._files.open(self._path(base), write=False)
        try:
            data = self._files.read(fd, count, at)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return None
        finally:
            self._files.close(fd)
        if len(data) < count:
            raise _lost_its_end(self._path(base), at + len(data))
        return data

    def place_of(self, offset: int) -> tuple[int, int]:
        """Return (position, record size) of one entry; OSError where the disk does not give it."""
        position, size, _ = ENTRY.unpack(self.copied(offset, 1))
        return position, size

    def run(self, offset: int, count: int) -> tuple[mmap.mmap | bytearray, int, int]:
        """Return (buffer, byte place, entries there), at most `count` and up to a file's end.

        Of those in a file, also up to where memory has them. OSError where an older file is gone or
        shorter than what was written to it.
        """
        base, count = self._stretch(offset, count)
        if offset >= self.base:
            return self.buffer, (offset - self.base) * ENTRY_BYTES, count
        self._see_file(base)
        at = (offset - base) * ENTRY_BYTES
        buffer = self._map(base)
        if at + count * ENTRY_BYTES > len(buffer):
            raise _lost_its_end(self._path(base), len(buffer))
        return buffer, at, count

    def _stretch(self, offset: int, count: int) -> tuple[int, int]:
        """Return with which entry the file of an offset begins, and how many are in one place."""
        if not 0 <= offset < self.max_offset:
            raise IndexError(f"{self.topic}-{self.queue_id} has no entry {offset}")
        base = offset // self._file_entries * self._file_entries
        end = self.max_offset if offset >= self.base else self.base
        return base, min(count, end - offset, base + self._file_entries - offset)

    def _see_file(self, base: int) -> None:
        if self.lost:
            raise lost_file(self._path(base))

    def snapshot(self) -> QueueSnapshot:
        """Return what another thread needs to read the entries: the files, and what they lack."""
        at = (self.written - self.base) * ENTRY_BYTES
        return QueueSnapshot(
            self.directory,
            self._file_entries,
            self.min_offset,
            self.max_offset,
            bytes(self.buffer[at : (self.max_offset - self.base) * ENTRY_BYTES]),
        )

    def _map(self, base: int) -> mmap.mmap:
        """Map a file for reading."""
        if (buffer := self._maps.pop(base, None)) is not None:
            self._maps[base] = buffer
            return buffer
        path = self._path(base)
        fd = self._files.open(path, write=False)
        try:
            buffer = self._files.map(fd, min(self.file_bytes, self._files.size(path)), write=False)
        finally:
            self._files.close(fd)
        if len(self._maps) >= OLD_MAPS_MAX:  # the least recently used one is let go
            del self._maps[next(iter(self._maps))]
        self._maps[base] = buffer
        self._pool.used(self, len(self._maps))
        return buffer

    def let_go(self) -> None:
        """Close every map; reading opens them again."""
        self._maps.clear()
        self._touched = _NOWHERE
        self._pool.used(self, 0)

    def _last(self) -> tuple[int, int, int]:
        at = (self.max_offset - 1 - self.base) * ENTRY_BYTES
        return ENTRY.unpack_from(self.buffer, at) if at >= 0 else self.entry(self.max_offset - 1)

    def end_position(self) -> int:
        """Return one past the last byte of the newest message, 0 in an empty queue."""
        if self.max_offset <= self.min_offset:
            return 0
        position, size, _ = self._last()
        return 0 if size == BLANK_SIZE else position + size

    def first_from(self, position: int) -> int:
        """Return the first offset whose message starts at a position of the log or behind it."""
        if self._ends_before(position, 0):
            return self.max_offset
        return self._first(lambda begin, size: begin >= position)

    def first_behind(self, position: int) -> int:
        """Return the first offset whose message ends behind a position of the log."""
        if self._ends_before(position + 1, 1):
            return self.max_offset
        return self._first(lambda begin, size: begin + size > position, late=True)

    def _ends_before(self, position: int, ends: int) -> bool:
        """Whether the last two messages start, or with 1 end, before a position: so do all others.

        Where there are no two, or they do not rise, nothing is said.
        """
        low = self.max_offset - 2
        if low < self.min_offset:
            return False
        if low >= self.base:
            begin, size, _, last, last_size, _ = _TWO.unpack_from(
                self.buffer, (low - self.base) * ENTRY_BYTES
            )
        else:
            begin, size, _ = self.entry(low)
            last, last_size, _ = self.entry(low + 1)
        if not (0 < size < BLANK_SIZE and 0 < last_size < BLANK_SIZE and 0 <= begin < last):
            return False
        return bool(last + ends * last_size < position)

    def _first(self, behind: Callable[[Any, Any], Any], *, late: bool = False) -> int:
        """Return the first offset that is behind, by halves; never that of a blank entry.

        The neighbours of what is found have to agree, next to it and a sector away: else an entry
        is damaged, and the place is the one that fewest entries contradict: the first such, so that
        the fewest count as too old, or the last (`late`), so that the fewest are cut off.
        """
        low, high = self.min_offset, self.max_offset
        while low < high:
            known = middle = (low + high) // 2
            place = self.place_of(middle)
            if place[1] == BLANK_SIZE:
                known = self.after_blanks(middle, high)
                place = self.entry(known)[:2] if known < high else place
            if known == high or behind(*place):
                high = middle
            else:
                low = known + 1
        for step in NEIGHBOURS:
            for offset, expected in ((low - step, False), (low + step - 1, True)):
                if self.min_offset <= offset < self.max_offset:
                    position, size = self.place_of(offset)
                    if size <= 0 or (size != BLANK_SIZE and behind(position, size) != expected):
                        found = self._least_contradicted(behind, late=late)
                        return self.after_blanks(found, self.max_offset)
        return self.after_blanks(low, self.max_offset)

    def _least_contradicted(self, behind: Callable[[Any, Any], Any], *, late: bool) -> int:
        """Return the offset at which the fewest entries are on the wrong side; looks at all."""
        import numpy as np  # costs 100 ms

        from aerobee.storage.queues.bulk_check import read_entries

        balance, least, found = 0, 0, self.min_offset
        for low in range(self.min_offset, self.max_offset, ENTRIES_AT_ONCE):
            rows = read_entries(self, low, min(low + ENTRIES_AT_ONCE, self.max_offset))
            size = rows["size"].astype(np.int64)
            side = np.where(behind(rows["position"].astype(np.int64), size), 1, -1)
            side[(size <= 0) | (size == BLANK_SIZE)] = 0
            balances = balance + np.cumsum(side)
            lowest = int(balances.min())
            if lowest < least or (late and lowest == least):
                indexes = np.flatnonzero(balances == lowest)
                least, found = lowest, low + int(indexes[-1 if late else 0]) + 1
            balance = int(balances[-1])
        return found

    def after_blanks(self, offset: int, high: int) -> int:
        """Return the first offset from there on, and below `high`, that is no blank; or `high`."""
        while offset < high:
            data = self.copied(offset, min(high - offset, BLANKS_AT_ONCE))
            count = len(data) // ENTRY_BYTES
            if _SIZE.unpack_from(data)[0] != BLANK_SIZE:
                return offset
            if data != BLANK_ENTRY * count:
                count = 1
            offset += count
        return high

    def last_position(self) -> int:
        """Return where the newest message starts, -1 in an empty queue."""
        if self.max_offset <= self.min_offset:
            return -1
        position, size, _ = self._last()
        return -1 if size == BLANK_SIZE else position


def lost_file(path: Path) -> OSError:
    """Say that a file is not there, or not the one that was written to."""
    return FileNotFoundError(errno.ENOENT, "the file with its entries is lost", str(path))


def _lost_its_end(path: Path, at: int) -> OSError:
    words = f"the file has lost its end: nothing from byte {at} on can be read"
    return OSError(errno.EIO, words, str(path))
