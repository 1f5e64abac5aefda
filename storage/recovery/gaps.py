"""How many messages a queue may have lost before a record: what makes its offset one to believe."""

from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.log.damage import DamageTable
from aerobee.storage.log.scan import Scanned
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.files import BLANK_ENTRY, ENTRY, SCAN_ENTRIES
from aerobee.storage.recovery.dangling import has_message
from aerobee.storage.recovery.last_batches import bytes_min

_NOWHERE: Final = (bytes(ENTRY_BYTES), BLANK_ENTRY)


class Gaps:
    """Looks at the log between a queue's last message and a record; `lost` says what is damaged."""

    def __init__(self, segments: Segments, lost: tuple[DamageTable, ...]) -> None:
        self._segments = segments
        self._lost = lost
        self._ends: dict[ConsumeQueue, tuple[int, int]] = {}  # the offset each was looked for at

    def begin(self, queue: ConsumeQueue) -> int:
        """Return from where on the log may have messages that the queue does not know.

        A batch that cannot be read may have had more than the entries that are left of it: then
        from its own first byte.
        """
        end = queue.end_position()
        if end and queue.batched and not has_message(self._segments, queue, queue.max_offset - 1):
            return max(0, queue.last_position())
        return end

    def room(self, queue: ConsumeQueue, position: int) -> int:
        """Return how many messages the log has room for behind the queue's last one."""
        begin = self.begin(queue)
        if begin > position:  # of an entry that is damaged
            begin = 0
        return (position - begin) // bytes_min(queue)

    def jumps(self, queue: ConsumeQueue, record: Scanned, expected: int) -> bool:
        """Whether a record leaves out offsets, and nothing that is lost can have had them.

        Its offset, queue or topic may be damaged, which the next record of the queue tells. Of
        a queue that the log's first byte is too young for nobody knows what it had.
        """
        if record.queue_offset == expected:
            return False
        begin = self.begin(queue)
        if begin <= self._segments.begin > 0:
            return False
        if begin > record.position:
            return False  # the queue's last entry is what is damaged
        lost = sum(each.bytes_between(begin, record.position) for each in self._lost)
        return record.queue_offset - expected > lost // bytes_min(queue)

    def known_end(self, queue: ConsumeQueue) -> int:
        """Return one past the last byte of the newest message that an entry leads to, 0 for none.

        A queue may end with blanks, or with zeros that a loss of power has left.
        """
        if (end := queue.end_position()) or queue.max_offset <= queue.min_offset:
            return end
        known, end = self._ends.get(queue, (-1, 0))
        if known != queue.max_offset:
            end = _last_end(queue)
            self._ends[queue] = (queue.max_offset, end)
        return end

    def end_without_blanks(self, queue: ConsumeQueue, end: int, log_end: int) -> int:
        """Return the offset where the blanks before one begin, less those that damage explains."""
        last = end
        while last > queue.min_offset and queue.place_of(last - 1)[1] == BLANK_SIZE:
            last -= 1
        begin = sum(queue.place_of(last - 1)) if last > queue.min_offset else 0
        lost = sum(each.bytes_between(begin, log_end) for each in self._lost)
        return min(end, last + lost // bytes_min(queue))


def _last_end(queue: ConsumeQueue) -> int:
    offset = queue.max_offset
    while offset > queue.min_offset:
        first = max(queue.min_offset, (offset - 1) // SCAN_ENTRIES * SCAN_ENTRIES)
        data = b""
        while (at := first + len(data) // ENTRY_BYTES) < offset:
            data += queue.copied(at, offset - at)
        if all(data != entry * (offset - first) for entry in _NOWHERE):
            for position, size, _ in reversed([*ENTRY.iter_unpack(data)]):
                if 0 < size != BLANK_SIZE:
                    return int(position + size)
        offset = first
    return 0
