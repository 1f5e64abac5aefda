"""The files of one queue: what is written to them, and what the disk has of that."""

import errno
from contextlib import suppress
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.entries import QueueEntries, lost_file
from aerobee.storage.queues.files import (
    BLANK_ENTRY,
    ENTRY,
    SCAN_ENTRIES,
    open_made,
    remove_behind,
)

_UNMADE: Final = -1
_NO_PATH: Final = Path()


class WrittenQueue(QueueEntries):
    """A queue whose newest entries are written to its files, and from there reach the disk.

    Files are open only meanwhile. `flushed_offset` is up to where the disk has the entries.
    """

    __slots__ = (
        "_access",
        "_made",
        "_made_path",
        "_write",
        "dropped_from",
        "flushed_offset",
        "gone",
        "unnamed",
    )

    def __init__(
        self, access: QueueAccess, directory: Path | str, topic: str, queue_id: int
    ) -> None:
        super().__init__(access, directory, topic, queue_id)
        self._access = access
        self._write = access.write
        self._made = _UNMADE  # the first entry of the file that is there to be written
        self._made_path = _NO_PATH
        self.flushed_offset = 0
        self.gone = False  # its topic was deleted: it has no files, and gets none
        self.unnamed = False  # whether the disk may not have the name of a file
        self.dropped_from: int | None = None  # a failed sync may have dropped entries from there on

    def write_out(self) -> None:
        """Write what the files lack. OSError: they may have a part of it, and it is kept.

        FileNotFoundError: somebody has removed the file, or put another in its place.
        """
        while self.written < self.max_offset and self._write and not self.gone:
            self._write_to_one_file()

    def _write_to_one_file(self) -> None:
        first = self.written
        base = first // self._file_entries * self._file_entries
        end = min(self.max_offset, base + self._file_entries)
        self._see_file(base)
        begin, until = (first - self.base) * ENTRY_BYTES, (end - self.base) * ENTRY_BYTES
        data = bytes(self.buffer[begin:until])
        fd = self._open_made(base) if self._made == base else self._make(base)
        try:
            self._look_before(fd, base)
            self._files.write(fd, data, (first - base) * ENTRY_BYTES)
        finally:
            self._files.close(fd)
        self.written = end

    def file_to_make(self) -> Path | None:
        """The file that the next entry goes to, where nothing has been written to it yet.

        Whoever has made it with `open_made` before spares `write_out` the disk's time for that.
        """
        base = self.written // self._file_entries * self._file_entries
        if self._made == base or self.written > max(base, self.min_offset):
            return None
        return self._path(base)

    def _open_made(self, base: int) -> int:
        try:
            return self._files.open(self._made_path)
        except FileNotFoundError:
            self._forget_file()
            return self._make(base)

    def _make(self, base: int) -> int:
        """Open the file that starts with entry `base`, which may have to be made, in full size.

        Where that fails the queue is as it was.
        """
        path, first = self._path(base), self.written
        fresh = not path.exists()
        if fresh and first > max(base, self.min_offset):
            raise lost_file(path)
        if first == base:  # of an earlier life, or an end that was lost
            remove_behind(self._files, self.spans(), base + 1)
        try:
            fd = open_made(self._files, path, self.file_bytes)
            try:  # what a power loss has left behind the end must not go on there
                at = (first - base) * ENTRY_BYTES
                self._files.clear(fd, at, self.file_bytes - at)
                if base < first <= self.min_offset and not any(self._entry_before(fd, base)):
                    self._files.write(fd, BLANK_ENTRY * (first - base), 0)  # of older messages
            except OSError:
                self._files.close(fd)
                raise
        except OSError:
            if fresh:
                with suppress(OSError):
                    self._files.remove(path)
            raise
        if self.flushed_offset <= max(base, self.min_offset):
            self.unnamed = True
        self._made, self._made_path = base, path
        return fd

    def _look_before(self, fd: int, base: int) -> None:
        """See that the file has what was written to it last."""
        first = self.written
        if first == base:
            return
        before = self._entry_before(fd, base)
        at = (first - 1 - self.base) * ENTRY_BYTES
        known = self.buffer[at : at + ENTRY_BYTES] if at >= 0 else before
        if before != known or not any(before):
            raise lost_file(self._path(base))

    def _entry_before(self, fd: int, base: int) -> bytes:
        return self._files.read(fd, ENTRY_BYTES, (self.written - 1 - base) * ENTRY_BYTES)

    def _erase(self, offset: int, end: int) -> None:
        for span in self.spans():
            begin = span.begin // ENTRY_BYTES
            if begin >= offset and begin > 0:
                self._files.remove(span.path)
                self._made = _UNMADE
            elif begin + self._file_entries > offset:
                fd = self._files.open(span.path)
                try:
                    count = min(end, begin + self._file_entries) - offset
                    self._files.write(
                        fd, bytes(count * ENTRY_BYTES), offset * ENTRY_BYTES - span.begin
                    )
                finally:
                    self._files.close(fd)

    def begin_sync(self, offset: int) -> list[int]:
        """Take entries below `offset` as synced; return the first entries of the files to sync.

        The caller opens, syncs and closes them, and calls `distrust` where that fails. OSError:
        nothing has changed.
        """
        self.write_dropped()
        self.write_out()
        first = max(self.flushed_offset, self.min_offset) // self._file_entries
        last = (offset - 1) // self._file_entries
        self.flushed_offset = offset
        return [number * self._file_entries for number in range(first, last + 1)]

    def take_name(self) -> str | None:
        """Return the folder to sync, and those above: that of a file need not bring its name."""
        unnamed, self.unnamed = self.unnamed, False
        return self._folder if unnamed else None

    def open_file(self, base: int) -> int:
        """Open the file that starts with an entry, for the caller to close."""
        return self._files.open(self._made_path if self._made == base else self._path(base))

    def write_anew(self, offset: int) -> bool:
        """Write the entries from `offset` on once more, after a sync of them has failed.

        The kernel may have dropped what it could not write, and a later sync would say nothing of
        that. False: it has, so that they are no longer what they were. What memory has is written
        from there.
        """
        last = -1
        end = min(self.base, self.written)
        self.written = max(end, min(self.written, offset))
        while offset < end:
            base = offset // self._file_entries * self._file_entries
            count = min(SCAN_ENTRIES, end - offset, base + self._file_entries - offset)
            at = (offset - base) * ENTRY_BYTES
            fd = self._files.open(self._path(base))
            try:
                data = self._files.read(fd, count * ENTRY_BYTES, at)
                self._files.write(fd, data, at)
            finally:
                self._files.close(fd)
            for position, size, _ in ENTRY.iter_unpack(data):
                if (
                    size <= 0
                    or position < 0
                    or (size != BLANK_SIZE and position + self.batched <= last)
                ):
                    return False
                last = last if size == BLANK_SIZE else position
            offset += count
        self.write_out()
        return True

    def write_dropped(self) -> None:
        """Write anew what a failed sync may have dropped; OSError: it cannot be, or is lost."""
        if self.dropped_from is not None:
            if not self.write_anew(self.dropped_from):
                raise OSError(
                    errno.EIO, "entries were lost by a failed sync: restart", self._folder
                )
            self.dropped_from = None

    def _write_entry(self, offset: int, entry: bytes) -> None:
        """Put an entry that the files have right, durably."""
        base = offset // self._file_entries * self._file_entries
        fd = self._files.open(self._path(base))
        try:
            self._files.write(fd, entry, (offset - base) * ENTRY_BYTES)
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _forget_file(self) -> None:
        """Look for the file anew before the next entry is written to it."""
        self._made, self._made_path = _UNMADE, _NO_PATH
