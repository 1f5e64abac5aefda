"""Brings queues up to records that a walk over the log has found sound.

The checksum covers the body alone, so what a header says of its queue offset is believed only as
far as it can be true: not more ahead than the log had room for messages, and not taken already.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.log.damage import Damage, DamageTable
from aerobee.storage.log.scan import Scanned, tags_code
from aerobee.storage.parts import StoreParts
from aerobee.storage.proofs.progress import Progress
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.files import SCAN_ENTRIES
from aerobee.storage.queues.patches import Entry, Patches
from aerobee.storage.recovery.dangling import DanglingEntries, has_message
from aerobee.storage.recovery.fillers import is_filler
from aerobee.storage.recovery.gaps import Gaps
from aerobee.storage.recovery.known_damage import MISPLACED
from aerobee.storage.recovery.last_batches import are_alike, bytes_min
from aerobee.storage.recovery.neighbours import fits, is_last
from aerobee.storage.recovery.next_record import sound_record


class Hole(NamedTuple):
    """Offsets that no record was found for, and the part of the log where they must have been."""

    queue: ConsumeQueue
    first: int
    last: int
    begin: int
    end: int


class RecordDispatcher:
    """Takes records in the log's order; `finish` after the last one."""

    def __init__(
        self,
        parts: StoreParts,
        mend: Callable[[ConsumeQueue], None],
        is_named: Callable[[int], bool],
    ) -> None:
        self._segments = segments = parts.segments
        self._queues = parts.queues
        self._settings = parts.settings
        self._table = table = parts.damage
        self._mend = mend
        self._is_named = is_named  # whether a queue entry leads to a position
        self._write = parts.write
        self._by_key: dict[tuple[bytes, int], ConsumeQueue] = {}
        self._doubtful: dict[ConsumeQueue, Scanned] = {}  # until the next record tells
        self._firsts: dict[ConsumeQueue, int] = {}  # the first offset of each that was looked at
        self._ends: dict[ConsumeQueue, int] = {}  # what each had when it was looked at first
        self._patches = Patches(parts.files)
        self._filled = DamageTable()  # what was damaged until a repair
        self._gaps = Gaps(segments, (table, self._filled))
        self.proven: Progress | None = None  # what the disk had for certain
        self.walked = DanglingEntries(segments, table)
        self.front_lost: Collection[ConsumeQueue] = ()  # queues that may lack their first files
        self.entries = 0
        self.holes: list[Hole] = []

    def dispatch(self, record: Scanned) -> None:
        """See that the queue has the entry of a record."""
        if not record.queued:
            return self._pass_over(record)
        queue = self._by_key.get((record.prefix, record.queue_id)) or self._queue_of(record)
        if queue is None or record.position < queue.born_at:
            return
        self.walked.saw(queue, record)
        offset = record.queue_offset
        if queue.min_offset <= offset < queue.max_offset and (
            queue.entry(offset)[:2] == (record.position, record.size)
        ):
            if queue in self._doubtful:
                self._take_doubtful(queue, offset)
            if queue.batched and record.messages > 1 and self._table.at(record.position) is None:
                self._put_rest(queue, record)
            return
        if self._table.at(record.position) is not None:
            return
        if not self._write:
            return self._remember(queue, record)
        if queue in self._doubtful:
            self._decide(queue, record)
        self._settle(queue, record)

    def _remember(self, queue: ConsumeQueue, record: Scanned) -> None:
        """Have the entry of a queue's next record in memory, where it was when a process died."""
        offset = record.queue_offset
        if offset == queue.max_offset and record.position >= queue.end_position():
            code = tags_code(record, queue.topic, self._settings.delay_levels_ms)
            for each in range(offset, offset + record.messages):
                queue.put_in_memory(each, record.position, record.size, code)

    def _pass_over(self, record: Scanned) -> None:
        """Take note of what a repair has put in the place of lost messages."""
        if is_filler(record):
            self._filled.add(Damage(record.position, record.position + record.size, ""))

    def finish(self) -> None:
        """Decide what the last records of a queue left open."""
        for queue in sorted(self._doubtful, key=lambda each: self._doubtful[each].position):
            self._decide(queue, None)  # in the log's order: what is refused explains later gaps
        self._patches.write()
        if self._write:
            for queue, first in self._firsts.items():
                self._blank_unwritten(queue, max(first, queue.min_offset))
            self._patches.write()

    def drop_dangling(self, log_end: int) -> int:
        """After `finish`: cut off entries that no message stands behind; return the queues cut.

        Those in between become blank with `write_patches`.
        """
        if not self._write:
            return 0
        proven = self.proven.queues if self.proven is not None else {}

        def without_blanks(queue: ConsumeQueue, end: int) -> int:
            known = proven.get((queue.topic, queue.queue_id), 0)
            return max(min(end, known), self._gaps.end_without_blanks(queue, end, log_end))

        queues_cut, entries_blank = self.walked.drop(self._patches, without_blanks)
        self.entries += entries_blank
        return queues_cut

    def write_patches(self) -> None:
        """Write the blanks that `drop_dangling` has collected, durably."""
        self._patches.write()

    def _queue_of(self, record: Scanned) -> ConsumeQueue | None:
        """Find or make the queue of a record; None where its name cannot be one, or it is gone."""
        if record.position < self._queues.deleted.before(record.topic):
            return None
        if record.messages > 1:  # whatever the broker's table says of its topic, or does not
            self._queues.note_batched(record.topic)
        try:
            queue = self._queues.get(record.topic, record.queue_id)
        except ValueError as error:
            self._refuse(record, str(error))
            return None
        self._by_key[record.prefix, record.queue_id] = queue
        self._firsts[queue] = record.queue_offset
        self._ends[queue] = queue.max_offset
        return queue

    def _settle(self, queue: ConsumeQueue, record: Scanned) -> None:
        """Write the entry of one record that the queue does not have at that place."""
        offset = record.queue_offset
        if self._known_otherwise(queue, record):
            self._refuse(record, "its queue knows it by another offset")
            return
        if (other := self._owner(record)) is not None:
            self._refuse(record, f"{other.topic}-{other.queue_id} has it")
            return
        if offset > queue.max_offset and record.position >= queue.end_position():
            self._mend(queue)
        if _begins(queue, offset):
            self._begin(queue, record)
        elif offset < queue.min_offset:
            self._put_before(queue, record)
        elif offset < queue.max_offset:
            self._replace(queue, record)
        else:
            self._append(queue, record)

    def _begin(self, queue: ConsumeQueue, record: Scanned) -> None:
        """Take a record for the first one that a queue has, unless that cannot be."""
        offset = record.queue_offset
        if not 0 <= offset <= record.position // bytes_min(queue):
            self._refuse(record, "more than the log ever had room for")
        elif self._jumps(queue, record):
            self._doubtful[queue] = record
        else:
            self._put_first(queue, record)

    def _put_first(self, queue: ConsumeQueue, record: Scanned) -> None:
        queue.truncate(record.queue_offset)  # files without entries that are behind it
        queue.start_at(record.queue_offset)
        self._put(queue, record)

    def _put_before(self, queue: ConsumeQueue, record: Scanned) -> None:
        """Take a record from before a queue's first file, if that may have been lost."""
        if record.queue_offset < 0:
            self._refuse(record, "less than none")
        elif self._may_lack_front(queue):
            self._put(queue, record)
        # elsewhere the file has gone for its age, and so has every entry before it

    def _append(self, queue: ConsumeQueue, record: Scanned) -> None:
        """Take a record for the queue's next one, or one behind a gap that damage explains."""
        offset, position = record.queue_offset, record.position
        if position < queue.end_position():
            last = sound_record(self._segments, queue.last_position())
            if last is not None and position < last.position + last.size:
                self._take_for_earlier(queue, record)
                return
        gap = offset - queue.max_offset
        if gap and gap > self._gaps.room(queue, position):
            self._refuse(record, f"the one before it has {queue.max_offset - 1}")
        elif self._jumps(queue, record):
            self._doubtful[queue] = record
        else:
            self._put_behind_gap(queue, record)

    def _take_for_earlier(self, queue: ConsumeQueue, record: Scanned) -> None:
        """Leave a record alone that lies before its queue's end: a topic's earlier life had it."""

    def _put_behind_gap(self, queue: ConsumeQueue, record: Scanned) -> None:
        if record.queue_offset > queue.max_offset:
            self._blank(queue, record.queue_offset, record.position)
        self._put(queue, record)

    def _owner(self, record: Scanned) -> ConsumeQueue | None:
        """Return the queue whose entry at its offset leads to it: what it names is damaged."""
        if not self._is_named(record.position):
            return None
        place, offset = (record.position, record.size), record.queue_offset
        for queue in self._queues:
            if queue.min_offset <= offset < queue.max_offset and queue.entry(offset)[:2] == place:
                return queue
        return None

    def _jumps(self, queue: ConsumeQueue, record: Scanned) -> bool:
        """Whether a record leaves out offsets without a loss that explains it."""
        expected = 0 if _begins(queue, record.queue_offset) else queue.max_offset
        return self._gaps.jumps(queue, record, expected)

    def _may_lack_front(self, queue: ConsumeQueue) -> bool:
        return queue in self.front_lost

    def _known_otherwise(self, queue: ConsumeQueue, record: Scanned) -> bool:
        """Whether an entry of another offset points at the record: then its header is damaged."""
        offset = queue.first_from(record.position)
        if offset >= queue.max_offset or 0 <= offset - record.queue_offset < record.messages:
            return False
        return queue.entry(offset)[:2] == (record.position, record.size)

    def _replace(self, queue: ConsumeQueue, record: Scanned) -> None:
        """Decide between a record and the entry that has its offset."""
        offset = record.queue_offset
        if record.position >= self._gaps.known_end(queue):
            if self.walked.cut(queue, offset):
                return self._settle(queue, record)
            self._doubtful[queue] = record  # a topic that was made again, or a flipped bit
            return
        if queue.entry(offset)[0] != record.position and has_message(self._segments, queue, offset):
            return  # of a topic's earlier life
        if fits(self._segments, queue, record):
            self._put(queue, record)

    def _take_doubtful(self, queue: ConsumeQueue, behind: int) -> None:
        """Give a record its place before one that the queue has: its topic was not made again."""
        first = self._doubtful[queue]
        if queue.min_offset <= first.queue_offset < behind:
            del self._doubtful[queue]
            if fits(self._segments, queue, first):
                self._put(queue, first)

    def _blank_unwritten(self, queue: ConsumeQueue, first: int) -> None:
        """Turn entries that never reached the disk, and whose messages are lost, into blanks.

        Left as zeros they would end the queue there at the next start.
        """
        offset = first
        while offset < queue.max_offset:
            data = queue.copied(offset, SCAN_ENTRIES)
            count = len(data) // ENTRY_BYTES
            if bytes(ENTRY_BYTES) in data:
                for lost in range(offset, offset + count):
                    if queue.entry(lost)[1] <= 0:
                        self._patches.put(queue, lost, Entry(0, BLANK_SIZE, 0))
                        self.entries += 1
            offset += count

    def _decide(self, queue: ConsumeQueue, following: Scanned | None) -> None:
        """Tell a topic that was made again, or a gap, from a wrong offset, by what follows."""
        first = self._doubtful.pop(queue)
        if not self._is_believed(queue, first, following):
            self._refuse(first, f"the one before it has {queue.max_offset - 1}")
        elif _begins(queue, first.queue_offset):
            self._put_first(queue, first)
        else:
            self._patches.end(queue, first.queue_offset)
            self._put_behind_gap(queue, first)

    def _is_believed(self, queue: ConsumeQueue, first: Scanned, following: Scanned | None) -> bool:
        """Whether a doubtful record is what it says; `following` is its queue's next, if any."""
        offset = first.queue_offset
        begins_again = queue.min_offset <= offset < queue.max_offset
        if following is None and begins_again:
            again = offset == 0 and not self._had(queue, offset)
            return again or is_last(self._segments, queue, first)
        if following is None:  # others before it may have been refused since
            return self._is_proven(queue, first) or not self._jumps(queue, first)
        behind = max(queue.max_offset, offset + first.messages)
        if begins_again and following.queue_offset > behind:
            return False  # it stood in the place of one that is missing there
        room = (following.position - first.position) // bytes_min(queue)
        return offset < following.queue_offset <= offset + room

    def _is_proven(self, queue: ConsumeQueue, record: Scanned) -> bool:
        """Whether the queue is known to have had that many messages by then."""
        if (proven := self.proven) is None or record.position >= proven.position:
            return False
        return record.queue_offset < proven.queues.get((queue.topic, queue.queue_id), 0)

    def _had(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether the queue came with a sound entry there: then its topic was not deleted."""
        return offset < self._ends.get(queue, 0) and has_message(self._segments, queue, offset)

    def _blank(self, queue: ConsumeQueue, offset: int, position: int) -> None:
        """Give lost messages blank entries, never to be read."""
        first, begin = queue.max_offset, self._gaps.begin(queue)
        while queue.max_offset < offset:
            queue.put(queue.max_offset, 0, BLANK_SIZE, 0)
        self.holes.append(Hole(queue, first, offset - 1, begin, position))

    def fill_up(self, queue: ConsumeQueue, max_offset: int, position: int) -> None:
        """Let a queue have offsets up to `max_offset`, which messages before `position` had."""
        if queue.max_offset == queue.min_offset and not queue.spans():
            queue.start_at(max_offset)  # of all its messages nothing is left
        elif queue.max_offset < max_offset <= queue.max_offset + self._gaps.room(queue, position):
            self._blank(queue, max_offset, position)

    def _put(self, queue: ConsumeQueue, record: Scanned) -> None:
        code = tags_code(record, queue.topic, self._settings.delay_levels_ms)
        for offset in range(record.queue_offset, record.queue_offset + record.messages):
            self.entries += 1
            if offset >= queue.max_offset:
                queue.put(offset, record.position, record.size, code)
            else:
                self._patches.put(queue, offset, Entry(record.position, record.size, code))

    def _put_rest(self, queue: ConsumeQueue, record: Scanned) -> None:
        """See that all messages of an inner batch have the entry that its first one has."""
        place = (record.position, record.size)
        last = record.queue_offset + record.messages - 1
        if last < queue.max_offset and are_alike(queue, record.queue_offset, record.messages):
            return
        code = tags_code(record, queue.topic, self._settings.delay_levels_ms)
        for offset in range(record.queue_offset + 1, last + 1):
            if offset < queue.max_offset and queue.entry(offset)[:2] == place:
                continue
            self.entries += 1
            if offset < queue.max_offset:
                if self._write:
                    self._patches.put(queue, offset, Entry(*place, code))
            elif self._write:
                queue.put(offset, *place, code)
            else:
                queue.put_in_memory(offset, *place, code)

    def _refuse(self, record: Scanned, why: str) -> None:
        """Take a record whose header cannot be true for damaged."""
        reason = f"{MISPLACED} {record.queue_offset} of {record.topic}-{record.queue_id}: {why}"
        self._table.add(Damage(record.position, record.position + record.size, reason))


def _begins(queue: ConsumeQueue, offset: int) -> bool:
    """Whether a record would be the queue's first one: it has no entry, nor a file before it.

    A file without an entry behind it says nothing: after a loss of power it may be of an earlier
    life of its topic, or the last one of a queue whose other files are lost.
    """
    if queue.max_offset > queue.min_offset:
        return False
    return offset < queue.min_offset or not queue.spans()
