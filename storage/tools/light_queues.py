"""Whether light queues and the log agree: every entry has its message, every message its entry."""

from collections import Counter
from collections.abc import Iterator

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.errors import StoreError
from aerobee.storage.log.scan import LogScan, Scanned, tags_code
from aerobee.storage.parts import StoreParts
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.light_queues import LightRecovery, light_offsets, light_records


class LightCheck:
    """One look at the light queues of a store at rest, whose log ends at `end`.

    Behind `unwritten_from` the queues' files need not have all entries. Nothing is written.
    """

    def __init__(self, parts: StoreParts, end: int, unwritten_from: int) -> None:
        self._parts = parts
        self._end = end
        self._unwritten_from = unwritten_from
        self._queues: dict[str, ConsumeQueue] = {}
        self._unreadable: set[str] = set()
        self._vouched = Counter[str]()  # messages that have their entry
        self._next: dict[str, int] = {}  # of entries that are missing at a queue's end
        self.bad: set[str] = set()  # queues with problems

    def problems(self) -> Iterator[str]:
        """Yield a sentence for each; nothing where light queues have never been filled."""
        if not LightRecovery(self._parts).wanted:
            return
        for name, queue_id in self._parts.queues.light_names:
            queue = self._parts.queues.get(name, queue_id)
            try:
                queue.load(0)
            except StoreError as error:
                self._unreadable.add(name)
                self.bad.add(name)
                yield f"{queue.directory}: {error}"
                continue
            queue.trim(self._parts.segments.begin)
            self._queues[name] = queue
        for record in light_records(self._parts, self._parts.segments.begin, self._end):
            for name, offset in light_offsets(self._parts, record):
                if name not in self._unreadable:
                    yield from self._problem(name, offset, record)
        for name, queue in self._queues.items():
            yield from self._entries(name, queue)

    def _problem(self, name: str, offset: int, record: Scanned) -> Iterator[str]:
        """Look at the entry of a message that a record says it has."""
        queue = self._queues.get(name)
        if queue is not None and offset < queue.min_offset:
            return
        if queue is None or offset >= queue.max_offset:
            first = 0 if queue is None else queue.max_offset
            if not first and self._parts.segments.begin:
                first = offset  # those before it have gone with the log
            if record.position >= self._unwritten_from or offset != self._next.get(name, first):
                return
            self._next[name] = offset + 1
            self.bad.add(name)
            yield f"{name} offset {offset}: the record at {record.position} has no entry"
            return
        found = queue.entry(offset)
        code = tags_code(record, record.topic, self._parts.settings.delay_levels_ms)
        if found == (record.position, record.size, code):
            self._vouched[name] += 1
        elif found[:2] == (record.position, record.size):
            self._vouched[name] += 1
            self.bad.add(name)
            yield (
                f"{name} offset {offset}: tags code {found[2]}, the record at {record.position}"
                " has other tags"
            )

    def _entries(self, name: str, queue: ConsumeQueue) -> Iterator[str]:
        """Look for entries without a message, where there are more than messages have."""
        count = 0
        for offset in range(queue.min_offset, queue.max_offset):
            position, size, _ = queue.entry(offset)
            count += size != BLANK_SIZE and position < self._end
        if count == self._vouched[name]:
            return
        last = -1
        for offset in range(queue.min_offset, queue.max_offset):
            position, size, _ = queue.entry(offset)
            if size == BLANK_SIZE or position >= self._end:
                continue
            if position <= last or not self._names(name, offset, position, size):
                self.bad.add(name)
                yield (
                    f"{name} offset {offset}: the entry leads to {size} bytes at {position}, where"
                    " no record names it"
                )
            last = max(last, position)

    def _names(self, name: str, offset: int, position: int, size: int) -> bool:
        """Whether there is a record that is a queue's message of an offset."""
        segment = self._parts.segments.find(position)
        if segment is None:
            return False
        record = next(iter(LogScan(self._parts.segments, position, check_crc=False)), None)
        if record is None or (record.position, record.size) != (position, size):
            return False
        return (name, offset) in light_offsets(self._parts, record)
