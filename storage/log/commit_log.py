"""The log: every message of every topic, one behind the other, appended in memory, committed once.

`append` is called for each message and only packs; `commit` is called once per turn of the owner's
loop and stores everything packed so far with one copy. Between the two a message is in no file, so
nobody may be answered, and nobody may read, before `commit`.
"""

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from isal.isal_zlib import crc32

from aerobee.remoting.message.layout import (
    AROUND_BYTES,
    BLANK_MAGIC,
    ENTRY_FIELDS,
    HOSTS_BYTES,
    RECORD_SHAPES,
)
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX
from aerobee.remoting.message.record import BLANK
from aerobee.storage.errors import AppendRefused, LogBusy, LogFull, LogUnavailable, MessageTooLarge
from aerobee.storage.log.allocator import Allocator
from aerobee.storage.log.segment import Segment
from aerobee.storage.log.segments import Segments
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.queue_tail import QueueTail
from aerobee.storage.settings import StoreSettings

if TYPE_CHECKING:
    from aerobee.storage.log.damage import DamageTable

log = logging.getLogger(__name__)

RESTART: Final = "check the disk, then restart the broker: the start finds out what the log has"
"""What to do after a failed write or sync: what is in memory is believed no more."""

BLANK_BYTES: Final = BLANK.size
ENTRY_BYTES: Final = ENTRY_FIELDS.size

HEADS: Final = {
    HOSTS_BYTES[bits]: fields.lumped("born_host", "prepared_transaction_offset")
    .run(last="body_bytes")
    .pack
    for bits, fields in RECORD_SHAPES.items()
}
"""Everything in front of the body, by the length of `hosts`."""


class _Lengths(dict[int, bytes]):
    """The packed length of a property string, made when first needed."""

    def __missing__(self, length: int) -> bytes:
        if length > PROPERTIES_BYTES_MAX:
            raise MessageTooLarge(
                f"the properties have {length} bytes, at most {PROPERTIES_BYTES_MAX} are allowed"
            )
        packed = self[length] = struct.pack(">h", length)
        return packed


_LENGTHS: Final = _Lengths()


class CommitLog:
    """Appends to the last file, rolls to the next; all positions are bytes from the log's start.

    Invariants: flushed_position <= committed <= position; nothing is ever stored beyond `_limit`,
    which is where prepared space ends, or the room for a closing blank begins.
    """

    def __init__(self, segments: Segments, allocator: Allocator, settings: StoreSettings) -> None:
        self._segments = segments
        self._allocator = allocator
        self._settings = settings
        self._parts: list[bytes | memoryview] = []
        self._add = self._parts.extend
        self.body_bytes_max = settings.message_bytes_max  # more where the log has larger ones
        self._tail: Segment | None = None
        self._limit = -1  # nothing may be appended before `start`
        self._refusal: str | None = "the store is not open"
        self._disk_full = False
        self._queue_refusal: Callable[[], AppendRefused] | None = None
        self.position = 0
        self.committed = 0
        self.flushed_position = 0
        self.unclean = False  # log or queues end in leftovers that only recovery clears
        self.damage: DamageTable | None = None  # None for a log that is whole
        self.losses = 0  # failed commits: what was appended before each of them is in no file
        self.note: Callable[[int], None] = lambda position: None  # called after every commit
        self.on_packed: Callable[[bytes, int], object] | None = None  # hears of packed records
        self.on_lost: Callable[[int], None] = lambda position: None  # what lies behind is no more
        allocator.on_progress = self._set_limit

    @property
    def begin(self) -> int:
        """The position of the oldest byte kept."""
        return self._segments.begin

    @property
    def writable(self) -> bool:
        """Whether an append has a chance."""
        return self._refusal is None and not self._disk_full

    @property
    def refusal(self) -> str | None:
        """Why appends are refused, None while they are not."""
        if self._refusal is None and self._disk_full:
            return "the disk is fuller than allowed"
        return self._refusal

    def start(self, position: int) -> None:
        """Begin to append at `position`, behind which everything is prepared, or will be.

        How much of what lies before is on the disk has been told before: see Flusher.start.
        """
        self.position = self.committed = position
        if (tail := self._segments.find(position)) is not None:
            self._write_to(tail)  # where there is no number for it, the start is tried again
        self._refusal = None
        self._set_limit()

    def place(self, position: int) -> None:
        """Say where a log ends that is only read."""
        self.position = self.committed = self.flushed_position = position

    def refuse(self, reason: str) -> None:
        """Take no more messages, for good; reads go on."""
        self._refusal = reason
        self._set_limit()

    def set_disk_full(self, full: bool) -> None:
        """Refuse messages while the disk is fuller than allowed."""
        if full != self._disk_full:
            self._disk_full = full
            self._set_limit()

    def refuse_for_queues(self, refusal: Callable[[], AppendRefused] | None) -> None:
        """Refuse messages for want of room for their queues, until told None."""
        self._queue_refusal = refusal
        self._set_limit()

    def append(
        self,
        queue: QueueTail,
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        hosts: bytes,
        body: bytes | memoryview,
        properties: bytes,
        tags_code: int,
    ) -> int:
        """Add one message to the log and its queue; return its position.

        `hosts` is the packed born host, store timestamp (ms), store host, reconsume times and
        prepared transaction offset; the IPv6 bits of `sys_flag` must fit it. The queue offset given
        is `queue.max_offset - 1` afterwards. Errors: LogBusy, LogFull, LogUnavailable,
        MessageTooLarge; then nothing has changed. Source: CommitLog.asyncPutMessage.
        """
        offset = queue.max_offset
        if offset >= queue.limit:
            queue.extend()
        body_bytes, hosts_bytes, properties_bytes = len(body), len(hosts), len(properties)
        prefix = queue.prefix
        size = AROUND_BYTES + hosts_bytes + body_bytes + len(prefix) + properties_bytes
        position = self.position
        end = position + size
        if end > self._limit or body_bytes > self.body_bytes_max:
            position = self._make_room(size, body_bytes)
            end = position + size
        self._add(
            (
                HEADS[hosts_bytes](
                    size,
                    queue.magic,
                    crc32(body) & 0x7FFF_FFFF,
                    queue.queue_id,
                    flag,
                    offset,
                    position,
                    sys_flag,
                    born_timestamp,
                    hosts,
                    body_bytes,
                ),
                body,
                prefix,
                _LENGTHS[properties_bytes],
                properties,
            )
        )
        queue.pack_entry(
            queue.buffer, (offset - queue.base) * ENTRY_BYTES, position, size, tags_code
        )
        queue.max_offset = offset + 1
        self.position = end
        return position

    @property
    def limit(self) -> int:
        """How far records may reach that are appended without asking for room; -1: nowhere."""
        return self._limit

    def append_packed(self, records: bytes) -> None:
        """Add records that compiled code has packed as `append` does, their queues' entries, too.

        They start at `position` and end at `limit` at most, else the log is destroyed.
        """
        self._parts.append(records)
        self.position += len(records)
        if self.on_packed is not None:
            self.on_packed(records, self.position - len(records))

    def require(self, count: int) -> None:
        """Raise as `append` would unless `count` bytes of records can be appended right away."""
        if self.position + count > self._limit:
            self._make_room(count, 0)

    def mark(self) -> tuple[int, int]:
        """Return what `take_back` needs to undo the appends that follow."""
        return self.position, len(self._parts)

    def take_back(self, mark: tuple[int, int], queue: QueueTail, offset: int) -> None:
        """Undo every append since `mark`, all of them to one queue that ended at `offset`.

        For use before the next commit, after `require` has said that there is room.
        """
        position, parts = mark
        assert self.committed <= position, "what is in the log stays there"
        del self._parts[parts:]
        self.position = position
        try:
            queue.take_back(offset)
        except OSError as error:  # they would come to point at other messages
            log.error("queue_not_cut queue=%s error=%s advice=%r", queue.directory, error, RESTART)
            self.refuse(f"a queue's entries could not be taken back: {error}; restart the broker")
            self.unclean = True

    def commit(self) -> None:
        """Store everything appended so far; free when nothing is. LogUnavailable: it is lost."""
        if not self._parts:
            return
        parts = self._parts.copy()
        self._parts.clear()
        tail = self._tail
        assert tail is not None
        try:
            tail.write_parts(self.committed, parts, self.position - self.committed)
        except OSError as error:
            self._lost(error)
        self.committed = self.position
        self.note(self.position)
        if self.position >= self._allocator.ask_at:
            self._allocator.want(self.position)

    def view(self, position: int, count: int) -> memoryview | None:
        """Return committed bytes of one file as memory, None where the log does not have them."""
        segment = self._segments.find(position)
        if segment is None or position + count > min(self.committed, segment.end):
            return None
        if self.damage is not None and self.damage.touches(position, position + count):
            return None
        at = position - segment.base
        return segment.view[at : at + count]

    def snapshot(self) -> LogSnapshot:
        """Return where the files are and how far they may be read, for another thread."""
        segments, damage = self._segments, self.damage
        return LogSnapshot(
            segments.directory, segments.begin, self.committed, segments.segment_bytes,
            damage.frozen() if damage is not None else None,
        )  # fmt: skip

    def file_at(self, position: int) -> tuple[memoryview, int, int] | None:
        """Return a file as memory, its base, and how far it may be read.

        None for no file, and for a damaged one, of which `view` gives what is left.
        """
        segment = self._segments.find(position)
        if segment is None:
            return None
        if self.damage is not None and self.damage.touches(segment.base, segment.end):
            return None
        return segment.view, segment.base, min(self.committed, segment.end)

    def read(self, position: int, count: int) -> bytes:
        """Copy up to `count` committed bytes of one file; safe for any position.

        Nothing of a damaged span is given out.
        """
        segment = self._segments.find(position)
        if segment is None or position >= self.committed:
            return b""
        if self.damage is not None and self.damage.at(position) is not None:
            return b""
        return segment.read(position, min(count, self.committed - position))

    def dirty_segments(self, begin: int, end: int) -> list[Segment]:
        """List the files that hold bytes from `begin` to `end`."""
        return [s for s in self._segments.items if s.base < end and s.end > begin]

    def _make_room(self, size: int, body_bytes: int) -> int:
        """Roll or wait for space so that `size` bytes fit; return where they go."""
        if self._refusal is not None:
            raise LogUnavailable(f"the message is refused: {self._refusal}")
        if body_bytes > self.body_bytes_max:
            raise MessageTooLarge(
                f"the body has {body_bytes} bytes, maxMessageSize is {self.body_bytes_max}"
            )
        if size + BLANK_BYTES > self._settings.segment_bytes:
            raise MessageTooLarge(
                f"the record has {size} bytes, a log file holds {self._settings.segment_bytes}"
            )
        if self._disk_full:
            raise LogFull("the message is refused: the disk is fuller than allowed")
        if self._queue_refusal is not None:
            raise self._queue_refusal()
        tail = self._tail
        assert tail is not None
        if self.position + size + BLANK_BYTES > tail.end:
            self._roll(tail, size)
        elif self.position + size > tail.ready:
            self._allocator.want(self.position, size + BLANK_BYTES)
            if self.position + size > tail.ready:
                raise self._no_room(size)
        self._set_limit()
        return self.position

    def _roll(self, tail: Segment, size: int) -> None:
        """Close the last file with a blank and go on in the next, once that has room."""
        following = self._segments.after(tail)
        if following is None or following.ready < following.base + size + BLANK_BYTES:
            self._allocator.want(tail.end, size + BLANK_BYTES)
            following = self._segments.after(tail)
            if following is None or following.ready < following.base + size + BLANK_BYTES:
                raise self._no_room(size)
        if self.position + BLANK_BYTES > tail.ready and self._allocator.is_preparing(tail):
            raise self._no_room(BLANK_BYTES)  # or the helper zeroes it: the log would end there
        self.commit()
        try:
            _ = following.fd
        except OSError as error:  # out of numbers: for a while, perhaps
            reason = f"the message is refused: {following.path} cannot be opened: {error}"
            raise LogUnavailable(reason) from error
        try:  # the place may lie beyond the prepared space
            tail.write(self.position, BLANK.pack(tail.end - self.position, BLANK_MAGIC))
        except OSError as error:
            raise LogFull(
                f"the message is refused: {error}", path=tail.path, need_bytes=BLANK_BYTES
            ) from error
        self.position = self.committed = following.base
        self._write_to(following)

    def _write_to(self, segment: Segment) -> None:
        """Make a file the last one; its number stays open, so that no commit fails for want of one.

        OSError: there is none to be had.
        """
        _ = segment.fd
        segment.held += 1
        if self._tail is not None:
            self._tail.held -= 1
        self._tail = segment

    def _no_room(self, size: int) -> LogBusy | LogFull:
        if (error := self._allocator.lacked()) is not None:
            full = LogFull(
                f"the message is refused: no space for the log: {error}",
                path=Path(error.filename or self._settings.log_dir),
                need_bytes=size,
            )
            full.__cause__ = error
            return full
        return LogBusy("the message is refused: log space is being prepared, try again")

    def _set_limit(self) -> None:
        """Work out how far `append` may go without asking."""
        tail = self._tail
        refused = self._refusal is not None or self._queue_refusal is not None
        if tail is None or refused or self._disk_full:
            self._limit = -1
        else:
            self._limit = min(tail.ready, tail.end - BLANK_BYTES)

    def _lost(self, error: Exception) -> None:
        """A write failed: what was appended since the last commit does not exist."""
        self.losses += 1
        self.unclean = True
        self.position = self.committed
        self.refuse(f"a write to the log failed: {error}; restart the broker")
        log.error("log_write_failed position=%d error=%s advice=%r", self.committed, error, RESTART)
        try:
            self.on_lost(self.committed)
        except OSError as further:  # the entries stay; no proof speaks of them, recovery cuts them
            log.error("queues_not_cut position=%d error=%s", self.committed, further)
        raise LogUnavailable(f"the messages are lost: a write to the log failed: {error}")
