"""What every planner asks of where messages come from: stores at rest, or a cluster's brokers.

Cut by question: which queues there are, what has become of others, where in them a time or so many
bytes lie, and which pieces tasks read. A batch asks once, a stream again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aerobee.spark.offsets import BrokerQueue, Marks, Offsets, QueueRange
from aerobee.spark.planning.asked import Asked
from aerobee.spark.reading.partitions import TaskPartition
from aerobee.spark.records.layout import Ints


@dataclass(frozen=True, slots=True)
class Missing:
    """Queues that are read and are not there: deleted for certain, lost from sight, or away.

    Those lost from sight may have lost messages. Those away come back: their broker restarts.
    """

    deleted: frozenset[BrokerQueue] = frozenset()
    lost: frozenset[BrokerQueue] = frozenset()
    away: frozenset[BrokerQueue] = frozenset()


class Feed(Protocol):
    """Where a query's messages come from, as its driver sees it; held open until `close`."""

    # --- which queues there are ---

    def brokers(self) -> Collection[str]:
        """The names of the brokers, or labels of the stores, that are read."""
        ...

    def bounds(self, asked: Asked) -> Mapping[BrokerQueue, QueueRange]:
        """The messages that a batch finds of each queue that it has to look at.

        Raises OptionError for topics and queues that are named and that there are not.
        """
        ...

    def look(self) -> Mapping[BrokerQueue, QueueRange]:
        """Each wanted queue's messages at this moment; a stream looks again and again."""
        ...

    def check(self) -> None:
        """Refuse what a new stream asks for in vain. Raises OptionError."""
        ...

    # --- what has become of them ---

    def missing(self, keys: Collection[BrokerQueue]) -> Missing:
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

    # --- where in them something lies ---

    def offsets_at(self, keys: Iterable[BrokerQueue], timestamp_ms: int) -> Offsets:
        """The first offset of each queue with a store timestamp of `timestamp_ms` or later."""
        ...

    def sizes(self, key: BrokerQueue, start: int, count: int) -> Ints:
        """The sizes of a queue's records from an offset on, as many as there are up to `count`."""
        ...

    # --- who reads what ---

    def partitions(self, asked: Asked, ranges: Sequence[QueueRange]) -> Sequence[TaskPartition]:
        """What Spark's tasks read of the ranges, each with all that its reading needs."""
        ...

    def close(self) -> None:
        """Let go of whatever is open."""
        ...
