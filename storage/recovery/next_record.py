"""Finds where a damaged log goes on: the next position at which a record proves itself.

A record proves itself by its magic, sizes that fit each other, the checksum of its body and the
position that it names. A sender knows where his message will lie, so its body may hold the picture
of such a record. It is never looked at while the message around it is sound, for that is stepped
over whole. Where the message around it is damaged:

- its own size leads to the next record, if that part of it is not what was damaged;
- where it does not, as that of the last one before the power was lost, its head still says how far
  its body reaches;
- a queue entry that covers the picture says that it is none;
- what a queue entry points at goes before all that none points at.

What remains possible: header *and* queue entry of the message around it are lost; then the picture
is taken for a message. And a record left over from an earlier life of these bytes (RocketMQ does
not clear what it cuts off) is refused if it is older than the record before the span and no queue
entry points at it; so is a true one that was stored after the clock had been set back.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from aerobee.remoting.message.layout import (
    BLANK_SIZE,
    BODY_BYTES_AT,
    BODY_LENGTH_BYTES,
    HOST_BITS,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    PREFIX_BYTES,
    RECORD_BYTES_MIN,
)
from aerobee.remoting.message.properties import PROPERTIES_BYTES_MAX
from aerobee.storage.log.scan import CHUNK_BYTES, FIRST_CHUNK_BYTES, HEAD, LogScan, Scanned
from aerobee.storage.log.segment import Segment
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.consume_queues import ConsumeQueues

if TYPE_CHECKING:
    from aerobee.storage.recovery.named_records import NamedRecords

_MAGIC_BEGIN: Final = b"\xda\xa3\x20"  # both versions begin so
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_HEAD_BYTES_MAX: Final = max(BODY_BYTES_AT.values()) + BODY_LENGTH_BYTES
_BEHIND_BODY_BYTES_MAX: Final = 2 * (2 + PROPERTIES_BYTES_MAX)  # topic, properties, their lengths
TRIED_BYTES_MAX: Final = 1 << 30  # looked at in vain in one file, until entries alone count


class Begin(NamedTuple):
    """Where the log goes on, and whether a queue entry says so."""

    position: int
    named: bool


class NextRecord:
    """Searches one log; what it needs of the queues is read when the first candidate is found."""

    def __init__(self, segments: Segments, queues: ConsumeQueues) -> None:
        self.segments = self._segments = segments
        self._queues = queues
        self._entries = _Entries(segments, queues)

    def find(self, stop: int, newest_ms: int | None) -> Begin | None:
        """Return where a sound record begins behind `stop`, None if nowhere; 1 GiB takes 0.5 s.

        `stop` is no sound record; `newest_ms` is when the one before it was stored, None to have
        it looked up.
        """
        if (position := self._behind_its_own_size(stop)) is not None:
            return Begin(position, named=True)
        judge = _Judge(self._segments, self._queues, self._entries, stop, newest_ms)
        segment = self._segments.find(stop)
        position = stop + 1
        while segment is not None:
            judge.enter(segment)
            found = next((at for at in self._candidates(segment, position) if judge.accepts(at)), 0)
            if found:
                return Begin(found, judge.named(found))
            segment = self._segments.after(segment)
            position = segment.base if segment is not None else 0
        return None

    def is_named(self, position: int) -> bool:
        """Whether a queue entry points at a position, as the queues were when that was asked."""
        segment = self._segments.find(position)
        return segment is not None and self._entries.of(segment).begins_at(position)

    def _behind_its_own_size(self, stop: int) -> int | None:
        """Return the end that a damaged record itself names, if what is there is in order."""
        segment = self._segments.find(stop)
        head = segment.read(stop, HEAD.size) if segment is not None else b""
        if segment is None or len(head) < HEAD.size:
            return None
        total, magic, _, _, _, _, own, _ = HEAD.unpack(head)
        end = stop + total
        if magic not in _MAGICS or own != stop or total < RECORD_BYTES_MIN or end > segment.end:
            return None
        if end < segment.end and segment.is_closed_at(end):
            following = self._segments.after(segment)
            end = following.base if following is not None else -1
        return end if end >= 0 and sound_record(self._segments, end) is not None else None

    @staticmethod
    def _candidates(segment: Segment, position: int) -> Iterator[int]:
        """Yield the positions in one file whose bytes have a record's magic and that position."""
        overlap = PREFIX_BYTES - 1
        chunk_bytes = FIRST_CHUNK_BYTES
        while (position := segment.next_data(position)) < segment.end:
            chunk = segment.read(position, chunk_bytes)
            if len(chunk) <= overlap:
                return
            chunk_bytes = min(4 * chunk_bytes, CHUNK_BYTES)
            at = chunk.find(_MAGIC_BEGIN, MAGIC_AT)
            while at >= 0:
                begin = at - MAGIC_AT
                own = chunk[begin + POSITION_AT : begin + PREFIX_BYTES]
                if own == (position + begin).to_bytes(8, "big"):
                    yield position + begin
                at = chunk.find(_MAGIC_BEGIN, at + 1)
            position += len(chunk) - overlap


class _Entries:
    """What the queues say of one file of the log, kept for the next search in it.

    A search looks behind all that was walked, and queues change before that.
    """

    def __init__(self, segments: Segments, queues: ConsumeQueues) -> None:
        self._segments = segments
        self._queues = queues
        self._of: Segment | None = None
        self._named: NamedRecords | None = None

    def of(self, segment: Segment) -> "NamedRecords":
        if self._named is None or self._of is not segment:
            from aerobee.storage.recovery.named_records import named_records  # numpy costs 100 ms

            self._of = segment
            self._named = named_records(
                self._segments, list(self._queues), segment.base, segment.end
            )
        return self._named


class _Judge:
    """Decides which candidate is the log's next record."""

    def __init__(
        self,
        segments: Segments,
        queues: ConsumeQueues,
        entries: _Entries,
        stop: int,
        newest_ms: int | None,
    ) -> None:
        self._entries = entries
        self._segments = segments
        self._queues = queues
        self._stop = stop
        self._newest_ms = newest_ms
        self._body_end = _body_end(segments, stop)
        self._segment: Segment | None = None
        self._tried_bytes = 0

    def enter(self, segment: Segment) -> None:
        """Go on to another file."""
        self._segment, self._tried_bytes = segment, 0

    def named(self, position: int) -> bool:
        """Whether a queue entry points at a position."""
        return self._covering().begins_at(position)

    def accepts(self, position: int) -> bool:
        """Whether the log goes on there.

        Who sends pictures of records by the thousand can use up what is looked at without reason,
        but cannot hide a record that a queue entry points at.
        """
        if self._tried_bytes > TRIED_BYTES_MAX and not self.named(position):
            return False
        record = sound_record(self._segments, position)
        if record is None:
            self._tried_bytes += FIRST_CHUNK_BYTES + self._claimed(position)
            return False
        if self.named(position):
            return True
        if position < self._body_end:
            return False
        return not self._covered(position) and not self._left_over(record)

    def _covered(self, position: int) -> bool:
        """Whether a queue entry says that a position lies within a record.

        One of a record before the span has a wrong size if that record is sound: it ended there.
        """
        around = self._covering().around(position)
        if around is None:
            return False
        return around[0] >= self._stop or sound_record(self._segments, around[0]) is None

    def _claimed(self, position: int) -> int:
        """Return how many bytes a picture of a record may have had us read."""
        assert self._segment is not None
        size = int.from_bytes(self._segment.read(position, 4), "big", signed=True)
        return size if 0 <= size <= self._segment.end - position else 0

    def _left_over(self, record: Scanned) -> bool:
        """Whether it is older than what stands before it."""
        if self._newest_ms is None:
            self._newest_ms = self._look_up()
        return record.store_timestamp < self._newest_ms

    def _look_up(self) -> int:
        """Return when the last record before the span was stored, as the queues know it."""
        last = -1
        for queue in self._queues:
            offset = queue.first_behind(self._stop) - 1
            if offset >= max(queue.min_offset, 0):
                position, size, _ = queue.entry(offset)
                last = max(last, position if size != BLANK_SIZE else -1)
        record = sound_record(self._segments, last) if last >= 0 else None
        return record.store_timestamp if record is not None else 0

    def _covering(self) -> "NamedRecords":
        assert self._segment is not None
        return self._entries.of(self._segment)


def _body_end(segments: Segments, position: int) -> int:
    """Return where the body ends of a record whose head is sound, the position itself of others.

    The head is believed where both sizes in it fit each other: a wrong one hides no more than the
    body, or what topic and properties may have.
    """
    segment = segments.find(position)
    head = segment.read(position, _HEAD_BYTES_MAX) if segment is not None else b""
    if segment is None or len(head) < _HEAD_BYTES_MAX:
        return position
    total, magic, _, _, _, _, own, sys_flag = HEAD.unpack_from(head)
    at = BODY_BYTES_AT[sys_flag & HOST_BITS]
    body_at = at + BODY_LENGTH_BYTES
    body_bytes = int.from_bytes(head[at:body_at], "big", signed=True)
    rest = total - body_at - body_bytes
    sound = magic in _MAGICS and own == position and position + total <= segment.end
    if not sound or body_bytes < 0 or not 0 <= rest <= _BEHIND_BODY_BYTES_MAX:
        return position
    return position + body_at + body_bytes


def sound_record(segments: Segments, position: int) -> Scanned | None:
    """Return the record at a position if it is sound from its first to its last byte."""
    record = next(iter(LogScan(segments, position)), None)
    return record if record is not None and record.position == position else None
