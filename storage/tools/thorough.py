"""Holds every entry of the queues against the whole log: the larger part of a repair."""

from collections.abc import Callable, Collection, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.words import SCHEDULE_TOPIC
from aerobee.storage.log.scan import Scanned, tags_code
from aerobee.storage.parts import StoreParts
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.dangling import has_message
from aerobee.storage.recovery.dispatch import RecordDispatcher
from aerobee.storage.recovery.next_record import sound_record
from aerobee.storage.tools.topic_lives import TopicLives

REFUSED_MAX: Final = 4_000_000  # of all queues, that are remembered
STRAYS_MAX: Final = 8  # records of one name that flipped bits have made; more are a deleted topic's


class _Marks:
    """Which offsets of a queue have their record; a byte each, from the first that has."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.seen = bytearray()

    def mark(self, offset: int) -> None:
        if offset < self.begin:
            self.seen[:0] = bytes(self.begin - offset)
            self.begin = offset
        missing = offset + 1 - self.begin - len(self.seen)
        if missing > 0:
            self.seen.extend(bytes(missing))
        self.seen[offset - self.begin] = 1

    def cut(self, end: int) -> None:
        del self.seen[max(0, end - self.begin) :]

    def has(self, offset: int) -> bool:
        return 0 <= offset - self.begin < len(self.seen) and self.seen[offset - self.begin] == 1

    def end(self) -> int:
        return self.begin + self.seen.rfind(1) + 1

    @property
    def has_holes(self) -> bool:
        """Whether offsets before the last one are missing, 0 and what follows included."""
        return self.begin > 0 or self.seen.rstrip(b"\0").count(0) > 0

    def around(self, offset: int) -> tuple[int | None, int | None]:
        """Return the nearest offsets before and behind one, or it twice, that have a record."""
        at = offset - self.begin
        if self.has(offset):
            return offset, offset
        before = self.seen.rfind(1, 0, max(0, at))
        after = self.seen.find(1, max(0, at))
        found = (place + self.begin if place >= 0 else None for place in (before, after))
        return next(found), next(found)


class _Refused(NamedTuple):
    """Records of a queue without files that came before its topic's present life, it seems."""

    last: int  # the offset of the newest
    positions: list[int]


class ThoroughDispatcher(RecordDispatcher):
    """Takes every record of the log, mends tags too, and knows which entries have no record."""

    def __init__(self, parts: StoreParts, is_named: Callable[[int], bool]) -> None:
        super().__init__(parts, lambda queue: None, is_named)
        self._marks: dict[ConsumeQueue, _Marks] = {}
        self._lives = TopicLives(self._segments, self._queues)
        self._refused: dict[tuple[bytes, int], _Refused] = {}
        self._refused_count = 0
        self._strays: list[int] = []  # records of names that have few
        self.expected: Collection[tuple[str, int]] = ()  # queues that a proof names

    def dispatch(self, record: Scanned) -> None:
        """See that the queue has the entry of a record, to the last bit."""
        if not record.queued:
            return self._pass_over(record)
        if self._table.at(record.position) is not None:
            return  # what a damaged span has of records is filled with the rest of it
        if self._is_over(record):
            if (name := self._known_as(record)) is not None:
                self._refuse(record, f"the queues know it as {name}")
            else:
                self._refuse_for_now(record)
            return
        refused = self._refused.pop((record.prefix, record.queue_id), None)
        if refused is not None and record.queue_offset > refused.last:
            for position in refused.positions:  # the record goes on where they ended: one life
                if (earlier := sound_record(self._segments, position)) is not None:
                    self._take(earlier)
        elif refused is not None:
            self._let_go(refused)
        self._take(record)

    def finish(self) -> None:
        """Decide what the last records left open, and what fills a hole of another queue."""
        super().finish()
        for refused in self._refused.values():
            self._let_go(refused)
        holes = [queue for queue, marks in self._marks.items() if marks.has_holes]
        for position in self._strays if holes else ():
            stray = sound_record(self._segments, position)
            if stray is None or self._table.at(position) is not None:
                continue
            own = self._queues.find(stray.topic, stray.queue_id)
            if own is not None and self._surrounds(own, stray):
                self._refuse(stray, "records before and behind it are of its queue's present life")
                continue
            for queue in holes:
                if self._misses(queue, stray):
                    self._refuse(stray, f"{queue.topic}-{queue.queue_id} lacks it")
                    break

    def _let_go(self, refused: _Refused) -> None:
        """Take records for those of a deleted topic, a few for ones whose name is flipped."""
        if len(refused.positions) <= STRAYS_MAX and len(self._strays) < REFUSED_MAX:
            self._strays += refused.positions

    def _surrounds(self, queue: ConsumeQueue, stray: Scanned) -> bool:
        """Whether a queue's present life had begun before a record, and went on behind it."""
        marks = self._marks.get(queue)
        if marks is None or marks.has(stray.queue_offset):
            return False
        begin, end = queue.entry(marks.begin)[0], queue.entry(marks.end() - 1)[0]
        return begin < stray.position < end

    def _misses(self, queue: ConsumeQueue, stray: Scanned) -> bool:
        """Whether a queue has a hole at the record's offset, and in the log just around it.

        A sender's bytes are under a checksum, the queue's name and number are not: what nobody has
        and another queue lacks in that very place is that queue's message.
        """
        if queue.topic != stray.topic and queue.queue_id != stray.queue_id:
            return False  # two flips
        before, after = self._marks[queue].around(stray.queue_offset)
        if after is None or stray.queue_offset in (before, after):
            return False
        if before is None and after != stray.queue_offset + 1:
            return False
        begin = queue.entry(before)[0] if before is not None else -1
        return begin < stray.position < queue.entry(after)[0]

    def _known_as(self, record: Scanned) -> str | None:
        """Return what an entry says a record is, queue and offset, if not what it says itself."""
        if not self._is_named(record.position):
            return None
        own = self._queues.find(record.topic, record.queue_id)
        for queue in self._queues:
            offset = queue.first_from(record.position)
            if offset >= queue.max_offset:
                continue
            if queue is own and 0 <= offset - record.queue_offset < record.messages:
                continue
            if queue.entry(offset)[:2] == (record.position, record.size):
                return f"{queue.topic}-{queue.queue_id} offset {offset}"
        return None

    def _refuse_for_now(self, record: Scanned) -> None:
        """Remember a record of the past, in case that it is none; a lower offset is a new life."""
        key, offset = (record.prefix, record.queue_id), record.queue_offset
        if record.position < self._queues.deleted.before(record.topic):
            return
        refused = self._refused.get(key)
        if refused is not None and offset <= refused.last:
            self._let_go(refused)
            refused = None
        positions = refused.positions if refused is not None else []
        if self._refused_count < REFUSED_MAX:
            self._refused_count += 1
            positions.append(record.position)
        self._refused[key] = _Refused(offset, positions)

    def _take(self, record: Scanned) -> None:
        super().dispatch(record)
        queue = self._queues.find(record.topic, record.queue_id)
        offset = record.queue_offset
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return
        position, size, code = queue.entry(offset)
        if (position, size) == (record.position, record.size):
            self._mark(queue, offset, record.messages)
            right = tags_code(record, queue.topic, self._settings.delay_levels_ms)
            if queue.topic != SCHEDULE_TOPIC and code != right:
                self._put(queue, record)

    def _put(self, queue: ConsumeQueue, record: Scanned) -> None:
        super()._put(queue, record)
        self._mark(queue, record.queue_offset, record.messages)

    def _take_for_earlier(self, queue: ConsumeQueue, record: Scanned) -> None:
        """Refuse what is of no earlier life, and has an offset behind all that the queue has."""
        if has_message(self._segments, queue, queue.max_offset - 1):
            self._refuse(record, f"a later one has {queue.max_offset - 1}")

    def _may_lack_front(self, queue: ConsumeQueue) -> bool:
        return True

    def _mark(self, queue: ConsumeQueue, offset: int, messages: int) -> None:
        marks = self._marks.setdefault(queue, _Marks(offset))
        marks.cut(queue.max_offset)  # shorter where a topic was made again
        for each in range(offset, min(offset + messages, queue.max_offset)):
            marks.mark(each)

    def _is_over(self, record: Scanned) -> bool:
        """Whether a record is of a topic's life that has ended: it must not come back."""
        topic, queue_id = record.topic, record.queue_id
        queue = self._queues.find(topic, queue_id)
        if queue is not None and (first := self._lives.first(queue)) is not None:
            return record.queue_offset >= first[0] and record.position < first[1]
        if (topic, queue_id) in self.expected or queue in self._marks:
            return False
        return self._lives.is_over(topic, queue_id, record.queue_offset, record.position)

    def dangling(self, queue: ConsumeQueue) -> Iterator[tuple[int, int]]:
        """Yield the runs of offsets, as first and last, whose entries name no record."""
        marks, begin = self._marks.get(queue), self._segments.begin
        without = (
            offset
            for offset in range(queue.min_offset, queue.max_offset)
            if (marks is None or not marks.has(offset)) and _names(queue.entry(offset), begin)
        )
        for _, run in groupby(enumerate(without), lambda pair: pair[1] - pair[0]):
            offsets = [offset for _, offset in run]
            yield offsets[0], offsets[-1]

    def end_of(self, queue: ConsumeQueue) -> int:
        """Return one past the last offset that has a record, the queue's first one without any."""
        marks = self._marks.get(queue)
        return marks.end() if marks is not None else queue.min_offset


def _names(entry: tuple[int, int, int], begin: int) -> bool:
    """Whether an entry is no blank, and not older than the log."""
    position, size, _ = entry
    return size != BLANK_SIZE and not 0 <= position < begin
