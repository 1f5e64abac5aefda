"""Messages out of stores: those of running brokers, or at rest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.spark.at_rest.open_segment import OpenLog
from aerobee.spark.at_rest.queue_entries import NOWHERE, ConsumeQueueFiles, firsts
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_dir
from aerobee.spark.at_rest.stores import Store, find_stores, has_queues, is_pattern
from aerobee.spark.at_rest.times import store_time
from aerobee.spark.errors import OptionError, StoreUnreadable
from aerobee.spark.feeds.feed import Missing
from aerobee.spark.feeds.followed_store import FollowedStore
from aerobee.spark.lost.marks import MarkedQueues
from aerobee.spark.lost.planned import Witness
from aerobee.spark.offsets import BrokerQueue, Marks, Offsets, QueueRange
from aerobee.spark.options.query import Options
from aerobee.spark.planning.asked import Asked
from aerobee.spark.planning.asked_names import check_assigned, check_topics, configured_queues
from aerobee.spark.planning.store_pieces import (
    StoreFound,
    StorePiece,
    batch_pieces,
    micro_batch_pieces,
)
from aerobee.spark.reading.partitions import LogPartition
from aerobee.spark.records.layout import Ints

_NO_SIZES = np.empty(0, np.int64)


class StoreFeed:
    """The stores that option `path` names (Feed); a stream finds others as they come."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._choice = options.selection.choice
        self._stores: list[Store] | None = None  # before they were looked at
        self._found: list[StoreFound] = []  # of a batch
        self._followed: dict[str, FollowedStore] = {}  # of a stream, as all that follows
        self._bounds: dict[BrokerQueue, QueueRange] = {}
        self._marked = MarkedQueues()
        self._witnesses: dict[str, Witness] = {}  # of what the last micro-batch reads

    def brokers(self) -> Collection[str]:
        """The labels of the stores, in a stream of those of the last look."""
        return [store.label for store in self._known_stores()]

    def bounds(self, asked: Asked) -> dict[BrokerQueue, QueueRange]:
        """The messages of each wanted queue, of the stores that are better read by their queues.

        Raises OptionError, StoreUnreadable.
        """
        choice, fail = asked.selection.choice, asked.options.fail_on_data_loss
        self._found = [StoreFound.look(store, asked) for store in self._known_stores()]
        check_topics(choice, [found.state for found in self._found], fail=fail)
        bounds: dict[BrokerQueue, QueueRange] = {}
        for found in self._found:
            if not found.queues_lead:
                _check_unled(found.state.store, asked)
                continue
            there = found.bounds(choice)
            check_assigned(choice, found.state.store, there)
            bounds |= _unsent(found.state.store, asked) | there
        return bounds

    def look(self) -> dict[BrokerQueue, QueueRange]:
        """Each wanted queue's messages at this moment. Raises StoreUnreadable.

        A store whose log is empty has none: what was read of it may lie on a disk that is away.
        """
        self._stores = self._stores_by_now()
        labels = [store.label for store in self._stores]
        self._choice = self._options.choice(labels if len(labels) == 1 else ())
        followed = {}
        self._bounds = {}
        for store in self._stores:
            known = self._followed.get(store.label)
            if known is None or known.store != store:
                known = FollowedStore(store, self._choice)
            followed[store.label] = known
            found = known.look()
            if not known.empty:
                self._bounds.update(found)
            if known.anew:
                self._marked.distrust(store.label)
            self._marked.note_replaced(known.replaced)
        self._followed = followed
        return self._bounds

    def check(self) -> None:
        """Refuse stores without ConsumeQueues and queues that there are not. Raises OptionError."""
        find_stores(self._options.path)  # a pattern that finds nothing yet is most likely wrong
        choice = self._options.choice(self.brokers())
        for followed in self._followed.values():
            state, store = followed.state, followed.store
            if not has_queues(store) and state.end > state.start:
                raise OptionError(
                    "readStream needs the broker's ConsumeQueues (consumequeue beside"
                    f" {store.log_dir}), and there are none, or none with an entry per message"
                )
            check_assigned(choice, store, followed.bounds)
        # topics may come while the query runs
        check_topics(choice, [followed.state for followed in self._followed.values()], fail=False)

    def missing(self, keys: Collection[BrokerQueue]) -> Missing:
        """Queues whose folder is gone from a store that is there are deleted, others are lost.

        What the query does not ask for any more is neither.
        """
        gone = [key for key in keys if key not in self._bounds and self._choice.wants_queue(key)]
        deleted = {key for key in gone if self._has_deleted(key)}
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

    def offsets_at(self, keys: Iterable[BrokerQueue], timestamp_ms: int) -> Offsets:
        """The first offset of each queue with a store timestamp of `timestamp_ms` or later."""
        asked, found = set(keys), Offsets()
        for label, followed in self._followed.items():
            with OpenLog(followed.state.segments) as opened:
                for key in (each for each in asked if each.broker == label):
                    there = self._bounds[key]
                    found[key] = _first_at(followed.store, opened, there, timestamp_ms)
        return found

    def sizes(self, key: BrokerQueue, start: int, count: int) -> Ints:
        """The sizes of a queue's records from an offset on, as many as there are up to `count`."""
        if key.broker not in self._followed:
            return _NO_SIZES
        with ConsumeQueueFiles(queue_dir(self._followed[key.broker].store, key)) as entries:
            rows = entries.read(start, start + count)
            sizes: Ints = rows["size"].astype(np.int64)
            there = (sizes != BLANK_SIZE) & firsts(rows["position"])  # a batch is read once
            return np.where(there, np.maximum(sizes, 0), 0)

    def partitions(self, asked: Asked, ranges: Sequence[QueueRange]) -> list[LogPartition]:
        """What Spark's tasks read: of a batch perhaps the log itself, of a stream the ranges."""
        pieces = list(self._store_pieces(asked, ranges))
        self._witnesses = {
            store_piece.broker: store_piece.planned.witness
            for store_piece in pieces
            if store_piece.planned.witness is not None
        }
        return [LogPartition(store_piece) for store_piece in pieces]

    def close(self) -> None:
        """Forget the stores; no file is open between two calls."""
        self._stores, self._followed = [], {}

    def _store_pieces(self, asked: Asked, ranges: Sequence[QueueRange]) -> Iterator[StorePiece]:
        own: dict[str, list[QueueRange]] = {}
        for each in ranges:
            own.setdefault(each.key.broker, []).append(each)
        if asked.marks is not None:
            for label, followed in self._followed.items():
                if label in own:
                    yield from micro_batch_pieces(followed.state, own[label], asked, asked.marks)
            return
        total = sum(found.state.end - found.state.start for found in self._found)
        for found in self._found:
            yield from batch_pieces(found, own.get(found.state.store.label, []), asked, total)

    def _known_stores(self) -> list[Store]:
        if self._stores is None:
            self._stores = find_stores(self._options.path)
        return self._stores

    def _stores_by_now(self) -> list[Store]:
        try:
            return find_stores(self._options.path)
        except StoreUnreadable:
            if is_pattern(self._options.path):
                return []  # they may come later
            raise

    def _has_deleted(self, key: BrokerQueue) -> bool:
        return key.broker in self._followed and self._followed[key.broker].has_deleted(key)

    def _last_position(self, key: BrokerQueue, offset: int) -> int | None:
        return self._followed[key.broker].last_position(key, offset)

    def _states(self) -> dict[str, StoreState]:
        return {label: followed.state for label, followed in self._followed.items()}


def _check_unled(store: Store, asked: Asked) -> None:
    """Refuse to read a store along its log where only its queues could say what is wanted."""
    if asked.by_offset:
        raise OptionError(
            "options startingOffsets, endingOffsets and assign need the broker's"
            f" ConsumeQueues (consumequeue beside {store.log_dir}), and there are none:"
            " use startingTimestamp, endingTimestamp and subscribe"
        )


def _unsent(store: Store, asked: Asked) -> dict[BrokerQueue, QueueRange]:
    """The queues whose offsets are named and that a broker was told of, as if none has messages."""
    named = {
        key for each in (asked.starting, asked.ending) if isinstance(each, dict) for key in each
    }
    named = {key for key in named if key.broker == store.label}
    told = configured_queues(store) if named else {}
    return {
        key: QueueRange(key, 0, 0)
        for key in named
        if key.queue_id < told.get(key.topic, 0) and asked.selection.choice.wants_queue(key)
    }


def _first_at(store: Store, opened: OpenLog, there: QueueRange, timestamp_ms: int) -> int:
    """The first offset of a queue's messages, whose store timestamps ascend, from a time on."""
    with ConsumeQueueFiles(queue_dir(store, there.key)) as entries:

        def at(offset: int) -> int:
            position = entries.position(offset)
            file = opened.file_at(position) if 0 <= position < NOWHERE else None
            found = None if file is None else store_time(file, position)
            return timestamp_ms if found is None else found

        offsets = range(there.start, there.end)
        return there.start + bisect_left(offsets, timestamp_ms, key=at)
