"""Tells records of topics that were deleted from records that lost their queue entry.

A deleted topic's queues go, its records stay in the log until they are old. When the topic is made
again its queues begin anew at offset 0. What we have deleted is noted (`Deleted`); what RocketMQ
has is told by what its queues have.
"""

from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.consume_queues import ConsumeQueues
from aerobee.storage.recovery.mending import record_of

FIRST_ENTRIES: Final = 1000  # of a queue, looked at to learn where its life begins


class TopicLives:
    """Where the present life of each topic begins in the log, as its queues tell.

    A topic without any queue was deleted, unless the broker's table lists it: then it has lost its
    folder. Without a table its empty folder says so, which a deletion does not leave. A store
    without the folder of all queues has lost them.
    """

    def __init__(self, segments: Segments, queues: ConsumeQueues) -> None:
        self._segments = segments
        self._queues = queues
        self._firsts: dict[ConsumeQueue, tuple[int, int] | None] = {}
        self._topics: dict[str, int] | None = None
        self._folders: frozenset[str] = frozenset()
        self._with_files: dict[tuple[str, int], bool] = {}

    def is_over(self, topic: str, queue_id: int, offset: int, position: int) -> bool:
        """Whether a record that should have an entry is of a life that has ended."""
        if position < self._queues.deleted.before(topic):
            return True
        queue = self._queues.find(topic, queue_id)
        if queue is not None and (first := self.first(queue)) is not None:
            return offset >= first[0] and position < first[1]
        if queue is not None and self._has_files(queue):
            return False  # its first entry is damaged, or its files are
        if self._topics is None:
            roots = [root for root in self._queues.roots if root.is_dir()]
            if not roots:
                return False
            self._topics = self._begins()
            self._folders = frozenset(path.name for root in roots for path in root.iterdir())
        if topic not in self._topics:
            return topic not in (self._queues.listed_topics() or self._folders)
        return position < self._topics[topic]

    def first(self, queue: ConsumeQueue) -> tuple[int, int] | None:
        """Return offset and position of the first entry that has its record, as it was found.

        One that has none, a flipped one, says nothing of where the queue's life begins.
        """
        if queue not in self._firsts:
            self._firsts[queue] = None
            low = queue.min_offset
            for offset in range(low, min(queue.max_offset, low + FIRST_ENTRIES)):
                position, size, _ = queue.entry(offset)
                if size != BLANK_SIZE and record_of(self._segments, queue, offset, position, size):
                    self._firsts[queue] = (offset, position)
                    break
        return self._firsts[queue]

    def _has_files(self, queue: ConsumeQueue) -> bool:
        key = (queue.topic, queue.queue_id)
        if key not in self._with_files:
            self._with_files[key] = bool(queue.spans())
        return self._with_files[key]

    def _begins(self) -> dict[str, int]:
        """Return by topic where the first record lies that any of its queues has.

        0, before which there is nothing, where a queue has lost older entries to age: it is no
        longer known then when that life began.
        """
        begins: dict[str, int] = {}
        for queue in self._queues:
            if queue.max_offset > 0:
                first = self.first(queue) if queue.min_offset == 0 else None
                begin = first[1] if first is not None else 0
                begins[queue.topic] = min(begin, begins.get(queue.topic, begin))
        return begins
