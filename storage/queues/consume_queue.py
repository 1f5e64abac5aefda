"""One queue of one topic: 20-byte entries that say where its messages lie in the log.

An entry is `position i64 · record size i32 · tags code i64`, big-endian (ConsumeQueue.java). The
queue is derived data: recovery can write it again from the log.
"""

import errno
import logging
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE, MAGIC_V1, MAGIC_V2
from aerobee.storage.errors import LogFull, LogUnavailable
from aerobee.storage.layout import ENTRY_BYTES, FileSpan
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.entries import QueueEntries
from aerobee.storage.queues.files import (
    BLANK_ENTRY,
    ENTRY,
    SCAN_ENTRIES,
    check_spans,
    find_end,
    first_position,
    remove_behind,
)

log = logging.getLogger(__name__)

FIRST_STEP_ENTRIES: Final = 816  # 16 KiB of disk for a queue that sees few messages
STEP_ENTRIES_MAX: Final = 12_288  # 240 KiB, prepared in some 50 microseconds


class ConsumeQueue(QueueEntries):
    """A queue that can be written; QueueEntries is how it is read.

    `pack_entry`, `buffer`, `base` and `limit` are there for CommitLog.append: entry number
    `max_offset` may be packed into `buffer` at `(max_offset - base) * 20` while it is below
    `limit`; then `extend` must be called. No file exists before the first message.
    """

    __slots__ = (
        "_changes",
        "_ready",
        "_step",
        "_write",
        "born_at",
        "changed",
        "dropped_from",
        "flushed_offset",
        "limit",
        "magic",
        "pack_entry",
        "prefix",
        "unnamed",
        "unsynced",
    )

    def __init__(
        self,
        access: QueueAccess,
        directory: Path,
        topic: str,
        queue_id: int,
        born_at: int = 0,
    ) -> None:
        super().__init__(access, directory, topic, queue_id)
        self.born_at = born_at  # of earlier positions are the messages of a topic that was deleted
        self._write = access.write
        self._changes = access.changes
        self._ready = 0  # up to there the open file is prepared; `limit` may be lower
        self._step = FIRST_STEP_ENTRIES
        name = topic.encode()
        if len(topic) > 127:  # the length no longer fits a signed byte
            self.magic = MAGIC_V2
            self.prefix = struct.pack(">h", len(name)) + name
        else:
            self.magic = MAGIC_V1
            self.prefix = struct.pack(">B", len(name)) + name
        self.pack_entry = ENTRY.pack_into
        self.limit = 0
        self.flushed_offset = 0
        self.changed = False  # since `settle`; then it is in the list of changes, too
        self.unsynced = False  # whether files that are not open may not be on the disk
        self.unnamed = False  # whether the disk may not have the name of a file
        self.dropped_from: int | None = None  # a failed sync may have dropped entries from there on

    def load(self, known_offset: int = 0) -> None:
        """Find the end; everything below `known_offset` is taken as sound.

        A last file that is too short was cut off by a crash while it was made: it gets its size
        back, and what is missing is found missing later. Any other wrong size is an error.
        """
        spans = self.spans()
        if self.born_at:
            spans = self._without_earlier_life(spans)
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
        self.max_offset = self.limit = find_end(self._files, spans, begin, self.born_at)
        self.min_offset = first
        self.flushed_offset = self.max_offset

    def _without_earlier_life(self, spans: list[FileSpan]) -> list[FileSpan]:
        """Remove files that outlived the deletion of their topic; return the others.

        A file never has entries of two lives.
        """
        kept = [s for s in spans if not 0 <= first_position(self._files, s) < self.born_at]
        for span in reversed(spans):
            if self._write and span not in kept:
                log.warning("queue_file_removed file=%s reason=its topic was deleted", span.path)
                self._files.remove(span.path)
        return kept

    def _set_size(self, path: Path) -> None:
        fd = self._files.open(path)
        try:
            self._files.resize(fd, self.file_bytes)
        finally:
            self._files.close(fd)

    def extend(self) -> None:
        """Make room for more entries: prepared disk space, a further file where one is full.

        The first append after `settle` comes here, too: that is how a change is noticed without a
        step of its own for each message. Errors: LogFull when the disk refuses, LogUnavailable on
        any other failure.
        """
        if not self._write:
            raise LogUnavailable("the message is refused: the store is open for reading only")
        offset = self.max_offset
        if offset >= self._ready or not self.is_open:
            try:
                self._prepare(offset)
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
                kind, what = (LogFull, "no space for its queue") if full else (
                    LogUnavailable, "its queue")  # fmt: skip
                base = offset // self._file_entries * self._file_entries
                raise kind(
                    f"the message is refused: {what}: {error}",
                    path=self._path(base),
                    need_bytes=self._step * ENTRY_BYTES,
                    queue=self,
                ) from error
        self.limit = self._ready
        self.note_change()

    def _prepare(self, offset: int) -> None:
        """Give the next entries disk space; the file is open only meanwhile, its map stays."""
        base = offset // self._file_entries * self._file_entries
        count = min(self._step, base + self._file_entries - offset)
        place = (offset - base) * ENTRY_BYTES, count * ENTRY_BYTES
        if offset < self._ready:  # its map was let go, that is all
            self._open_tail(base, 0, 0)
            return
        if self.is_open and base == self.base:
            fd = self._files.open(self._path(base))
            try:
                self._files.prepare(fd, *place)
            finally:
                self._files.close(fd)
        else:
            self._open_tail(base, *place)
        self._ready = offset + count
        self._step = min(self._step * 4, STEP_ENTRIES_MAX)

    def _open_tail(self, base: int, at: int, count: int) -> None:
        """Map, or make, the file that starts with entry `base`, to be written from then on.

        So many bytes of it are prepared. Where that fails the queue is as it was.
        """
        path = self._path(base)
        if not self.is_open:
            self._files.make_directory(self._directory)
        if count and self.max_offset == base:  # of an earlier life, or an end that was lost
            remove_behind(self._files, self.spans(), base)
        fresh = not path.exists()
        fd = self._files.open(path, create=True)
        try:
            self._files.resize(fd, self.file_bytes)
            if fresh and self.max_offset > base:  # a queue whose older messages are gone
                self._files.write(fd, BLANK_ENTRY * (self.max_offset - base), 0)
            if count:
                self._files.prepare(fd, at, count)
            buffer = self._files.map(fd, self.file_bytes, write=True)
        except OSError:
            if fresh:  # the next try must find it fresh again, or the blanks would be missing
                with suppress(OSError):
                    self._files.remove(path)
            raise
        finally:
            self._files.close(fd)
        if fresh or self.flushed_offset <= base:
            self.unnamed = True
        self._leave_tail()
        self.base, self.buffer = base, buffer
        self._keep(base, buffer)

    def note_change(self) -> None:
        """Put the queue on the list of those that the next round of the flusher looks at."""
        if not self.changed:
            self.changed = True
            self._changes.append(self)

    def settle(self) -> None:
        """Take what there is as seen by the flusher: the next append is a change again."""
        self.changed = False
        self.limit = min(self.limit, self.max_offset)

    def put(self, offset: int, position: int, size: int, tags_code: int) -> None:
        """Write the entry of a message that is in the log: append it, mend it, or leave it.

        For recovery and for copies of a log; see recovery/dispatch.py for offsets that leave a gap.
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
            fd = self._files.open(self._path(base))
            try:
                entry = ENTRY.pack(position, size, tags_code)
                self._files.write(fd, entry, (offset - base) * ENTRY_BYTES)
                self._files.sync(fd)
            finally:
                self._files.close(fd)

    def start_at(self, offset: int) -> None:
        """Let an empty queue begin at `offset`; what was in its first file before becomes blank."""
        self.min_offset = self.max_offset = self.limit = self.flushed_offset = offset
        self.note_change()

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
        self.note_change()

    def take_back(self, offset: int) -> None:
        """Forget entries that were appended since the last commit; OSError: the files have them."""
        if self.is_open and offset >= self.base:  # the space stays, which a full disk may need
            begin, end = ((at - self.base) * ENTRY_BYTES for at in (offset, self.max_offset))
            self.buffer[begin:end] = bytes(end - begin)
            self.max_offset = offset
            return
        try:
            self.truncate(offset)
        finally:
            self.max_offset = self.limit = min(offset, self.max_offset)

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

    def trim(self, log_begin: int) -> None:
        """Let `min_offset` be the first message that the log still has; drop files before it.

        OSError, and nothing has changed, where the disk does not give an entry.
        """
        if self.min_offset < self.max_offset:
            position, size = self.place_of(self.min_offset)
            if size != BLANK_SIZE and position >= log_begin:
                return
        if log_begin > 0:
            low = self.first_from(log_begin)
        else:  # nothing has ever been too old
            low = self.after_blanks(self.min_offset, self.max_offset)
        self.min_offset = low
        if not self._write:
            return
        for span in self.spans()[:-1]:
            if (span.begin + span.size) // ENTRY_BYTES > low:
                break
            if self._maps.pop(span.begin // ENTRY_BYTES, None) is not None:
                self._pool.used(self, len(self._maps))
            self._files.remove(span.path)

    def distrust(self, offset: int) -> None:
        """Take what is behind `offset` as not yet on the disk: another process wrote it."""
        if offset < self.max_offset:
            self.flushed_offset = max(0, offset)
            self.unsynced = self.unnamed = True
            self.note_change()

    def begin_sync(self, offset: int) -> list[int]:
        """Take entries below `offset` as synced; return the first entries of the files to sync.

        The caller opens, syncs and closes them, and calls `distrust` where that fails. OSError:
        nothing has changed.
        """
        self.write_dropped()
        bases = [self.base] if self.is_open else []
        if self.unsynced:
            firsts = (span.begin // ENTRY_BYTES for span in self.spans())
            bases = [base for base in firsts if base + self._file_entries > self.flushed_offset]
        self.unsynced = False
        self.flushed_offset = offset
        return bases

    def take_names(self) -> Sequence[Path]:
        """Return the directories to sync: a sync of a file need not bring its name to the disk."""
        unnamed, self.unnamed = self.unnamed, False
        return (self._directory, *self._directory.parents[:3]) if unnamed else ()

    def open_file(self, base: int) -> int:
        """Open the file that starts with an entry, for the caller to close."""
        return self._files.open(self._path(base))

    def write_anew(self, offset: int) -> bool:
        """Write the entries from `offset` on once more, after a sync of them has failed.

        The kernel may have dropped what it could not write, and a later sync would say nothing of
        that. False: it has, so that they are no longer what they were.
        """
        last = -1
        while offset < self.max_offset:
            base = offset // self._file_entries * self._file_entries
            count = min(SCAN_ENTRIES, self.max_offset - offset, base + self._file_entries - offset)
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
        return True

    def write_dropped(self) -> None:
        """Write anew what a failed sync may have dropped; OSError: it cannot be, or is lost."""
        if self.dropped_from is not None:
            if not self.write_anew(self.dropped_from):
                raise OSError(
                    errno.EIO, "entries were lost by a failed sync: restart", self._directory
                )
            self.dropped_from = None

    def _leave_tail(self) -> None:
        """Remember that the file which was written until now has to be synced by its name."""
        if self.is_open and self.flushed_offset < self.max_offset:
            self.unsynced = True

    def let_go(self) -> None:
        """Close every map; reading opens them again, and the next append comes to `extend`."""
        self._leave_tail()
        self.limit = min(self.limit, self.max_offset)
        super().let_go()

    def close(self) -> None:
        """Close the files and forget what is prepared; the queue can be used again."""
        self.let_go()
        self._ready = 0
