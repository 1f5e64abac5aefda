"""One queue's ConsumeQueue files, read as one array of entries that is numbered by offset.

An entry is 20 bytes: log position (8), record size (4), tag hash (8). A file's name is the
position in bytes of its first entry, so entry number and queue offset are the same. Entries
ascend in the log; before the first there may be blank ones, as in place of messages that a broker
could not recover; behind the last one stand zeros. Source:
ConsumeQueue of RocketMQ 5.5.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, Self

import numpy as np

from aerobee.remoting.message.layout import BLANK_SIZE, ENTRY_FIELDS
from aerobee.spark.at_rest import disk
from aerobee.spark.errors import StoreUnreadable
from aerobee.spark.records.layout import Ints, Mask
from aerobee.storage.layout import is_file_name

ENTRY_BYTES = ENTRY_FIELDS.size
NOWHERE = np.iinfo(np.int64).max
ENTRY = np.dtype(ENTRY_FIELDS.columns())
Entries = np.ndarray[Any, np.dtype[np.void]]

_HEAD = ENTRY_FIELDS.run("position", "size")
_BLANKS_READ = 4096
_FIRST_STEP = 64  # entries; most queues are short, or wanted from their beginning
_PAGE_ENTRIES = 204  # of a file that are read together: most queues have no more


def firsts(positions: Ints, before: int = -1) -> Mask:
    """Which of some entries in a row lead to another record than the one before them.

    Those of the messages of a batch are all alike. `before` is the position in front of the first.
    """
    found: Mask = np.diff(positions, prepend=before) != 0
    return found


class ConsumeQueueFiles:
    """The entries of one queue; a file that the broker deletes meanwhile reads as no entries.

    `first` is the number of the first entry that a file has room for, `end` the number behind
    the last. Files are opened when they are needed, and closed by the context manager. Positions
    that were looked at stay as they were: what a broker adds, another object sees. What is there
    and cannot be read raises StoreUnreadable.
    """

    def __init__(self, queue_dir: str) -> None:
        try:
            names = list(filter(is_file_name, disk.names(queue_dir)))
        except OSError as error:
            disk.check_absent(error, queue_dir)
            names = []
        self._dir = queue_dir
        self._names = names
        self._bases = [int(name) // ENTRY_BYTES for name in names]
        self._fds: dict[int, int | None] = {}
        self._pages: dict[int, bytes] = {}  # the beginnings of files
        self._blank_to: dict[int, int] = {}  # of files: before which number all are blank
        self.first = self._bases[0] if names else 0
        self.end = self.first
        if names and (fd := self._fd(len(names) - 1)) is not None:
            self.end = self._bases[-1] + disk.size(fd) // ENTRY_BYTES

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._fds.values():
            if fd is not None:
                disk.close(fd)
        self._fds = {}

    def position(self, at: int) -> int:
        """The log position in entry `at`; -1 for a blank one, NOWHERE where none was written."""
        file = bisect_right(self._bases, at) - 1
        if file < 0:
            return -1 if self._bases else NOWHERE
        within = at - self._bases[file]
        page = self._pages.get(file) if within < _PAGE_ENTRIES else None
        if page is None:
            if (fd := self._fd(file)) is None:
                # retention took it: earlier than all
                return -1 if file < len(self._bases) - 1 else NOWHERE
            if within < _PAGE_ENTRIES:
                page = self._pages[file] = self._bytes(fd, _PAGE_ENTRIES * ENTRY_BYTES, 0)
            else:
                page, within = self._bytes(fd, _HEAD.size, within * ENTRY_BYTES), 0
        if len(page) < within * ENTRY_BYTES + _HEAD.size:
            return NOWHERE
        position, size = _HEAD.unpack_from(page, within * ENTRY_BYTES)
        if size <= 0:
            return NOWHERE
        return -1 if size == BLANK_SIZE else int(position)

    def file_of(self, at: int) -> tuple[str, int] | None:
        """The path of the file that has room for entry `at`, and the number of its first entry."""
        file = bisect_right(self._bases, at) - 1
        if file < 0 or (file == len(self._bases) - 1 and at >= self.end):
            return None
        return f"{self._dir}/{self._names[file]}", self._bases[file]

    def first_from(self, position: int) -> int:
        """The number of the first entry at log position `position` or behind it."""
        # the last file that starts before it, then ever larger steps inside: few reads for the
        # many queues that are short
        file = bisect_left(range(len(self._bases)), position, key=self._file_position) - 1
        if file < 0:
            return self.first
        low = self._bases[file]
        limit = self._bases[file + 1] if file + 1 < len(self._bases) else self.end
        step = _FIRST_STEP
        while low + step < limit and self.last_position(low + step) < position:
            low, step = low + step, step * 4
        high = min(low + step, limit)
        found = low + bisect_left(range(low, high), position, key=self.last_position)
        return self._past_blanks(found) if self.position(found) < 0 else found

    def last_position(self, at: int) -> int:
        """The position in an entry, or in the last one before it in its file that is not blank.

        These ascend; -1 where there is none.
        """
        there = self.position(at)
        if there >= 0:
            return there
        file = bisect_right(self._bases, at) - 1
        base = self._bases[file] if file >= 0 else at
        high = at
        while high > max(base, self._blank_to.get(file, base)):
            low = max(base, high - _BLANKS_READ)
            part = self.read(low, high)
            good = np.flatnonzero(part["size"] != BLANK_SIZE)
            if len(good):
                return int(part["position"][good[-1]])
            high = low
        self._blank_to[file] = max(at, self._blank_to.get(file, base))
        return -1

    def bounds(self, log_start: int, log_end: int) -> tuple[int, int]:
        """The offsets of the messages whose records lie in [log_start, log_end) of the log."""
        start = self.first_from(log_start)
        return start, max(start, self.first_from(log_end))

    def end_before(self, log_end: int) -> int:
        """The log position behind the last record that starts before `log_end`, 0 without one."""
        at = self.first_from(log_end) - 1
        if at < self.first or not 0 <= (position := self.position(at)) < log_end:
            return 0
        return position + int(self.read(at, at + 1)["size"][0])

    def between(self, low: int, high: int) -> Ints:
        """The log positions of all entries in [low, high)."""
        entries = self.read(self.first_from(low), self.first_from(high))
        there = (entries["size"] > 0) & (entries["size"] != BLANK_SIZE)
        positions: Ints = entries["position"][there].astype(np.int64)
        return positions[(positions >= low) & (positions < high)]

    def read(self, low: int, high: int) -> Entries:
        """The entries from number `low` up to `high`, fewer where a file is missing."""
        parts = []
        while low < high:
            file = bisect_right(self._bases, low) - 1
            fd = self._fd(file) if file >= 0 else None
            if fd is None:
                break
            later = self._bases[file + 1] if file + 1 < len(self._bases) else self.end
            count = min(high, later) - low
            if count <= 0:
                break
            at = (low - self._bases[file]) * ENTRY_BYTES
            data = self._bytes(fd, count * ENTRY_BYTES, at)
            part = np.frombuffer(data, ENTRY, len(data) // ENTRY_BYTES)
            parts.append(part)
            if len(part) < count:
                break
            low += count
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, ENTRY)

    def _file_position(self, file: int) -> int:
        """The first position in a file, or in the next one that has any; these ascend.

        What is blank in the first file is before all others.
        """
        there = self.position(self._bases[file])
        return self.position(self._past_blanks(self._bases[file])) if file and there < 0 else there

    def _past_blanks(self, at: int) -> int:
        """The first entry from a number on that is not blank, or the end."""
        while at < self.end:
            part = self.read(at, min(self.end, at + _BLANKS_READ))
            good = np.flatnonzero(part["size"] != BLANK_SIZE)
            if len(good):
                return at + int(good[0])
            if not len(part):
                break
            at += len(part)
        return at

    def _bytes(self, fd: int, length: int, at: int) -> bytes:
        try:
            return disk.read(fd, length, at)
        except OSError as error:
            raise StoreUnreadable(f"cannot read {self._dir}: {error.strerror}") from error

    def _fd(self, file: int) -> int | None:
        if file not in self._fds:
            path = f"{self._dir}/{self._names[file]}"
            try:
                self._fds[file] = disk.open_file(path)
            except OSError as error:
                disk.check_absent(error, path)
                self._fds[file] = None
        return self._fds[file]
