"""Every queue of the store by topic and number."""

import gc
import json
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from operator import itemgetter
from typing import Final

from aerobee.remoting.words import LIGHT_QUEUE_PREFIX
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreError
from aerobee.storage.grouped_keys import GroupedKeys
from aerobee.storage.layout import (
    BATCH_ENTRIES,
    BATCH_UNITS,
    CONSUME_QUEUE,
    TOPICS,
    file_name,
    queue_names,
)
from aerobee.storage.log.aside import Aside
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.cut_ends import CutEnds
from aerobee.storage.queues.deleted import Deleted
from aerobee.storage.queues.expired import Expired
from aerobee.storage.queues.files import remove_behind
from aerobee.storage.queues.light import LIGHT_QUEUE_ID
from aerobee.storage.queues.map_pool import MapPool
from aerobee.storage.queues.mending_note import MendingNote
from aerobee.storage.queues.patches import make_blank
from aerobee.storage.settings import StoreSettings

log = logging.getLogger(__name__)

TABLE_BYTES_MAX: Final = 256 << 20
GAP_FILES_MAX: Final = 100  # that are missing in a row; more are no loss but a wrong name


@contextmanager
def no_collections() -> Iterator[None]:
    """Make many objects, all of which stay, without looking for garbage among them each time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class ConsumeQueues:
    """The table of queues; a queue exists in memory before its first message makes a file."""

    def __init__(self, files: Files, settings: StoreSettings, *, write: bool) -> None:
        self._files = files
        self._settings = settings
        self._write = write
        self.root = settings.root / CONSUME_QUEUE
        self._root_name = str(self.root)
        self._batch_root = settings.root / BATCH_ENTRIES
        self.roots = self.root, self._batch_root
        self._batch_topics: set[str] = set()
        self.deleted = Deleted(files, settings.root)
        self.expired = Expired(files, settings.root)
        self.table: dict[tuple[str, int], ConsumeQueue] = {}
        self._by_topic = GroupedKeys(self.table, itemgetter(0))
        pool = MapPool(lambda: files.queue_maps_max)
        self._access = QueueAccess(files, settings.queue_file_entries, write, pool)
        self._listed: dict[str, bool] | None = None  # and whether each is of type BatchCQ
        self.cut = CutEnds(files, settings.root)  # by recovery; the disk may not know of it yet
        self.light_names: dict[tuple[str, int], None] = {}  # on the disk, not loaded with others
        self.damaged: list[ConsumeQueue] = []  # with files that were lost or of another size

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self.table.values())

    def __len__(self) -> int:
        return len(self.table)

    def load(self, known: Mapping[tuple[str, int], int], *, stopped: bool = False) -> None:
        """Find the queues on disk and their ends; below the offsets in `known` all is sound."""
        self.deleted.load()
        self.expired.load()
        with no_collections():
            self._load(known, stopped=stopped)

    def _load(self, known: Mapping[tuple[str, int], int], *, stopped: bool) -> None:
        bad: list[tuple[ConsumeQueue, StoreError]] = []
        self._find_batched()
        for topic, queue_id in self._names():
            if self.is_light(topic):
                self.light_names[topic, queue_id] = None
                continue
            queue = self.get(topic, queue_id)
            try:
                queue.load(known.get((topic, queue_id), 0), stopped=stopped)
            except StoreError as error:
                bad.append((queue, error))
        if bad and self._write:
            self.note_damaged([queue for queue, _ in bad])
        for queue, reason in bad:
            self._load_damaged(queue, reason)
        if self._write:
            self.cut.load(self.find)

    def _find_batched(self) -> None:
        """Learn which topics are of type BatchCQ: from the broker's table, and from folders."""
        self._batch_topics = {topic for topic, batched in self._listing().items() if batched}
        for folder in (BATCH_ENTRIES, BATCH_UNITS):
            for topic, _ in queue_names(self._settings.root, folder):
                if self._listing().get(topic, True):
                    self._batch_topics.add(topic)

    def _names(self) -> Iterator[tuple[str, int]]:
        """Walk the queues that have files; those of a topic's life of another type are left."""
        for folder, batched in ((CONSUME_QUEUE, False), (BATCH_ENTRIES, True)):
            left = set()
            for topic, queue_id in queue_names(self._settings.root, folder):
                if (topic in self._batch_topics) == batched:
                    yield topic, queue_id
                else:
                    left.add(topic)
            for topic in left:
                log.warning(
                    "queue_folder_left path=%s reason='its topic is of another queue.type'"
                    " advice='remove it once the broker has stopped'",
                    self._settings.root / folder / topic,
                )

    def shown_from(self, topic: str) -> int:
        """Return the position of the log before which nothing of a topic is shown any more.

        What lies before it is of a topic that was deleted, or has expired by its retention.
        """
        return max(self.deleted.before(topic), self.expired.before(topic))

    def is_batched(self, topic: str) -> bool:
        """Whether the messages of a topic may share a record (`queue.type=BatchCQ`)."""
        return topic in self._batch_topics

    def note_batched(self, topic: str) -> None:
        """Let a topic be one whose messages may share a record, before its queues are used."""
        if topic not in self._batch_topics:
            self._batch_topics.add(topic)
            for queue in self.of_topics([topic]):
                if queue.max_offset or queue.changed:
                    queue.batched = True  # its files stay where they are
                else:
                    self._by_topic.remove((topic, queue.queue_id))

    def forget_batched(self, topic: str) -> None:
        """Forget what a topic was that was deleted."""
        self._batch_topics.discard(topic)

    def note_damaged(self, bad: list[ConsumeQueue]) -> None:
        """Note what is to be written again before a file of blanks stands for a lost one."""
        note = MendingNote(self._files, self._settings.root)
        note.begin([*bad, *(self.get(*key) for key in note.read())])

    def _load_damaged(self, queue: ConsumeQueue, error: StoreError) -> None:
        """Set aside a queue's files of another size, and put blank ones where files are missing.

        Where no file of any queue has the size that the settings say, they are what is wrong.
        """
        whole = any(
            span.size == each.file_bytes for each in self.table.values() for span in each.spans()
        )
        if not whole:
            raise error
        self.damaged.append(queue)
        if not self._write:
            return  # it counts as empty
        log.error("queue_damaged queue=%s reason=%s", queue.directory, error)
        aside = Aside(self._files, self._settings)
        for span in queue.spans():
            if span.size != queue.file_bytes or span.begin % queue.file_bytes:
                aside.keep_queue_file(span.path, "wrong-size")
        spans = queue.spans()
        for before, after in pairwise(spans):
            if after.begin - before.begin > GAP_FILES_MAX * queue.file_bytes:
                raise error
            for begin in range(before.begin + queue.file_bytes, after.begin, queue.file_bytes):
                path = queue.directory / file_name(begin)
                make_blank(self._files, path, self._settings.queue_file_entries)
        queue.load()

    def drop_behind(self, queue: ConsumeQueue) -> None:
        """Remove files that lie behind the end of a queue, but for one that may be its only one."""
        if self._write and queue.newest_file >= max(1, queue.max_offset):
            remove_behind(self._files, queue.spans(), max(1, queue.max_offset))

    @property
    def maps(self) -> int:
        """How many files of queues are mapped now."""
        return self._access.pool.count

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue if it exists."""
        return self.table.get((topic, queue_id))

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, made on first use; nothing is written for it yet."""
        queue = self.table.get((topic, queue_id))
        if queue is None:
            queue = ConsumeQueue(
                self._access,
                self._directory(topic, queue_id),
                topic,
                queue_id,
                self.deleted.before(topic),
            )
            self._by_topic.put((topic, queue_id), queue)
            queue.batched = topic in self._batch_topics
        return queue

    @property
    def refused(self) -> dict[ConsumeQueue, OSError]:
        """Queues whose files could not be made or written when that was tried last, and why."""
        return self._access.refused

    def take_changed(self) -> list[ConsumeQueue]:
        """Return the queues that have changed since each was settled last; the list is new."""
        changes = self._access.changes
        changed = changes[:]
        changes.clear()  # the queues reach this very list
        return changed

    def _directory(self, topic: str, queue_id: int) -> str:
        if not topic or "/" in topic or "\0" in topic or topic in (".", "..") or queue_id < 0:
            raise ValueError(f"{topic!r}, queue {queue_id}, cannot be the name of a queue")
        root = self._batch_root if topic in self._batch_topics else self._root_name
        return f"{root}/{topic}/{queue_id}"

    def topics(self) -> dict[str, list[int]]:
        """Return the numbers of each topic's queues."""
        topics: dict[str, list[int]] = {}
        for topic, queue_id in sorted(self.table):
            topics.setdefault(topic, []).append(queue_id)
        return topics

    def listed_topics(self) -> Collection[str]:
        """Return the topics that the broker's own table lists; none where it cannot be read.

        A topic that was deleted is not there (TopicConfigManager).
        """
        return self._listing().keys()

    def _listing(self) -> dict[str, bool]:
        if self._listed is None:
            data = self._files.read_all(self._settings.root / TOPICS, TABLE_BYTES_MAX) or b"{}"
            try:
                table = json.loads(data).get("topicConfigTable", {})
                self._listed = {name: _is_batched(topic) for name, topic in table.items()}
            except (ValueError, AttributeError, TypeError):
                self._listed = {}
        return self._listed

    def is_light(self, topic: str) -> bool:
        """Whether a name is that of a light queue: the broker's table lists no topic so called."""
        return topic.startswith(LIGHT_QUEUE_PREFIX) and topic not in self.listed_topics()

    def has_light(self, name: str) -> bool:
        """Whether a light queue of that name has been filled; for a name that is no topic's."""
        queue = self.find(name, LIGHT_QUEUE_ID) if name.startswith(LIGHT_QUEUE_PREFIX) else None
        return queue is not None and queue.max_offset > 0

    def of_topics(self, topics: Collection[str]) -> list[ConsumeQueue]:
        """Return the queues of some topics."""
        return [self.table[key] for topic in topics for key in self._by_topic.of(topic)]

    def delete(self, queues: Collection[ConsumeQueue]) -> None:
        """Forget queues that are noted as deleted, and remove their files.

        What the disk keeps of them is removed by the next start, or by the topic's next life.
        """
        for queue in queues:
            queue.gone = True
            try:
                self.remove_files(queue)
            except OSError as error:
                log.error("queue_not_removed queue=%s error=%s", queue.directory, error)
            self._by_topic.remove((queue.topic, queue.queue_id))
        for folder in {queue.directory.parent for queue in queues}:
            self._files.remove_directory(folder)

    def remove_files(self, queue: ConsumeQueue) -> None:
        """Remove a queue's files, the newest first, and its directory.

        What is left by an end in between is a shorter queue that begins where it began.
        """
        queue.drop()
        for span in reversed(queue.spans()):
            self._files.remove(span.path)
        self._files.remove_directory(queue.directory)

    def remove_left(self, queue: ConsumeQueue) -> None:
        """Remove files that were made for a queue while its topic was deleted.

        Of the topic's next life, if that has begun, those stay that have entries.
        """
        found = self.find(queue.topic, queue.queue_id)
        try:
            if found is None:
                self.remove_files(queue)
            else:
                remove_behind(self._files, found.spans(), max(1, found.written))
        except OSError as error:
            log.error("queue_not_removed queue=%s error=%s", queue.directory, error)
        if found is None:
            self._files.remove_directory(queue.directory.parent)

    def max_end_position(self) -> int:
        """Return up to where the log has certainly been dispatched: the end of the last entry."""
        return max((queue.end_position() for queue in self), default=0)

    def close(self) -> None:
        """Let go of memory and maps; what no round has written out is left to recovery."""
        for queue in self:
            queue.drop()


def _is_batched(topic: object) -> bool:
    """Whether the broker's table says of a topic that it is of type BatchCQ."""
    attributes = topic.get("attributes") if isinstance(topic, dict) else None
    return isinstance(attributes, dict) and attributes.get("queue.type") == "BatchCQ"
