"""Looks records and entries up in the files alone, for threads that may wait for the disk."""

from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import ENTRY_BYTES, file_name
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.queues.snapshot import QueueSnapshot
from aerobee.storage.reads.cold.fetching import read_whole


class FileLookup:
    """The log and the queues as they were committed when this was made; see search.Lookup.

    What was removed since is not found. Raises OSError where the disk refuses, and for a file that
    has lost its end.
    """

    def __init__(self, files: Files, log: LogSnapshot, queues: Path, file_entries: int) -> None:
        self._files = files
        self._log = log
        self._queues = queues
        self._file_entries = file_entries

    def read(self, position: int, count: int) -> bytes:
        """Copy up to `count` committed bytes of one file; safe for any position."""
        log = self._log
        if not log.begin <= position < log.end:
            return b""
        if log.damage is not None and log.damage.at(position) is not None:
            return b""
        path, base = log.file(position)
        count = min(count, log.end - position, base + log.file_bytes - position)
        return self._pread(path, position - base, count)

    def entry_of(self, topic: str, queue_id: int, offset: int) -> tuple[int, int] | None:
        """Return what an entry names; a topic that cannot be a folder's name has none."""
        if not topic or "/" in topic or "\0" in topic or topic in (".", "..") or offset < 0:
            return None
        data = self._entry(self._queues / topic / str(queue_id), self._file_entries, offset)
        return ENTRY.unpack(data)[:2] if len(data) == ENTRY_BYTES else None

    def entries(self, queue: QueueSnapshot) -> "FileEntries":
        """Return the entries of one queue."""
        return FileEntries(self, queue)

    def _entry(self, folder: Path, file_entries: int, offset: int, count: int = 1) -> bytes:
        base = offset // file_entries * file_entries
        path = folder / file_name(base * ENTRY_BYTES)
        return self._pread(path, (offset - base) * ENTRY_BYTES, count * ENTRY_BYTES)

    def _pread(self, path: Path, at: int, count: int) -> bytes:
        try:
            fd = self._files.open(path, write=False)
        except FileNotFoundError:
            return b""
        try:
            return read_whole(self._files, fd, count, at, path)
        finally:
            self._files.close(fd)


class FileEntries:
    """One queue's entries, read from its files; as much of QueueEntries as a search needs."""

    def __init__(self, lookup: FileLookup, queue: QueueSnapshot) -> None:
        self._lookup = lookup
        self._queue = queue
        self.min_offset = queue.min_offset
        self.max_offset = queue.max_offset

    def run(self, offset: int, count: int) -> bytes:
        """Return entries from one on: up to so many, as many as are in one file or in memory."""
        queue = self._queue
        if (at := offset - queue.in_files) >= 0:
            return queue.tail[at * ENTRY_BYTES : (at + count) * ENTRY_BYTES]
        count = min(count, -at, queue.file_entries - offset % queue.file_entries)
        return self._lookup._entry(queue.folder, queue.file_entries, offset, count)

    def entry(self, offset: int) -> tuple[int, int, int]:
        """Return (position, record size, tags code), (0, 0, 0) of an entry that is gone."""
        queue = self._queue
        if (at := offset - queue.in_files) >= 0:
            data = queue.tail[at * ENTRY_BYTES : (at + 1) * ENTRY_BYTES]
        else:
            data = self._lookup._entry(queue.folder, queue.file_entries, offset)
        found: tuple[int, int, int] = ENTRY.unpack(data.ljust(ENTRY_BYTES, b"\0"))
        return found
