"""`spark.readStream.format("rocketmq")`: Spark's side of a stream.

Spark calls one reader in a process beside the driver for offsets and partitions, for as long as a
query runs; other readers of the same kind only read, in the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from aerobee.spark.feeds.feed import Feed, Missing
from aerobee.spark.feeds.open import open_feed
from aerobee.spark.offsets import (
    LATEST,
    Offsets,
    OffsetsTree,
    marks_of_tree,
    offsets_of_tree,
    offsets_tree,
)
from aerobee.spark.options.query import Options
from aerobee.spark.planning.asked import Asked
from aerobee.spark.planning.asked_names import check_offsets
from aerobee.spark.planning.ranges import Bounds
from aerobee.spark.reading.partitions import TaskPartition
from aerobee.spark.reading.versions import FromDriver
from aerobee.spark.records.selection import EVERYTHING
from aerobee.spark.streams.steps import NOTHING_MISSING, Steps, TriggerLimits

if TYPE_CHECKING:
    import pyarrow as pa

UNLIMITED = (1 << 63) - 1  # told as a limit, so that "all available" means Trigger.Once


class QueueStreamReader(FromDriver, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches by the offsets of queues, reads and decodes in the tasks.

    Offsets are `{"topic": {"broker:queue": next}}`: the next message to read of each queue; they
    hold marks of the messages before, too (`lost.marks`).
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._steps = Steps(fail_on_data_loss=options.fail_on_data_loss)
        self._feed: Feed | None = None
        self._initial: Offsets | None = None
        self._begun = False  # whether a micro-batch has been planned
        self._bounds: Bounds = {}
        self._frozen: Bounds | None = None

    def initialOffset(self) -> OffsetsTree:
        """Where a query without a checkpoint starts. Raises OptionError, DataLost.

        Spark asks more than once, and gets the same answer.
        """
        if self._initial is None:
            self._initial = self._starting()
        return offsets_tree(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What one micro-batch reads at most; of two limits the one on messages is told."""
        options = self._options
        if options.messages_per_trigger is None and options.bytes_per_trigger is not None:
            return ReadMaxBytes(options.bytes_per_trigger)
        return ReadMaxRows(options.messages_per_trigger or UNLIMITED)

    def latestOffset(
        self, start: OffsetsTree | None = None, limit: ReadLimit | None = None
    ) -> OffsetsTree:
        """Where the micro-batch ends that begins at `start`. Raises DataLost."""
        tree = self.initialOffset() if start is None else start
        begin, marks = offsets_of_tree(tree), marks_of_tree(tree)
        feed = self._open()
        first, self._begun = not self._begun and begin == self._initial, True
        everything = isinstance(limit, ReadAllAvailable)
        if first and (not everything or self._options.starting == "latest"):
            # write down where the query starts, before it reads
            return offsets_tree(begin, feed.marks(begin, marks))
        bounds, missing = self._look(begin)
        changed = feed.changed(begin, marks)
        end = self._steps.next(begin, bounds, missing, self._limits(limit), feed.sizes, changed)
        return offsets_tree(end, feed.marks(end, marks))

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there now as all that the query will read."""
        self._look({})
        self._frozen = self._bounds

    def reportLatestOffset(self) -> OffsetsTree | None:
        """How far the queues reached when they were last looked at."""
        if not self._bounds:
            return None
        return offsets_tree({key: there.end for key, there in self._bounds.items()})

    def partitions(self, start: OffsetsTree, end: OffsetsTree) -> Sequence[InputPartition]:
        """What the tasks of one micro-batch read. Raises DataLost, StoreUnreadable."""
        self._begun = True
        begin, until = offsets_of_tree(start), offsets_of_tree(end)
        marks = marks_of_tree(end)
        feed = self._open()
        bounds = feed.look()
        gone = until.keys() - bounds.keys()
        missing = feed.missing(gone) if gone else NOTHING_MISSING
        changed = feed.changed(until, marks)  # since they were planned
        ranges = self._steps.ranges(begin, until, bounds, missing, changed)
        if not ranges:
            return []
        whole = {each.key for each in ranges if each.end == until[each.key]}
        known = {key: text for key, text in marks.items() if key in whole}
        asked = Asked(self._options, self._schema.names, EVERYTHING, begin, until, known)
        return feed.partitions(asked, ranges)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The records of one partition."""
        if isinstance(partition, TaskPartition):
            yield from partition.read(self._options, self._schema, EVERYTHING)

    def commit(self, end: OffsetsTree) -> None:
        """Nothing: the checkpoint is Spark's, and brokers keep no offsets for it."""

    def stop(self) -> None:
        """Let go of whatever is open."""
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def _open(self) -> Feed:
        if self._feed is None:
            self._feed = open_feed(self._options)
        return self._feed

    def _look(self, begin: Offsets) -> tuple[Bounds, Missing]:
        """What there is, as far as this query goes, and what of its queues is not there."""
        feed = self._open()
        if self._frozen is None:
            self._bounds = feed.look()
        bounds = self._bounds if self._frozen is None else self._frozen
        gone = begin.keys() - bounds.keys()
        return bounds, feed.missing(gone) if gone else NOTHING_MISSING

    def _starting(self) -> Offsets:
        feed, since = self._open(), self._options.selection.since_ms
        bounds = self._frozen if self._frozen is not None else feed.look()
        self._bounds = bounds
        feed.check()
        asked: Any = self._options.starting_offsets(feed.brokers())
        if asked != LATEST:
            choice = self._options.choice(feed.brokers())
            check_offsets("startingOffsets", asked, choice, bounds, fail=False)
        offsets = self._steps.first(bounds, asked)
        if since is not None:
            found = feed.offsets_at(offsets, since)
            offsets = {key: max(offset, found[key]) for key, offset in offsets.items()}
        return offsets

    def _limits(self, limit: ReadLimit | None) -> TriggerLimits:
        if isinstance(limit, ReadAllAvailable):
            return TriggerLimits()
        messages, size = self._options.messages_per_trigger, self._options.bytes_per_trigger
        if isinstance(limit, ReadMaxRows) and limit.max_rows != UNLIMITED:
            messages = min(messages or UNLIMITED, limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            size = min(size or UNLIMITED, limit.max_bytes)
        return TriggerLimits(messages, size)
