"""New messages of compaction topics go into their copies, in a thread, once the log has them safe.

What was not copied yet keeps its files of the log: `kept_from` says where they begin.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

import msgspec

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE, ENTRY_FIELDS
from aerobee.remoting.message.record import decode_record
from aerobee.storage.errors import StoreError
from aerobee.storage.features.compaction.copied_queue import CopiedQueue, Gone
from aerobee.storage.features.compaction.copies import Copies
from aerobee.storage.features.compaction.records import key_of
from aerobee.storage.features.compaction.source import CopySource
from aerobee.storage.features.compaction.writing import Copy
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.reads.cold.fetching import NotFetchedError, fetch
from aerobee.storage.reads.cold.request import ColdRequest
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

QUEUES_PER_LOOK: Final = 2000
ENTRIES_PER_JOB: Final = 2048
BYTES_PER_JOB: Final = 4 << 20
JOBS_MAX: Final = 8  # that wait for the thread; other queues wait for their turn
_ENTRY: Final = ENTRY_FIELDS.run()

QueueName = tuple[str, int]


class Run(Protocol):
    """Runs `work` in the thread of the copies, and `done` with its outcome on the loop."""

    def __call__(
        self, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None: ...


class CopyJob(msgspec.Struct, frozen=True):
    """Entries of one queue that are to be copied, those whose records end before `safe`."""

    copy: CopiedQueue
    source: CopySource
    safe: int

    def run(self) -> None:
        """Copy some; OSError, StoreError, Gone: the rest waits for the next job."""
        log_then, queue = self.source.log, self.source.queue
        self.copy.load(queue.min_offset, queue.max_offset, self.source)
        offset = max(self.copy.end, queue.min_offset)
        if offset >= queue.max_offset:
            return
        count = min(ENTRIES_PER_JOB, queue.max_offset - offset)
        request = ColdRequest(log_then, queue, offset, count, count, BYTES_PER_JOB, every=True)
        fetched = fetch(self.source.files, request)
        fetched.check_files(queue.folder, offset, log_then.begin)
        entries, at, found = fetched.run(offset, count)
        copies: list[Copy] = []
        for number in range(found):
            position, size, code = _ENTRY.unpack_from(entries, at + number * _ENTRY.size)
            is_blank = not 0 < size < BLANK_SIZE
            if not is_blank and position + size > self.safe:
                break
            if not is_blank:
                try:
                    record = fetched.record(position, size)
                except NotFetchedError:
                    break
                if record is not None and (copy := _copy(offset, code, bytes(record))) is not None:
                    copies.append(copy)
            offset += 1
        self.copy.append(copies, offset)


def _copy(offset: int, tags_code: int, data: bytes) -> Copy | None:
    """Return what is to be copied of a record, None for one that is damaged or has no key."""
    try:
        record = decode_record(data)
    except CorruptRecord as error:
        log.error("compaction_record_unreadable offset=%d error=%s", offset, error)
        return None
    if key_of(record.properties) is None:
        return None
    return Copy(offset, tags_code, record.store_timestamp, data)


class Copying:
    """Finds queues that have something new, some thousand at a look, and has it copied.

    `names` are the queues of the topics in question. Everything but the jobs is the loop's.
    """

    def __init__(
        self,
        store: MessageStore,
        copies: Copies,
        names: Callable[[], Iterator[QueueName]],
        run: Run,
    ) -> None:
        self._store = store
        self._copies = copies
        self._names = names
        self._run = run
        self._walk: Iterator[QueueName] = iter(())
        self._walk_began = self._seen_from = 0  # positions of the log
        self._behind: dict[QueueName, int] = {}  # to the position of what is not safe yet
        self._waiting: dict[QueueName, None] = {}  # queues with something new, in turn
        self._under_way: set[QueueName] = set()
        self._beginning = False
        self.failures: dict[QueueName, Exception] = {}

    def look(self) -> None:
        """Look at some queues and have them copied; to be called now and then."""
        looked_at = 0
        for name in islice(self._walk, QUEUES_PER_LOOK):
            looked_at += 1
            self._look_at(name)
        self._begin_waiting()
        if looked_at < QUEUES_PER_LOOK:  # all were looked at: what came before is known
            self._seen_from = self._walk_began
            self._walk_began = self._store.commit_log.committed
            self._walk = self._names()
            for name in self._behind:  # a topic may have fewer queues than it had
                self._waiting.setdefault(name)

    def begin_at(self, position: int) -> None:
        """Take a position of the log before which no such topic has a message."""
        self._seen_from = self._walk_began = position
        self._walk = iter(())

    def kept_from(self) -> int:
        """Return the position behind which the log is still needed."""
        return min(self._seen_from, *self._behind.values()) if self._behind else self._seen_from

    @property
    def behind(self) -> int:
        """How many queues have messages that are not safe in their copies yet."""
        return len(self._behind)

    def synced(self) -> None:
        """Take note of what is on the disk now."""
        for name in list(self._behind):
            queue = self._store.find_queue(*name)
            copy = self._copies.queue(*name)
            if queue is None:
                del self._behind[name]
            elif self._is_doubted(copy, queue):
                continue
            elif copy.synced_end >= queue.max_offset:
                del self._behind[name]
            else:
                self._note_behind(name, queue)

    def dirty(self) -> list[tuple[QueueName, CopiedQueue]]:
        """Return the queues whose copies have more than was synced."""
        found = [(name, self._copies.queue(*name)) for name in self._behind]
        return [(name, copy) for name, copy in found if copy.loaded and copy.end > copy.synced_end]

    def forget(self, topic: str) -> None:
        """Need nothing more for a topic that was deleted."""
        for name in [name for name in self._behind if name[0] == topic]:
            del self._behind[name]
        for name in [name for name in self.failures if name[0] == topic]:
            del self.failures[name]
        for name in [name for name in self._waiting if name[0] == topic]:
            del self._waiting[name]

    def job(self, name: QueueName) -> CopyJob | None:
        """Return what there is to do for a queue, None where nothing is."""
        queue = self._store.find_queue(*name)
        if queue is None or not queue.max_offset:
            return None
        copy = self._copies.queue(*name)
        ended = max(copy.end, queue.min_offset) >= queue.max_offset
        if ended and not self._is_doubted(copy, queue):
            return None
        log_now = self._store.commit_log
        source = CopySource(self._store.files, log_now.snapshot(), queue.snapshot())
        return CopyJob(copy, source, log_now.flushed_position)

    def _look_at(self, name: QueueName) -> None:
        queue = self._store.find_queue(*name)
        if queue is None or not queue.max_offset:
            return
        copy = self._copies.queue(*name)
        doubted = self._is_doubted(copy, queue)
        if doubted:
            self._behind[name] = self._store.commit_log.begin
        elif copy.synced_end < queue.max_offset:
            self._note_behind(name, queue)
        if doubted or copy.end < queue.max_offset:
            self._waiting.setdefault(name)

    def _is_doubted(self, copy: CopiedQueue, queue: ConsumeQueue) -> bool:
        """Whether a copy that was not looked at may be one of a topic that was deleted since."""
        if copy.loaded:
            return False
        return copy.end > queue.max_offset or self._store.queues.deleted.before(queue.topic) > 0

    def _note_behind(self, name: QueueName, queue: ConsumeQueue) -> None:
        offset = max(self._copies.queue(*name).synced_end, queue.min_offset)
        position = None
        if offset < queue.max_offset:
            with suppress(OSError):  # then all is kept that there is
                position = queue.entry(offset)[0]
        self._behind[name] = self._store.commit_log.begin if position is None else position

    def _begin_waiting(self) -> None:
        """Begin with those that wait longest, as many as there is room for."""
        if self._beginning:  # a job has ended as it began: no thread can be had
            return
        self._beginning = True
        while self._waiting and len(self._under_way) < JOBS_MAX:
            name = next(iter(self._waiting))
            del self._waiting[name]
            self._begin(name)
        self._beginning = False

    def _begin(self, name: QueueName) -> None:
        if name in self._under_way:  # it has its turn again, if there is more
            return
        job = self.job(name)
        if job is None or job.safe <= job.source.log.begin:
            return
        self._under_way.add(name)
        before = job.copy.end

        def done(error: Exception | None) -> None:
            self._under_way.discard(name)
            self._ended(name, error)
            if error is None and job.copy.end > before:
                self._waiting.setdefault(name)
            self._begin_waiting()

        self._run(job.run, done)

    def _ended(self, name: QueueName, error: Exception | None) -> None:
        if error is None:
            if self.failures.pop(name, None) is not None:
                log.info("compaction_copy_goes_on topic=%s queue=%d", *name)
        elif isinstance(error, Gone):
            return
        elif name not in self.failures:
            self.failures[name] = error
            log.error("compaction_copy_failed topic=%s queue=%d error=%s", *name, error)
            if not isinstance(error, OSError | StoreError):
                log.exception("compaction_copy_fault", exc_info=error)
