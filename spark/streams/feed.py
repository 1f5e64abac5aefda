"""What a stream asks of where its messages come from: stores, or a cluster over the network."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from aerobee.spark.offsets import Marks, Offsets, QueueKey, QueueRange
from aerobee.spark.options.query import Options
from aerobee.spark.records.headers import Ints
from aerobee.spark.streams.steps import Missing

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition


class Feed(Protocol):
    """The queues of a stream as its driver sees them; held open until `close`."""

    def look(self) -> dict[QueueKey, QueueRange]:
        """Each wanted queue's messages at this moment."""
        ...

    def brokers(self) -> Collection[str]:
        """The brokers, or labels of stores, of the last look."""
        ...

    def check(self) -> None:
        """Refuse what a new query asks for in vain. Raises OptionError."""
        ...

    def missing(self, keys: Collection[QueueKey]) -> Missing:
        """What has become of queues that the last look has not found."""
        ...

    def changed(self, offsets: Offsets, marks: Marks) -> Offsets:
        """Queues of the last look that were made anew since their offsets were marked.

        The value is where to go on in each.
        """
        ...

    def marks(self, offsets: Offsets, known: Marks) -> Marks:
        """Which message stands before each offset, as text; `known` are those of earlier offsets.

        To be asked after `changed`; what that has found is settled then.
        """
        ...

    def offsets_at(self, keys: Iterable[QueueKey], timestamp_ms: int) -> Offsets:
        """The first offset of each queue with a store timestamp of `timestamp_ms` or later."""
        ...

    def sizes(self, key: QueueKey, start: int, count: int) -> Ints:
        """The sizes of a queue's records from an offset on, as many as there are up to `count`."""
        ...

    def partitions(
        self, ranges: Sequence[QueueRange], names: Sequence[str], marks: Marks
    ) -> Sequence[InputPartition]:
        """What Spark's tasks read that take these ranges, and these columns of them.

        `marks` are those of the ranges' ends.
        """
        ...

    def close(self) -> None:
        """Let go of whatever is open."""
        ...


def open_feed(options: Options) -> Feed:
    """The feed that the options name."""
    if options.network is not None:
        from aerobee.spark.streams.network import NetworkFeed

        return NetworkFeed(options, options.network)
    from aerobee.spark.streams.stores import StoreFeed

    return StoreFeed(options)
