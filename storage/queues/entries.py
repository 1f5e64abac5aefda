"""The entries of one queue as they are read, through maps of its files."""

import errno
import mmap
from collections import OrderedDict
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
_SIZE: Final = ENTRY_FIELDS.pick("size")

NO_BUFFER: Final = mmap.mmap(-1, ENTRY_BYTES)
"""The `buffer` of a queue that has no file open to be written."""


class QueueEntries:
    """Entries `min_offset` to `max_offset - 1`; offsets count messages from 0.

    `buffer` is the map of the file that begins with entry `base` and is open to be written. Maps
    are counted in a pool, which may have them let go at any time; they are opened again by need.
    """

    __slots__ = (
        "_directory",
        "_file_entries",
        "_files",
        "_maps",
        "_pool",
        "_touched",
        "base",
        "buffer",
        "max_offset",
        "min_offset",
        "queue_id",
        "topic",
    )

    def __init__(self, access: QueueAccess, directory: Path, topic: str, queue_id: int) -> None:
        self._files = access.files
        self._directory = directory
        self._file_entries = access.file_entries
        self._maps: OrderedDict[int, mmap.mmap] = OrderedDict()
        self._pool = access.pool
        self._touched = (0, -1)  # map and page that `entry` has looked at last
        self.topic = topic
        self.queue_id = queue_id
        self.buffer: mmap.mmap = NO_BUFFER
        self.base = 0
        self.min_offset = 0
        self.max_offset = 0

    @property
    def file_bytes(self) -> int:
        """The size of each file."""
        return self._file_entries * ENTRY_BYTES

    @property
    def is_open(self) -> bool:
        """Whether a file is open to be written, which its map alone keeps open."""
        return self.buffer is not NO_BUFFER

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._directory

    def spans(self) -> list[FileSpan]:
        """List the files, oldest first."""
        return file_spans(self._directory)

    def _path(self, base: int) -> Path:
        return self._directory / file_name(base * ENTRY_BYTES)

    def entry(self, offset: int) -> tuple[int, int, int]:
        """Return (position, record size, tags code); OSError where the disk does not give it.

        A page is asked for before it is touched for the first time in a row of looks, unless it is
        the one that the last append has written.
        """
        buffer, at, _ = self.run(offset, 1)
        newest = (self.max_offset - 1 - self.base) * ENTRY_BYTES
        if buffer is not self.buffer or at // PAGE_BYTES != newest // PAGE_BYTES:
            page = id(buffer), at // PAGE_BYTES
            if page != self._touched or (at + ENTRY_BYTES - 1) // PAGE_BYTES != page[1]:
                self.copied(offset, 1)
                self._touched = page
        return ENTRY.unpack_from(buffer, at)

    def copied(self, offset: int, count: int) -> bytes:
        """Copy entries, up to a file's end; OSError where the disk does not give them."""
        buffer, at, count = self.run(offset, count)
        data = copied_bytes(buffer, at, count * ENTRY_BYTES)
        if data is None:
            path = self._path(offset // self._file_entries * self._file_entries)
            raise OSError(errno.EIO, f"entry {offset} cannot be read", str(path))
        return data

    def place_of(self, offset: int) -> tuple[int, int]:
        """Return (position, record size) of one entry; OSError where the disk does not give it."""
        position, size, _ = ENTRY.unpack(self.copied(offset, 1))
        return position, size

    def run(self, offset: int, count: int) -> tuple[mmap.mmap, int, int]:
        """Return (buffer, byte place, entries there), at most `count` and up to a file's end.

        OSError where an older file is gone or shorter than what was written to it.
        """
        if not 0 <= offset < self.max_offset:
            raise IndexError(f"{self.topic}-{self.queue_id} has no entry {offset}")
        base = offset // self._file_entries * self._file_entries
        count = min(count, self.max_offset - offset, base + self._file_entries - offset)
        at = (offset - base) * ENTRY_BYTES
        if base == self.base and self.is_open:
            return self.buffer, at, count
        buffer = self._map(base)
        if at + count * ENTRY_BYTES > len(buffer):
            words = f"the file has lost its end: nothing from byte {len(buffer)} on can be read"
            raise OSError(errno.EIO, words, str(self._path(base)))
        return buffer, at, count

    def snapshot(self) -> QueueSnapshot:
        """Return where the files are, for reading them in another thread."""
        return QueueSnapshot(self._directory, self._file_entries, self.min_offset, self.max_offset)

    def _map(self, base: int) -> mmap.mmap:
        """Map an older file for reading."""
        if (buffer := self._maps.get(base)) is not None:
            self._maps.move_to_end(base)
            return buffer
        path = self._path(base)
        fd = self._files.open(path, write=False)
        try:
            buffer = self._files.map(fd, min(self.file_bytes, self._files.size(path)), write=False)
        finally:
            self._files.close(fd)
        self._keep(base, buffer)
        return buffer

    def _keep(self, base: int, buffer: mmap.mmap) -> None:
        """Keep a map that was made; the least recently used one is let go."""
        self._maps[base] = buffer
        self._maps.move_to_end(base)
        while len(self._maps) > OLD_MAPS_MAX:
            oldest = next(iter(self._maps))
            if oldest == self.base and self.is_open:
                self._maps.move_to_end(oldest)
                continue
            del self._maps[oldest]
        self._pool.used(self, len(self._maps))

    def let_go(self) -> None:
        """Close every map; reading opens them again."""
        self._maps.clear()
        self._touched = (0, -1)
        self.buffer = NO_BUFFER
        self.base = 0
        self._pool.used(self, 0)

    def end_position(self) -> int:
        """Return one past the last byte of the newest message, 0 in an empty queue."""
        if self.max_offset <= self.min_offset:
            return 0
        position, size, _ = self.entry(self.max_offset - 1)
        return 0 if size == BLANK_SIZE else position + size

    def first_from(self, position: int) -> int:
        """Return the first offset whose message starts at a position of the log or behind it."""
        return self._first(lambda begin, size: begin >= position)

    def first_behind(self, position: int) -> int:
        """Return the first offset whose message ends behind a position of the log."""
        return self._first(lambda begin, size: begin + size > position, late=True)

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
        position, size, _ = self.entry(self.max_offset - 1)
        return -1 if size == BLANK_SIZE else position
