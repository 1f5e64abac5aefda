"""The files of one queue: what is written to them, and what the disk has of that."""

import errno
from contextlib import suppress
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.entries import QueueEntries
from aerobee.storage.queues.files import BLANK_ENTRY, ENTRY, SCAN_ENTRIES, remove_behind

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
        """Write what the files lack. OSError: they may have a part of it, and it is kept."""
        first, end = self.written, self.max_offset
        if first >= end or self.gone or not self._write:
            return
        base = first // self._file_entries * self._file_entries
        begin, until = (first - self.base) * ENTRY_BYTES, (end - self.base) * ENTRY_BYTES
        data = bytes(self.buffer[begin:until])
        fd = self._files.open(self._made_path) if self._made == base else self._make(base)
        try:
            self._files.write(fd, data, (first - base) * ENTRY_BYTES)
        finally:
            self._files.close(fd)
        self.written = end

    def _make(self, base: int) -> int:
        """Open the file that starts with entry `base`, which may have to be made, in full size.

        Where that fails the queue is as it was. FileNotFoundError for one that had entries.
        """
        path, first = self._path(base), self.written
        self._files.make_directory(path.parent)
        if first == base:  # of an earlier life, or an end that was lost
            remove_behind(self._files, self.spans(), base)
        fresh = not path.exists()
        if fresh and first > max(base, self.min_offset):
            raise FileNotFoundError(errno.ENOENT, "the file with its entries is lost", str(path))
        fd = self._files.open(path, create=True)
        try:
            self._files.resize(fd, self.file_bytes)
            if fresh and first > base:  # a queue whose older messages are gone
                self._files.write(fd, BLANK_ENTRY * (first - base), 0)
            if not fresh:  # what a power loss has left behind the end must not go on there
                at = (first - base) * ENTRY_BYTES
                self._files.clear(fd, at, self.file_bytes - at)
        except OSError:
            if fresh:  # the next try must find it fresh again, or the blanks would be missing
                with suppress(OSError):
                    self._files.remove(path)
            self._files.close(fd)
            raise
        if fresh or self.flushed_offset <= base:
            self.unnamed = True
        self._made, self._made_path = base, path
        return fd

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
                if size <= 0 or position < 0 or (size != BLANK_SIZE and position <= last):
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
