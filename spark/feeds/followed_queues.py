"""The queues of a store that is followed: a look costs one small read for a queue, not a search.

What a queue's files told at the last look is kept: its file, its last entry, and how many there
were. The next look reads the entries from the last one on; only where that one is not the same any
more, or the file has ended, the queue's files are searched again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from aerobee.remoting.message.layout import BLANK_SIZE, ENTRY_FIELDS
from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.queue_entries import ENTRY_BYTES, NOWHERE, ConsumeQueueFiles
from aerobee.spark.at_rest.queue_folders import batches_dir, topic_dirs
from aerobee.spark.at_rest.queue_ranges import StoreState, is_topic, queue_number
from aerobee.spark.feeds.followed_log import Folder
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.topics import TopicChoice

LAG_NS = 2_000_000_000  # by when a broker usually has dispatched what its log has
IDLE_NS = 1_000_000_000  # how often queues are looked at whose log does not grow
_ENTRIES_READ = 32  # at a look; where more are new, they are searched
_ENTRY = ENTRY_FIELDS.run()


@dataclass(slots=True)
class _Queue:
    """What the last look has found of one queue."""

    path: str  # of the file with its last entry
    base: int  # the number of that file's first entry
    start: int
    end: int
    last: int  # the log position in the last entry
    stale: bool = False  # it may begin later by now


class QueueWatch:
    """The wanted queues of one store and where they end, from look to look."""

    def __init__(self, choice: TopicChoice) -> None:
        self._choice = choice
        self._topics: list[Folder] = []  # that topics' folders are in
        self._folders: dict[str, Folder] = {}
        self._queues: dict[BrokerQueue, _Queue] = {}
        self._bounds: dict[BrokerQueue, QueueRange] = {}
        self._log = (-1, -1)  # the log's start and end at the last look
        self._grown_ns = self._read_ns = 0
        self.replaced: dict[BrokerQueue, int] = {}

    def look(self, state: StoreState) -> dict[BrokerQueue, QueueRange]:
        """Each wanted queue's messages within the log; those without a file are left out.

        `replaced` are afterwards those whose last entry has gone, or leads elsewhere, and the log
        position that it had led to.
        """
        self.replaced = {}
        now = time.monotonic_ns()
        if (state.start, state.end) == self._log:
            idle = now - self._grown_ns > LAG_NS
            if idle and now - self._read_ns < IDLE_NS:
                return self._bounds
        else:
            self._grown_ns = now
            if state.start != self._log[0]:
                for known in self._queues.values():
                    known.stale = True  # retention: all may begin later
            self._log = state.start, state.end
        self._read_ns = now
        found = {}
        for key, queue_dir in self._queue_dirs(state):
            queue: _Queue | None = self._queues.get(key)
            if queue is None or queue.stale or not self._advance(queue, state.end):
                queue = self._searched(key, queue_dir, state)
                if queue is None:
                    self._queues.pop(key, None)
                    continue
                self._queues[key] = queue
            found[key] = QueueRange(key, queue.start, queue.end)
        for key in self._queues.keys() - found.keys():
            del self._queues[key]
        self._bounds = found
        return found

    def last_position(self, key: BrokerQueue, offset: int) -> int | None:
        """Where the message before an offset stands, if that is the queue's end; else None."""
        queue = self._queues.get(key)
        return queue.last if queue is not None and queue.end == offset else None

    def _advance(self, queue: _Queue, log_end: int) -> bool:
        """Count the entries that are new; False where the queue has to be searched."""
        first = max(queue.base, queue.end - 1)
        try:
            fd = disk.open_file(queue.path)
            try:
                data = disk.read(
                    fd, _ENTRIES_READ * ENTRY_BYTES, (first - queue.base) * ENTRY_BYTES
                )
            finally:
                disk.close(fd)
        except OSError:
            return False
        data = data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]
        for at, (stored, size, _) in enumerate(_ENTRY.iter_unpack(data), first):
            position = -1 if size == BLANK_SIZE else stored
            if at < queue.end:
                if position != queue.last:
                    return False
            elif size <= 0 or position >= log_end:
                return True
            else:
                queue.end, queue.last = at + 1, position
        return False  # at the end of the file, or of what was read

    def _queue_dirs(self, state: StoreState) -> list[tuple[BrokerQueue, str]]:
        """The wanted queues and their folders."""
        store = state.store
        queues_dir = store.queues_dir or ""
        if not self._topics or self._topics[0].path != queues_dir:
            self._topics = [Folder(queues_dir), Folder(batches_dir(queues_dir))]
            self._folders = {}
        changed = [each.changed() for each in self._topics]  # both are looked at
        if any(changed):
            known = {folder.path: folder for folder in self._folders.values()}
            self._folders = {
                topic: known.get(path) or Folder(path)
                for topic, path in topic_dirs(store.queues_dir).items()
                if is_topic(topic) and self._choice.wants(topic)
            }
        found = []
        for topic, folder in self._folders.items():
            folder.changed()
            for name in folder.names:
                if (number := queue_number(name)) is not None:
                    key = BrokerQueue(store.label, topic, number)
                    if self._choice.wants_queue(key):
                        found.append((key, f"{folder.path}/{name}"))
        return found

    def _searched(self, key: BrokerQueue, queue_dir: str, state: StoreState) -> _Queue | None:
        """One queue as its files tell it; None where it has none."""
        known = self._queues.get(key)
        with ConsumeQueueFiles(queue_dir) as entries:
            if entries.end == entries.first:
                return None
            if known is not None and known.last >= 0:
                there = entries.position(known.end - 1)
                if there >= 0 and there != known.last:  # not there where retention had it
                    self.replaced[key] = known.last
            start, end = entries.bounds(state.start, state.end)
            last = entries.position(end - 1) if end > entries.first else -1
            path, base = entries.file_of(max(entries.first, end - 1)) or ("", 0)
            return _Queue(path, base, start, end, last if last < NOWHERE else -1)
