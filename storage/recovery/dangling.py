"""Finds entries that no message stands behind: of messages that a power loss took from the log.

The queue was cut when the log was, yet a disk that loses power again may bring its older sectors
back. By then the log has other messages where those entries lead to.
"""

from collections.abc import Callable, Iterable

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.log.damage import DamageTable
from aerobee.storage.log.scan import Scanned
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.patches import Entry, Patches
from aerobee.storage.recovery.next_record import sound_record


class DanglingEntries:
    """Takes records in the log's order; entries in between that no record came for are doubted."""

    def __init__(self, segments: Segments, table: DamageTable) -> None:
        self._segments = segments
        self._table = table
        self._next: dict[ConsumeQueue, int] = {}
        self._doubted: list[tuple[ConsumeQueue, int, int]] = []
        self.shortened: list[tuple[ConsumeQueue, int]] = []  # with the end of each before that

    def begin(self, starts: Iterable[tuple[ConsumeQueue, int]]) -> None:
        """Set the first offset of each queue that a record has to come for."""
        self._next = dict(starts)

    def saw(self, queue: ConsumeQueue, record: Scanned) -> None:
        """Note a record of a queue."""
        offset = record.queue_offset
        expected = self._next.get(queue, 0)
        if offset > expected:
            self._doubted.append((queue, expected, offset))
        self._next[queue] = offset + record.messages

    def cut(self, queue: ConsumeQueue, offset: int) -> bool:
        """Cut off what leads nowhere at a queue's end, down to an offset; False if nothing does.

        For a place in the log behind all that the queue leads to.
        """
        end = queue.max_offset
        while end > offset and self.is_dangling(queue, end - 1):
            end -= 1
        return self._cut_to(queue, end)

    def drop(
        self, patches: Patches, without_blanks: Callable[[ConsumeQueue, int], int]
    ) -> tuple[int, int]:
        """Cut off, or collect as blank, each doubted entry without a message.

        Returns how many queues were cut, and how many entries became blank. An entry that leads
        into a damaged span stays: what it led to is lost there. Of blanks before an end that is cut
        off those go, too, that `without_blanks` leaves out: the end alone spoke of them.
        """
        ends = [(queue, offset, queue.max_offset) for queue, offset in self._next.items()]
        found: dict[ConsumeQueue, set[int]] = {}
        for queue, first, last in self._doubted + ends:
            for offset in range(max(first, queue.min_offset), min(last, queue.max_offset)):
                if self.is_dangling(queue, offset):
                    found.setdefault(queue, set()).add(offset)
        queues_cut = entries_blank = 0
        for queue, offsets in found.items():
            end = queue.max_offset
            while end - 1 in offsets:
                end = without_blanks(queue, end - 1)
            queues_cut += self._cut_to(queue, end)
            for offset in offsets:
                if offset < end:
                    patches.put(queue, offset, Entry(0, BLANK_SIZE, 0))
                    entries_blank += 1
        return queues_cut, entries_blank

    def _cut_to(self, queue: ConsumeQueue, end: int) -> bool:
        if end >= queue.max_offset:
            return False
        self.shortened.append((queue, queue.max_offset))
        queue.truncate(end)
        return True

    def is_dangling(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether an entry leads to no message of its queue, and into no damaged span."""
        position, size, _ = queue.entry(offset)
        if not 0 < size != BLANK_SIZE or 0 <= position < self._segments.begin:
            return False
        return self._table.at(position) is None and not has_message(self._segments, queue, offset)


def has_message(segments: Segments, queue: ConsumeQueue, offset: int) -> bool:
    """Whether the log has the message of an entry.

    An entry that never reached the disk is all zeros: it speaks of no record, and above all not of
    the one that the log begins with.
    """
    place, size, _ = queue.entry(offset)
    there = sound_record(segments, place) if 0 < size != BLANK_SIZE else None
    if there is None or there.size != size:
        return False
    own = (there.prefix, there.queue_id) == (queue.prefix, queue.queue_id)
    return own and 0 <= offset - there.queue_offset < there.messages
