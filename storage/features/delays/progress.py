"""How far the delayed messages of each level have been delivered: notes, and the log as proof.

A delivered record names the delayed one in the property `AEROBEE_DELAYED` (`level-offset`), so the
log itself knows what was delivered, and a note (`notes.py`) only says from where on to look.
A note is believed only if the log reaches its position, so it never runs ahead of the messages,
whatever the disk kept. A killed process leaves at most a note that is one commit old, a power cut
one that is as old as the page on the disk; the deliveries behind it are found in the log. Each
proves itself (`likeness.py`), and speaks for the message alone that it names.
"""

import logging
import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.words import SCHEDULE_TOPIC
from aerobee.storage.features.delays.likeness import is_alike
from aerobee.storage.features.delays.notes import (
    DURABLE_AT,
    LATEST_AT,
    LEVELS_MAX,
    PAGE_BYTES,
    Note,
    decode_page,
    encode_note,
    encode_page,
)
from aerobee.storage.layout import DELAYED
from aerobee.storage.log.scan import Scanned
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.walk import records_over
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

DELIVERED_PROPERTY: Final = "AEROBEE_DELAYED"
DELIVERED_BYTES_MAX: Final = 48  # of the whole property, separators included

CHUNK_BYTES: Final = 4 << 20
DONE_LOG_BYTES_MAX: Final = 1 << 30
"""How much of the log a start reads to find out again what was delivered out of turn."""

_NEEDLE: Final = DELIVERED_PROPERTY.encode() + b"\x01"
_VALUE: Final = re.compile(r"(\d{1,9})-(\d{1,18})")


def delivered_property(level: int, offset: int) -> bytes:
    """Return what is added to a delivered record: which delayed message it is."""
    return b"%b%d-%d\x02" % (_NEEDLE, level, offset)


class DelayProgress:
    """By level the offset of the next message to deliver, surviving any kind of stop.

    `recover` is called once, after the store is open; `note` after each commit that delivered
    something, and now and then while messages wait, so that the log behind the note stays short.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._map: mmap.mmap | None = None
        self._base = Note(0)  # what the files bore out when the store was opened
        self._candidate = Note(0)  # becomes the durable note when the disk has its position
        self.offsets: dict[int, int] = {}
        self._done: dict[int, set[int]] = {}
        self.durable: Mapping[int, int] = {}  # what was delivered for certain, after power loss too

    @property
    def path(self) -> Path:
        """The file of the notes."""
        return self._store.settings.root / DELAYED

    def queue(self, level: int) -> ConsumeQueue | None:
        """Return the queue in which messages of a level wait, None if none ever did."""
        return self._store.find_queue(SCHEDULE_TOPIC, level - 1)

    def next_offset(self, level: int) -> int:
        """Return the offset of the next message to deliver, 0 for a level that is new."""
        return self.offsets.get(level, 0)

    def waiting(self, level: int) -> int:
        """Return how many messages of a level are not yet delivered."""
        queue = self.queue(level)
        if queue is None:
            return 0
        return max(0, queue.max_offset - max(self.next_offset(level), queue.min_offset))

    def recover(self, hint: Mapping[int, int]) -> None:
        """Find out what was delivered: the notes, the log behind them, and `hint`, the largest.

        The hint is what delayOffset.json says. Offsets beyond a queue, of a store that was
        replaced, become its end (ScheduleMessageService.correctDelayOffset).
        """
        end = self._store.commit_log.committed
        page = self._store.files.read_all(self.path, PAGE_BYTES)
        self._base = base = self._believed(page, end)
        self.offsets = dict(base.offsets)
        _raise(self.offsets, hint)
        waiting = any(self.waiting(level) for level in self._levels())
        if waiting and base.position < end:
            self._take_delivered(base.position, end)
        for level, offset in self.offsets.items():
            queue = self.queue(level)
            most = queue.max_offset if queue is not None else 0
            if offset > most:
                log.error("delay_offset_corrected level=%d from=%d to=%d", level, offset, most)
                self.offsets[level] = most
        if page is not None and not self._store.read_only:
            self._renew(page, end)
        self.durable = dict(self.offsets)
        if waiting:
            log.info("delay_recovered from=%d to=%d offsets=%s", base.position, end, self.offsets)

    def note(self) -> None:
        """Note the offsets as of the last commit; the first note makes the file. Raises OSError."""
        if self._map is None:
            self._open()
            return
        commit_log = self._store.commit_log
        note = Note(self._position(), dict(self.offsets))
        self._write(LATEST_AT, note)
        if commit_log.flushed_position >= self._candidate.position:
            self._write(DURABLE_AT, self._candidate)
            self.durable = self._candidate.offsets
            self._candidate = note

    def close(self) -> None:
        """Let go of the file; to be called after the store was closed, which flushed everything."""
        if self._store.commit_log.flushed_position >= self._store.commit_log.committed:
            self.durable = dict(self.offsets)
        self._map = None

    def _levels(self) -> list[int]:
        return [queue_id + 1 for queue_id in self._store.topics().get(SCHEDULE_TOPIC, [])]

    def _believed(self, page: bytes | None, end: int) -> Note:
        """Return the newest note that the log bears out."""
        if page is None:
            return Note(end)  # nothing was ever delivered by us
        sound = [note for note in decode_page(page) if note.position <= end]
        notes = sorted(sound, key=lambda note: note.position)
        damage = self._store.commit_log.damage
        best = notes[0] if notes else Note(self._store.commit_log.begin)
        for note in notes[1:]:
            if damage is None or not damage.touches(best.position, note.position):
                best = note  # else it counts deliveries that the log has lost
        return best

    def _renew(self, page: bytes, end: int) -> None:
        """Replace an old page, whose notes must not seem true when the log has grown again.

        Without room on the disk what is there is served, and the next note tries again.
        """
        try:
            self._open()
        except OSError as error:
            log.error("delay_note_not_renewed path=%s error=%s", self.path, error)
            if any(note.position > end for note in decode_page(page)):
                self._store.files.remove(self.path)

    def _open(self) -> None:
        """Begin a fresh page; the old one is replaced in one step."""
        files, commit_log = self._store.files, self._store.commit_log
        note = Note(self._position(), dict(self.offsets))
        durable = note if commit_log.flushed_position >= note.position else self._base
        fresh = self.path.with_suffix(".tmp")
        files.remove(fresh)
        fd = files.open(fresh, create=True)
        try:
            files.write(fd, encode_page(note, durable), 0)
            files.sync(fd)
            self._map = files.map(fd, PAGE_BYTES, write=True)
        finally:
            files.close(fd)
        files.replace(fresh, self.path)
        files.sync_directory(self.path.parent)
        self._candidate = note

    def _write(self, at: int, note: Note) -> None:
        assert self._map is not None
        data = encode_note(note)
        self._map[at : at + len(data)] = data

    def _take_delivered(self, begin: int, end: int) -> None:
        """Count what the log between says was delivered.

        Up to the first message that nothing was found of; what was delivered behind it is
        remembered as done. For a damaged span may have taken deliveries before others that are
        there, and a producer may have sent the like of one to RocketMQ, for his own message.
        """
        for level, found in self._delivered_since(begin, end).items():
            queue, offset = self.queue(level), self.next_offset(level)
            if queue is not None and queue.min_offset in found:
                offset = max(offset, queue.min_offset)  # what the log has let go went before it
            while offset in found:
                offset += 1
            self.offsets[level] = offset
            self._done[level] = {each for each in found if each > offset}

    def is_done(self, level: int, offset: int) -> bool:
        """Whether a message at or behind the next one was found to be delivered at the start."""
        return offset in self._done.get(level, ())

    def _position(self) -> int:
        """Return the position before which all deliveries are counted in the offsets.

        What was delivered out of turn is passed over within moments, but for a message that waits
        for long and of which a producer has sent the like: it is not waited for without end.
        """
        for level, found in list(self._done.items()):
            if max(found, default=-1) < self.next_offset(level):
                del self._done[level]
        begin, end = self._base.position, self._store.commit_log.committed
        return begin if self._done and end - begin <= DONE_LOG_BYTES_MAX else end

    def _delivered_since(self, begin: int, end: int) -> dict[int, set[int]]:
        """Return by level the offsets that the log between says were delivered."""
        found: dict[int, set[int]] = {}
        begin = max(begin, self._store.commit_log.begin)
        if end <= begin or not mentions(self._store.segments, _NEEDLE, begin, end):
            return found
        for record in records_over(self._store.segments, begin, self._store.commit_log.damage):
            if record.position >= end:
                break
            if _NEEDLE in record.buffer[record.properties_at : record.at + record.size]:
                delivered = self._delivered(record)
                if delivered is not None:
                    level, offset = delivered
                    found.setdefault(level, set()).add(offset)
        return found

    def _delivered(self, record: Scanned) -> tuple[int, int] | None:
        """Return level and offset of the delayed message that a record delivered, if it did.

        None as well for one that is known to be delivered.
        """
        match = _VALUE.fullmatch(find_property(record.properties, DELIVERED_PROPERTY) or "")
        if match is None or find_property(record.properties, Property.REAL_TOPIC) != record.topic:
            return None
        level, offset = int(match[1]), int(match[2])
        queue, begin = self.queue(level), self.next_offset(level)
        if queue is None or not max(begin, queue.min_offset) <= offset < queue.max_offset:
            return None
        position, *_ = queue.entry(offset)
        if position >= record.position:
            return None  # of a queue that was there before
        named = (SCHEDULE_TOPIC, level - 1, offset)
        return (level, offset) if is_alike(self._store, record, position, named) else None


def _raise(offsets: dict[int, int], others: Mapping[int, int]) -> None:
    """Take every offset of `others` that is larger."""
    for level, offset in others.items():
        if 1 <= level <= LEVELS_MAX:
            offsets[level] = max(0, offset, offsets.get(level, 0))


def mentions(segments: Segments, needle: bytes, begin: int, end: int) -> bool:
    """Whether bytes occur in that stretch of the log at all; 1 GiB takes 0.3 s."""
    overlap = len(needle) - 1
    at = begin
    while at < end:
        segment = segments.find(at)
        if segment is None:
            return False
        until = min(end, segment.end)
        while at < until:
            chunk = segment.read(at, min(CHUNK_BYTES, until - at))
            if not chunk:
                return False
            if needle in chunk:
                return True
            at = until if at + len(chunk) >= until else at + len(chunk) - overlap
    return False
