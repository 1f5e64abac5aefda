"""A stream's messages out of stores: those of running brokers, or at rest."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from typing import Self

import numpy as np

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.spark.at_rest.log_files import SegmentFile
from aerobee.spark.at_rest.queue_entries import NOWHERE, QueueEntries
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_dir
from aerobee.spark.at_rest.stores import Store, find_stores, has_queues, is_pattern
from aerobee.spark.at_rest.times import store_time
from aerobee.spark.errors import DataLost, OptionError, StoreUnreadable
from aerobee.spark.lost.marks import MarkedQueues
from aerobee.spark.lost.planned import Witness
from aerobee.spark.offsets import Marks, Offsets, QueueKey, QueueRange
from aerobee.spark.options.query import Options
from aerobee.spark.planning.asked_names import check_assigned, check_topics
from aerobee.spark.planning.stores import plan_queues
from aerobee.spark.reading.partitions import LogPartition
from aerobee.spark.records.headers import Ints
from aerobee.spark.streams.queues import QueueWatch
from aerobee.spark.streams.steps import Missing
from aerobee.spark.streams.tail import LogTail
from aerobee.spark.topics import TopicChoice

_NO_SIZES = np.empty(0, np.int64)


class StoreFeed:
    """The wanted queues of all stores that option `path` names at a time (Feed)."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._choice = options.selection.choice
        self._watched: dict[str, _Watched] = {}
        self._bounds: dict[QueueKey, QueueRange] = {}
        self._marked = MarkedQueues()
        self._witnesses: dict[str, Witness] = {}  # of what the last micro-batch reads

    def look(self) -> dict[QueueKey, QueueRange]:
        """Each wanted queue's messages at this moment. Raises StoreUnreadable.

        A store whose log is empty has none: what was read of it may lie on a disk that is away.
        """
        stores = self._stores()
        labels = [store.label for store in stores]
        self._choice = self._options.choice(labels if len(labels) == 1 else ())
        watched = {}
        self._bounds = {}
        for store in stores:
            known = self._watched.get(store.label)
            if known is None or known.store != store:
                known = _Watched(store, self._choice)
            watched[store.label] = known
            found = known.look()
            if not known.empty:
                self._bounds.update(found)
            if known.anew:
                self._marked.distrust(store.label)
            self._marked.note_replaced(known.replaced)
        self._watched = watched
        return self._bounds

    def brokers(self) -> Collection[str]:
        """The labels of the stores of the last look."""
        return sorted(self._watched)

    def check(self) -> None:
        """Refuse stores without ConsumeQueues and queues that there are not. Raises OptionError."""
        find_stores(self._options.path)  # a pattern that finds nothing yet is most likely wrong
        choice = self._options.choice(self.brokers())
        for watched in self._watched.values():
            state, store = watched.state, watched.store
            if not has_queues(store) and state.end > state.start:
                raise OptionError(
                    "readStream needs the broker's ConsumeQueues (consumequeue beside"
                    f" {store.log_dir}), and there are none, or none with an entry per message"
                )
            check_assigned(choice, store, watched.bounds)
        # topics may come while the query runs
        check_topics(choice, [watched.state for watched in self._watched.values()], fail=False)

    def missing(self, keys: Collection[QueueKey]) -> Missing:
        """Queues whose folder is gone from a store that is there are deleted, others are lost.

        What the query does not ask for any more is neither.
        """
        gone = [key for key in keys if key not in self._bounds and self._choice.wants_queue(key)]
        deleted = {key for key in gone if self._deleted(key)}
        return Missing(deleted=frozenset(deleted), lost=frozenset(set(gone) - deleted))

    def changed(self, offsets: Offsets, marks: Marks) -> Offsets:
        """Queues that were made anew since they were marked, and where to go on in each."""
        there = {key: offsets[key] for key in offsets.keys() & self._bounds.keys()}
        for label, witness in self._witnesses.items():
            if witness.denies():  # as a task may have seen, and left out what it was to read
                self._marked.distrust(label)
        self._witnesses = {}
        return self._marked.changed(self._states(), there, marks)

    def marks(self, offsets: Offsets, known: Marks) -> Marks:
        """The marks of offsets; `known` are kept of queues that are not read now."""
        there = {key: offsets[key] for key in offsets.keys() & self._bounds.keys()}
        kept = {key: text for key, text in known.items() if key in offsets and key not in there}
        return kept | self._marked.marks(self._states(), there, self._last_position)

    def offsets_at(self, keys: Iterable[QueueKey], timestamp_ms: int) -> Offsets:
        """The first offset of each queue with a store timestamp of `timestamp_ms` or later."""
        with _StoreTimes() as times:
            return {
                key: times.first_at(
                    self._watched[key.broker].state, self._bounds[key], timestamp_ms
                )
                for key in keys
            }

    def sizes(self, key: QueueKey, start: int, count: int) -> Ints:
        """The sizes of a queue's records from an offset on, as many as there are up to `count`."""
        if key.broker not in self._watched:
            return _NO_SIZES
        with QueueEntries(queue_dir(self._watched[key.broker].store, key)) as entries:
            sizes: Ints = entries.read(start, start + count)["size"].astype(np.int64)
            return np.where(sizes == BLANK_SIZE, 0, np.maximum(sizes, 0))

    def partitions(
        self, ranges: Sequence[QueueRange], names: Sequence[str], marks: Marks
    ) -> list[LogPartition]:
        """What Spark's tasks read that take these ranges, and these columns of them."""
        states = [watched.state for watched in self._watched.values()]
        shares = plan_queues(states, self._options, names, ranges, marks)
        self._witnesses = {
            share.broker: share.planned.witness
            for share in shares
            if share.planned is not None and share.planned.witness is not None
        }
        return [LogPartition(share) for share in shares]

    def close(self) -> None:
        """Forget the stores; no file is open between two calls."""
        self._watched = {}

    def _stores(self) -> list[Store]:
        try:
            return find_stores(self._options.path)
        except StoreUnreadable:
            if is_pattern(self._options.path):
                return []  # they may come later
            raise

    def _last_position(self, key: QueueKey, offset: int) -> int | None:
        return self._watched[key.broker].last_position(key, offset)

    def _states(self) -> dict[str, StoreState]:
        return {label: watched.state for label, watched in self._watched.items()}

    def _deleted(self, key: QueueKey) -> bool:
        watched = self._watched.get(key.broker)
        if watched is None or watched.empty or not _has_topics(watched.store):
            return False  # what holds the queues is away: none was deleted by a broker
        with QueueEntries(queue_dir(watched.store, key)) as entries:
            return entries.end == entries.first


class _Watched:
    """One store from look to look."""

    def __init__(self, store: Store, choice: TopicChoice) -> None:
        self.store = store
        self._choice = choice
        self._tail = LogTail(store)
        self._queues = QueueWatch(choice)
        self.state = StoreState(store, [], 0)
        self.anew = True  # whether the last look knows nothing of the ones before
        self._looked = False
        self.replaced: dict[QueueKey, int] = {}
        self.bounds: dict[QueueKey, QueueRange] = {}

    @property
    def empty(self) -> bool:
        """Whether the log has no message."""
        return self.state.end <= self.state.start

    def look(self) -> dict[QueueKey, QueueRange]:
        self.anew, self._looked = not self._looked, True
        try:
            self.bounds = self._look()
            self.replaced = self._queues.replaced
        except DataLost:  # retention was quicker than the look
            self.bounds = self._look_anew()
        else:
            if self.replaced:
                self.bounds = self._look_anew()
        return self.bounds

    def last_position(self, key: QueueKey, offset: int) -> int | None:
        return self._queues.last_position(key, offset)

    def _look(self) -> dict[QueueKey, QueueRange]:
        self.state = self._tail.look()
        return self._queues.look(self.state) if has_queues(self.store) else {}

    def _look_anew(self) -> dict[QueueKey, QueueRange]:
        self.anew = True
        self._tail = LogTail(self.store)
        self._queues = QueueWatch(self._choice)
        return self._look()


def _has_topics(store: Store) -> bool:
    """Whether there is any topic's folder among the queues."""
    if store.queues_dir is None:
        return False
    try:
        with os.scandir(store.queues_dir) as found:
            return any(entry.is_dir() for entry in found)
    except OSError:
        return False


class _StoreTimes:
    """Finds messages by their store timestamps, which ascend along a queue."""

    def __init__(self) -> None:
        self._file: SegmentFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.__exit__(None, None, None)

    def first_at(self, state: StoreState, there: QueueRange, timestamp_ms: int) -> int:
        """The first offset of a queue's messages that were stored then, or later."""
        with QueueEntries(queue_dir(state.store, there.key)) as entries:

            def at(offset: int) -> int:
                found = self._time(state, entries.position(offset))
                return timestamp_ms if found is None else found

            offsets = range(there.start, there.end)
            return there.start + bisect_left(offsets, timestamp_ms, key=at)

    def _time(self, state: StoreState, position: int) -> int | None:
        bases = [segment.base for segment in state.segments]
        number = bisect_right(bases, position) - 1
        if number < 0 or not 0 <= position < NOWHERE or position >= state.segments[number].end:
            return None
        segment = state.segments[number]
        if self._file is None or self._file.segment != segment:
            self.__exit__()
            self._file = None
            self._file = SegmentFile(segment)
        return store_time(self._file, position)
