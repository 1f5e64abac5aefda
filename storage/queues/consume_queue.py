"""One queue of one topic: 20-byte entries that say where its messages lie in the log.

An entry is `position i64 · record size i32 · tags code i64`, big-endian (ConsumeQueue.java). The
queue is derived data: recovery can write it again from the log.
"""

import errno
import logging
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE, MAGIC_V1, MAGIC_V2
from aerobee.storage.errors import LogFull, LogUnavailable
from aerobee.storage.layout import ENTRY_BYTES, FileSpan, file_name
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.entries import NO_TAIL
from aerobee.storage.queues.files import ENTRY, check_spans, find_end, first_position
from aerobee.storage.queues.written_queue import WrittenQueue

log = logging.getLogger(__name__)

TAIL_ENTRIES_MIN: Final = 32
TAIL_ENTRIES_MAX: Final = 4096  # of a busy queue; half of them stay when the others are written
TAIL_GROWS: Final = 4  # times, where rounds do not come before half of it is filled
_PACK: Final = ENTRY.pack_into


class ConsumeQueue(WrittenQueue):
    """A queue that messages are appended to; QueueEntries is how it is read.

    `pack_entry`, `buffer`, `base` and `limit` are there for CommitLog.append: entry number
    `max_offset` may be packed into `buffer` at `(max_offset - base) * 20` while it is below
    `limit`; then `extend` must be called. What is packed is in memory alone until that is full, or
    a round writes it out: a process that is killed leaves it to recovery, which has the log.
    """

    __slots__ = (
        "born_at",
        "changed",
        "limit",
        "magic",
        "newest_file",
        "pack_entry",
        "prefix",
    )

    def __init__(
        self,
        access: QueueAccess,
        directory: Path | str,
        topic: str,
        queue_id: int,
        born_at: int = 0,
    ) -> None:
        super().__init__(access, directory, topic, queue_id)
        self.born_at = born_at  # of earlier positions are the messages of a topic that was deleted
        name = topic.encode()
        if len(topic) > 127:  # the length no longer fits a signed byte
            self.magic = MAGIC_V2
            self.prefix = struct.pack(">h", len(name)) + name
        else:
            self.magic = MAGIC_V1
            self.prefix = struct.pack(">B", len(name)) + name
        self.pack_entry = _PACK
        self.limit = 0
        self.changed = False  # since `settle`; then it is in the list of changes, too
        self.newest_file = 0  # its first entry, when the queue was loaded

    def load(self, known_offset: int = 0, *, stopped: bool = False) -> None:
        """Find the end; everything below `known_offset` is taken as sound.

        Of a store that was stopped a first file that is not full is the only one.
        A last file that is too short was cut off by a crash while it was made: it gets its size
        back, and what is missing is found missing later. Any other wrong size is an error.
        """
        if stopped and 0 < known_offset < self._file_entries and not self.born_at:
            span = self._first_span()
            if span is not None and self._find_end([span], known_offset) < self._file_entries:
                return
        spans = self.spans()
        if self.born_at:
            spans = self._without_earlier_life(spans)
        if spans:
            self._find_end(spans, known_offset)

    def _first_span(self) -> FileSpan | None:
        """Look at the file of the first entries alone; None where it is not whole."""
        name = f"{self._folder}/{file_name(0)}"
        with suppress(OSError):
            if self._files.size(name) == self.file_bytes:
                return FileSpan(name, 0, self.file_bytes)
        return None

    def _find_end(self, spans: list[FileSpan], known_offset: int) -> int:
        check_spans(spans, self.file_bytes)
        self.newest_file = spans[-1].begin // ENTRY_BYTES
        if spans[-1].size < self.file_bytes and self._write:
            log.warning("queue_file_short file=%s bytes=%d", spans[-1].path, spans[-1].size)
            self._set_size(spans[-1].path)
        first = spans[0].begin // ENTRY_BYTES
        begin = max(first, min(known_offset, (spans[-1].begin + spans[-1].size) // ENTRY_BYTES))
        if known_offset <= first:  # nothing is known: the last files, as Java looks at three
            begin = spans[max(0, len(spans) - 3)].begin // ENTRY_BYTES
        end, tail = find_end(self._files, spans, begin, self.born_at, batched=self.batched)
        while known_offset <= first < end == begin:  # they have none: the end is before them
            begin -= self._file_entries
            end, tail = find_end(self._files, spans, begin, self.born_at, batched=self.batched)
        self._end_at(end)
        self.min_offset, self.flushed_offset = first, end
        self.base, self.buffer = end - len(tail) // ENTRY_BYTES, bytearray(tail)
        return end

    def _end_at(self, offset: int) -> None:
        """Take the files as having all entries below an offset, and memory none."""
        self.max_offset = self.limit = self.written = self.base = offset
        self.buffer = NO_TAIL

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

    def extend(self, count: int = 1) -> None:
        """Make room for more entries in memory: what is there and not yet in its file is written.

        For `count` if that can be: there may be less at the end of a file, and in a queue that was
        not busy so far.

        The first append after `settle` comes here, too: that is how a change is noticed without a
        step of its own for each message. Errors: LogFull when the disk refuses, LogUnavailable on
        any other failure; then nothing is lost. Where a round was refused the next one has to
        succeed first.
        """
        if not self._write:
            raise LogUnavailable("the message is refused: the store is open for reading only")
        if (refused := self._access.refused) and (known := refused.get(self)) is not None:
            raise self.refusal(known) from known
        try:
            self._make_room(count)
        except OSError as error:
            raise self.refusal(error) from error
        self._note_room()

    def refusal(self, error: OSError, whose: str = "its") -> LogFull | LogUnavailable:
        """Say that a message is refused since a file of this queue cannot be made or written."""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        kind, what = (LogFull, "no space for ") if full else (LogUnavailable, "")
        advice = "make room on its disk" if full else "see what is the matter with the file"
        base = self.written // self._file_entries * self._file_entries
        path = self._path(base)
        named = "" if str(path) in str(error) else f": {'/'.join(path.parts[-4:])}"
        found = kind(
            f"the message is refused: {what}{whose} queue: {error}{named}; {advice}",
            path=path,
            need_bytes=(self.max_offset - self.written + TAIL_ENTRIES_MIN) * ENTRY_BYTES,
            queue=self,
        )
        found.__cause__ = error
        return found

    def _note_room(self) -> None:
        self.limit = self.base + len(self.buffer) // ENTRY_BYTES
        self.note_change()

    def _make_room(self, count: int) -> None:
        """Let the tail begin later, or be longer; it never reaches into the next file."""
        offset, base, room = self.max_offset, self.base, len(self.buffer) // ENTRY_BYTES
        if offset + count <= base + room:
            return
        first = offset // self._file_entries * self._file_entries
        waits = offset - self.written
        room = min(max(room, TAIL_ENTRIES_MIN), TAIL_ENTRIES_MAX)
        if 2 * waits >= room:  # rounds take less: it is a busy queue
            room = min(room * TAIL_GROWS, TAIL_ENTRIES_MAX)
        keep = max(base, first, offset - room // 2)
        if self.written < keep:
            self.write_out()
        self._put_tail(keep, room, first + self._file_entries)
        self._access.tails.used(self, len(self.buffer))

    def _put_tail(self, base: int, room: int, end: int) -> None:
        """Keep the entries from `base` on in memory with room for so many, none from `end` on."""
        begin, until = ((at - self.base) * ENTRY_BYTES for at in (base, self.max_offset))
        kept = self.buffer[begin:until]
        buffer = bytearray(min(room, end - base) * ENTRY_BYTES)
        buffer[: len(kept)] = kept
        self.base, self.buffer = base, buffer

    def let_tail_go(self) -> None:
        """Keep less in memory, as a queue does that sees few messages; not while the disk fails."""
        with suppress(OSError):
            self.write_out()
            keep = max(self.base, self.max_offset - TAIL_ENTRIES_MIN // 2)
            self._put_tail(keep, TAIL_ENTRIES_MIN, self.max_offset)
            self._access.tails.used(self, len(self.buffer))
            self.limit = self.max_offset

    def note_change(self) -> None:
        """Put the queue on the list of those that the next round of the flusher looks at."""
        if not self.changed:
            self.changed = True
            self._access.changes.append(self)

    def reserve(self) -> None:
        """See that there is room for one more entry; raises as `extend` does."""
        if self.max_offset >= self.limit:
            self.extend()

    def add(self, position: int, size: int, tags_code: int) -> None:
        """Have one more entry, for which `reserve` has seen room; in memory where that has gone."""
        offset = self.max_offset
        if offset >= self.limit:
            try:
                self.extend()
            except (LogFull, LogUnavailable):
                self._grow()
                self._note_room()
        _PACK(self.buffer, (offset - self.base) * ENTRY_BYTES, position, size, tags_code)
        self.max_offset = offset + 1

    def add_alike(self, count: int, position: int, size: int, tags_code: int) -> None:
        """Have that many more entries for one record; in memory where the files have no room."""
        entry = ENTRY.pack(position, size, tags_code)
        while count:
            if self.max_offset >= self.limit:
                try:
                    self.extend()
                except (LogFull, LogUnavailable):
                    self._grow()
                    self._note_room()
            alike = min(count, self.limit - self.max_offset)
            at = (self.max_offset - self.base) * ENTRY_BYTES
            self.buffer[at : at + alike * ENTRY_BYTES] = entry * alike
            self.max_offset += alike
            count -= alike

    def settle(self) -> None:
        """Take what there is as seen by the flusher: the next append is a change again."""
        self.changed = False
        self.limit = min(self.limit, self.max_offset)

    def put(self, offset: int, position: int, size: int, tags_code: int) -> None:
        """Write the entry of a message that is in the log: append it, mend it, or leave it.

        For recovery; see recovery/dispatch.py for offsets that leave a gap. Entries for which the
        disk has no room stay in memory, as many as there are.
        """
        if offset == self.max_offset:
            if offset >= self.limit:
                try:
                    self.extend()
                except LogFull:
                    self._grow()
                    self._note_room()
            _PACK(self.buffer, (offset - self.base) * ENTRY_BYTES, position, size, tags_code)
            self.max_offset = offset + 1
        elif self.entry(offset) != (position, size, tags_code):
            if offset >= self.base:
                _PACK(self.buffer, (offset - self.base) * ENTRY_BYTES, position, size, tags_code)
            if offset >= self.written:
                return
            self._write_entry(offset, ENTRY.pack(position, size, tags_code))

    def put_in_memory(self, offset: int, position: int, size: int, tags_code: int) -> None:
        """Have the entry of a message that is in the log, where nothing may be written."""
        assert offset == self.max_offset and not self._write
        if offset >= self.base + len(self.buffer) // ENTRY_BYTES:
            self._grow()
        _PACK(self.buffer, (offset - self.base) * ENTRY_BYTES, position, size, tags_code)
        self.max_offset = self.limit = offset + 1

    def _grow(self) -> None:
        """Have more room in memory, of which nothing can be written."""
        room = max(2 * len(self.buffer) // ENTRY_BYTES, TAIL_ENTRIES_MIN)
        self._put_tail(self.base, room, 1 << 62)
        self._access.tails.used(self, len(self.buffer))

    def start_at(self, offset: int) -> None:
        """Let an empty queue begin at `offset`; what was in its first file before becomes blank."""
        self._end_at(offset)
        self.min_offset = self.flushed_offset = offset
        self.note_change()

    def truncate(self, offset: int) -> None:
        """Forget the entries from `offset` on, in memory and in the files."""
        if offset >= self.max_offset:
            return
        self.let_go()
        if self._write and offset < self.written:
            self._erase(offset, self.written)
        self._forget_from(offset)
        self.min_offset = min(self.min_offset, offset)
        self.flushed_offset = min(self.flushed_offset, offset)
        self.note_change()

    def take_back(self, offset: int) -> None:
        """Forget entries that were appended since the last commit; OSError: the files have them."""
        try:
            if offset < self.written:
                self.truncate(offset)
        finally:
            if offset < self.max_offset:
                self._forget_from(offset)

    def _forget_from(self, offset: int) -> None:
        """End at an offset; what memory has before it stays."""
        if offset <= self.base:
            return self._end_at(offset)
        at = (offset - self.base) * ENTRY_BYTES
        self.buffer[at:] = bytes(len(self.buffer) - at)
        self.written = min(self.written, offset)
        self.max_offset = self.limit = offset

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

    def hide_before(self, position: int) -> None:
        """Let `min_offset` be the first message at a position of the log, or behind it.

        Its files stay, and so do entries that the disk may not have yet. OSError, and nothing has
        changed, where the disk does not give an entry.
        """
        if position and self.min_offset < self.flushed_offset:
            self.min_offset = min(self.first_from(position), self.flushed_offset)

    def distrust(self, offset: int) -> None:
        """Take what is behind `offset` as not yet on the disk: another process wrote it."""
        if offset < self.max_offset:
            self.flushed_offset = max(0, offset)
            self.unnamed = True
            self.note_change()

    def close(self) -> None:
        """Write out what is in memory and let go of it; the queue can be used again."""
        self.write_out()
        self.drop()

    def drop(self) -> None:
        """Let go of memory and maps as a killed process would: nothing is written."""
        self.let_go()
        self._access.tails.used(self, 0)
        self._end_at(self.written)
        self._forget_file()
