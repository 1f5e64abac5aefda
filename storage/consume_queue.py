"""One queue of one topic: 20-byte entries that say where its messages lie in the log.

An entry is `position i64 · record size i32 · tags code i64`, big-endian (ConsumeQueue.java). The
queue is derived data: recovery can write it again from the log.
"""

import errno
import logging
import mmap
import struct
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aerobee.remoting.record import MAGIC_V1, MAGIC_V2
from aerobee.storage.errors import LogFull, LogUnavailable
from aerobee.storage.files import Files
from aerobee.storage.layout import ENTRY_BYTES, FileSpan, file_name, file_spans
from aerobee.storage.queue_files import BLANK_ENTRY, BLANK_SIZE, ENTRY, check_spans, find_end

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

log = logging.getLogger(__name__)

FIRST_STEP_ENTRIES: Final = 816  # 16 KiB of disk for a queue that sees few messages
STEP_ENTRIES_MAX: Final = 12_288  # 240 KiB, prepared in some 50 microseconds
OLD_MAPS_MAX: Final = 4  # files of one queue that stay mapped for readers far behind

_NO_BUFFER: Final = mmap.mmap(-1, ENTRY_BYTES)


class ConsumeQueue:
    """Entries `min_offset` to `max_offset - 1` of one queue; offsets count messages from 0.

    `pack_entry`, `buffer`, `base` and `limit` are there for CommitLog.append: entry number
    `max_offset` may be packed into `buffer` at `(max_offset - base) * 20` while it is below
    `limit`; then `extend` must be called. No file exists before the first message.
    """

    __slots__ = (
        "_directory",
        "_fd",
        "_file_entries",
        "_files",
        "_maps",
        "_step",
        "_write",
        "base",
        "buffer",
        "flushed_offset",
        "limit",
        "magic",
        "max_offset",
        "min_offset",
        "pack_entry",
        "prefix",
        "queue_id",
        "rolled_fds",
        "topic",
        "unsynced",
    )

    def __init__(
        self,
        files: Files,
        directory: Path,
        topic: str,
        queue_id: int,
        file_entries: int,
        *,
        write: bool = True,
    ) -> None:
        self._files = files
        self._directory = directory
        self._file_entries = file_entries
        self._write = write
        self._fd = -1
        self.rolled_fds: list[int] = []  # full files that the flusher has yet to sync and close
        self._maps: OrderedDict[int, mmap.mmap] = OrderedDict()
        self._step = FIRST_STEP_ENTRIES
        self.topic = topic
        self.queue_id = queue_id
        name = topic.encode()
        if len(topic) > 127:  # the length no longer fits a signed byte
            self.magic = MAGIC_V2
            self.prefix = struct.pack(">h", len(name)) + name
        else:
            self.magic = MAGIC_V1
            self.prefix = struct.pack(">B", len(name)) + name
        self.pack_entry = ENTRY.pack_into
        self.buffer: mmap.mmap = _NO_BUFFER
        self.base = 0
        self.limit = 0
        self.min_offset = 0
        self.max_offset = 0
        self.flushed_offset = 0
        self.unsynced = False  # whether files of an earlier process may not be on the disk

    @property
    def file_bytes(self) -> int:
        """The size of each file."""
        return self._file_entries * ENTRY_BYTES

    @property
    def fd(self) -> int:
        """The number of the file that is written, -1 before the first message."""
        return self._fd

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._directory

    def spans(self) -> list[FileSpan]:
        """List the files, oldest first."""
        return file_spans(self._directory)

    def load(self, known_offset: int = 0) -> None:
        """Find the end; everything below `known_offset` is taken as sound.

        A last file that is too short was cut off by a crash while it was made: it gets its size
        back, and what is missing is found missing later. Any other wrong size is an error.
        """
        spans = self.spans()
        if not spans:
            return
        check_spans(spans, self.file_bytes)
        if spans[-1].size < self.file_bytes and self._write:
            log.warning("queue_file_short file=%s bytes=%d", spans[-1].path, spans[-1].size)
            self._set_size(spans[-1].path)
        first = spans[0].begin // ENTRY_BYTES
        begin = max(first, min(known_offset, (spans[-1].begin + spans[-1].size) // ENTRY_BYTES))
        if known_offset <= first:  # nothing is known: the last files, as Java looks at three
            begin = spans[max(0, len(spans) - 3)].begin // ENTRY_BYTES
        self.max_offset = self.limit = find_end(self._files, spans, begin)
        self.min_offset = first
        self.flushed_offset = self.max_offset

    def _set_size(self, path: Path) -> None:
        fd = self._files.open(path)
        try:
            self._files.resize(fd, self.file_bytes)
        finally:
            self._files.close(fd)

    def extend(self) -> None:
        """Make room for more entries: prepared disk space, a further file where one is full.

        Errors: LogFull when the disk refuses, LogUnavailable on any other failure.
        """
        if not self._write:
            raise LogUnavailable("the message is refused: the store is open for reading only")
        offset = self.max_offset
        base = offset // self._file_entries * self._file_entries
        count = min(self._step, base + self._file_entries - offset)
        try:
            if self._fd < 0 or base != self.base:
                self._open_tail(base)
            self._files.prepare(self._fd, (offset - base) * ENTRY_BYTES, count * ENTRY_BYTES)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise LogFull(f"the message is refused: no space for its queue: {error}") from error
            raise LogUnavailable(f"the message is refused: its queue: {error}") from error
        self.limit = offset + count
        self._step = min(self._step * 4, STEP_ENTRIES_MAX)

    def _open_tail(self, base: int) -> None:
        """Open or make the file that starts with entry `base` and write to it from then on."""
        path = self._directory / file_name(base * ENTRY_BYTES)
        if self._fd < 0:
            self._files.make_directory(self._directory)
        fresh = not path.exists()
        fd = self._files.open(path, create=True)
        try:
            if self._fd < 0 and fd >= self._files.queue_files_end:
                if fresh:
                    self._files.remove(path)
                raise OSError(
                    errno.EMFILE,
                    f"{fd} files are open, the rest is for connections and the log;"
                    " raise the limit of open files (ulimit -n)",
                )
            self._files.resize(fd, self.file_bytes)
            if fresh and self.max_offset > base:  # a queue whose older messages are gone
                self._files.write(fd, BLANK_ENTRY * (self.max_offset - base), 0)
            buffer = self._files.map(fd, self.file_bytes, write=True)
        except OSError:
            self._files.close(fd)
            raise
        if self._fd >= 0:
            self.rolled_fds.append(self._fd)
            self._fd = -1
        self.close(rolled=False)
        self._fd, self.base, self.buffer = fd, base, buffer
        self._maps[base] = buffer

    def entry(self, offset: int) -> tuple[int, int, int]:
        """Return (position, record size, tags code) of one entry."""
        buffer, at, _ = self.run(offset, 1)
        return ENTRY.unpack_from(buffer, at)

    def run(self, offset: int, count: int) -> tuple[mmap.mmap, int, int]:
        """Return (buffer, byte place, entries there), at most `count` and up to a file's end."""
        if not 0 <= offset < self.max_offset:
            raise IndexError(f"{self.topic}-{self.queue_id} has no entry {offset}")
        base = offset // self._file_entries * self._file_entries
        buffer = self.buffer if base == self.base and self._fd >= 0 else self._map(base)
        count = min(count, self.max_offset - offset, base + self._file_entries - offset)
        return buffer, (offset - base) * ENTRY_BYTES, count

    def tags(self, offset: int, count: int) -> "npt.NDArray[np.int64]":
        """Return the tags codes of entries of one file as a strided view, big-endian int64."""
        import numpy as np  # costs 100 ms, and most brokers never filter that deep

        buffer, at, count = self.run(offset, count)
        return np.ndarray((count,), ">i8", buffer, at + 12, (ENTRY_BYTES,))

    def _map(self, base: int) -> mmap.mmap:
        """Map an older file for reading; the least recently used one is let go."""
        if (buffer := self._maps.get(base)) is not None:
            self._maps.move_to_end(base)
            return buffer
        path = self._directory / file_name(base * ENTRY_BYTES)
        fd = self._files.open(path, write=False)
        try:
            buffer = self._files.map(fd, min(self.file_bytes, self._files.size(path)), write=False)
        finally:
            self._files.close(fd)
        self._maps[base] = buffer
        while len(self._maps) > OLD_MAPS_MAX:
            oldest = next(iter(self._maps))
            if oldest == self.base and self._fd >= 0:
                self._maps.move_to_end(oldest)
                continue
            del self._maps[oldest]
        return buffer

    def put(self, offset: int, position: int, size: int, tags_code: int) -> None:
        """Write the entry of a message that is in the log: append it, mend it, or leave it.

        For recovery and for copies of a log; see dispatch.py for offsets that leave a gap.
        """
        if offset == self.max_offset:
            if offset >= self.limit:
                self.extend()
            ENTRY.pack_into(
                self.buffer, (offset - self.base) * ENTRY_BYTES, position, size, tags_code
            )
            self.max_offset = offset + 1
        elif self.entry(offset) != (position, size, tags_code):
            base = offset // self._file_entries * self._file_entries
            fd = self._files.open(self._directory / file_name(base * ENTRY_BYTES))
            try:
                entry = ENTRY.pack(position, size, tags_code)
                self._files.write(fd, entry, (offset - base) * ENTRY_BYTES)
                self._files.sync(fd)
            finally:
                self._files.close(fd)

    def start_at(self, offset: int) -> None:
        """Let an empty queue begin at `offset`; what was in its first file before becomes blank."""
        self.min_offset = self.max_offset = self.limit = self.flushed_offset = offset

    def truncate(self, offset: int) -> None:
        """Forget the entries from `offset` on; the next ones are written over zeroed space."""
        old_max = self.max_offset
        if offset >= old_max:
            return
        self.close()
        if self._write:
            self._erase(offset, old_max)
        self.max_offset = self.limit = offset
        self.min_offset = min(self.min_offset, offset)
        self.flushed_offset = min(self.flushed_offset, offset)
        self._step = FIRST_STEP_ENTRIES

    def _erase(self, offset: int, old_max: int) -> None:
        for span in self.spans():
            begin = span.begin // ENTRY_BYTES
            if begin >= offset and begin > 0:
                self._files.remove(span.path)
            elif begin + self._file_entries > offset:
                fd = self._files.open(span.path)
                try:
                    count = min(old_max, begin + self._file_entries) - offset
                    self._files.write(
                        fd, bytes(count * ENTRY_BYTES), offset * ENTRY_BYTES - span.begin
                    )
                finally:
                    self._files.close(fd)

    def end_position(self) -> int:
        """Return one past the last byte of the newest message, 0 in an empty queue."""
        if self.max_offset <= self.min_offset:
            return 0
        position, size, _ = self.entry(self.max_offset - 1)
        return 0 if size == BLANK_SIZE else position + size

    def first_from(self, position: int) -> int:
        """Return the first offset whose message starts at a position of the log or behind it."""
        low, high = self.min_offset, self.max_offset
        while low < high:
            middle = (low + high) // 2
            begin, size, _ = self.entry(middle)
            if size == BLANK_SIZE or begin < position:
                low = middle + 1
            else:
                high = middle
        return low

    def first_behind(self, position: int) -> int:
        """Return the first offset whose message ends behind a position of the log."""
        low, high = self.min_offset, self.max_offset
        while low < high:
            middle = (low + high) // 2
            begin, size, _ = self.entry(middle)
            if size != BLANK_SIZE and begin + size > position:
                high = middle
            else:
                low = middle + 1
        return low

    def last_position(self) -> int:
        """Return where the newest message starts, -1 in an empty queue."""
        if self.max_offset <= self.min_offset:
            return -1
        position, size, _ = self.entry(self.max_offset - 1)
        return -1 if size == BLANK_SIZE else position

    def trim(self, log_begin: int) -> None:
        """Let `min_offset` be the first message that the log still has; drop files before it."""
        self.min_offset = low = self.first_from(log_begin)
        if not self._write:
            return
        for span in self.spans()[:-1]:
            if (span.begin + span.size) // ENTRY_BYTES > low:
                break
            self._maps.pop(span.begin // ENTRY_BYTES, None)
            self._files.remove(span.path)

    def distrust(self, offset: int) -> None:
        """Take what is behind `offset` as not yet on the disk: another process wrote it."""
        if offset < self.max_offset:
            self.flushed_offset = max(0, offset)
            self.unsynced = True

    def take_sync_fds(self) -> tuple[list[int], list[int]]:
        """Return the files to sync: those that stay open, and those to close afterwards."""
        done, self.rolled_fds = self.rolled_fds, []
        if self.unsynced:
            self.unsynced = False
            for span in self.spans():
                first = span.begin // ENTRY_BYTES
                open_already = self._fd >= 0 and first >= self.base
                if first + self._file_entries > self.flushed_offset and not open_already:
                    done.append(self._files.open(span.path))
        return [self._fd] if self._fd >= 0 else [], done

    def close(self, *, rolled: bool = True) -> None:
        """Close the files; the queue can be read, and extended, again."""
        self._maps.clear()
        self.buffer = _NO_BUFFER
        self.base = 0
        self.limit = min(self.limit, self.max_offset)
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1
        while rolled and self.rolled_fds:
            self._files.close(self.rolled_fds.pop())
