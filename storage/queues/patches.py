"""Entries that are written into the middle of a queue, or before its first file, many at once."""

from pathlib import Path
from typing import NamedTuple

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.disk.files import Files
from aerobee.storage.layout import ENTRY_BYTES, file_name
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.files import BLANK_ENTRY, ENTRY


class Entry(NamedTuple):
    """Where a message is, its size and its tags code."""

    position: int
    size: int
    tags_code: int


class Patches:
    """Collects entries below the end of their queues until they are written."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._entries: dict[ConsumeQueue, dict[int, Entry]] = {}

    def put(self, queue: ConsumeQueue, offset: int, entry: Entry) -> None:
        """Let the queue have that entry from `write` on."""
        self._entries.setdefault(queue, {})[offset] = entry

    def write(self) -> None:
        """Write what was collected, durably; files that are missing are made, blank elsewhere."""
        for queue, entries in self._entries.items():
            queue.close()
            file_entries = queue.file_bytes // ENTRY_BYTES
            lowest = min(entries)
            base = lowest // file_entries * file_entries
            while base < queue.max_offset:
                path = queue.directory / file_name(base * ENTRY_BYTES)
                if not path.exists():
                    make_blank(self._files, path, file_entries)
                mine = sorted(at for at in entries if base <= at < base + file_entries)
                if mine:
                    self._write_file(path, base, mine, entries)
                base += file_entries
            queue.min_offset = min(queue.min_offset, lowest)
        self._entries.clear()

    def end(self, queue: ConsumeQueue, offset: int) -> None:
        """Cut a queue off, to go on there: its file has the entry before it, or it counts as lost.

        What was collected for offsets behind would be written over what comes there now.
        """
        if offset >= queue.max_offset:
            return
        self.write()
        if queue.min_offset < offset and queue.entry(offset - 1)[1] <= 0:
            self.put(queue, offset - 1, Entry(0, BLANK_SIZE, 0))
            self.write()
        queue.truncate(offset)

    def _write_file(
        self, path: Path, base: int, offsets: list[int], entries: dict[int, Entry]
    ) -> None:
        fd = self._files.open(path)
        try:
            begin = 0
            for index, offset in enumerate(offsets, 1):
                if index == len(offsets) or offsets[index] != offset + 1:
                    run = offsets[begin:index]
                    data = b"".join(ENTRY.pack(*entries[each]) for each in run)
                    self._files.write(fd, data, (run[0] - base) * ENTRY_BYTES)
                    begin = index
            self._files.sync(fd)
        finally:
            self._files.close(fd)


def make_blank(files: Files, path: Path, file_entries: int) -> None:
    """Make a queue file of nothing but blank entries: one step, as seen by who reads the folder."""
    fresh = path.with_name(f"{path.name}.tmp")
    files.make_directory(path.parent)
    files.remove(fresh)
    fd = files.open(fresh, create=True)
    try:
        files.write(fd, BLANK_ENTRY * file_entries, 0)
        files.sync(fd)
    finally:
        files.close(fd)
    files.replace(fresh, path)
    files.sync_directory(path.parent)
