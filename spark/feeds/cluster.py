"""Messages out of a cluster's brokers, over the network."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from aerobee.remoting.errors import Unavailable
from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.feeds.feed import Missing
from aerobee.spark.lost.network_marks import NetworkMarks
from aerobee.spark.lost.network_planned import PlannedEnds
from aerobee.spark.network.brokers import Network
from aerobee.spark.network.reads import NetworkPartition, NetworkPiece
from aerobee.spark.offsets import BrokerQueue, Marks, Offsets, QueueRange
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.options.query import Options
from aerobee.spark.options.values import PARTITIONS_MAX
from aerobee.spark.planning.asked import Asked
from aerobee.spark.planning.ranges import messages, shared_out, task_count, within_limits
from aerobee.spark.records.layout import Ints
from aerobee.spark.topics import TopicChoice

log = logging.getLogger(__name__)

ROUTES_S = 5.0  # how often topics, routes and earliest offsets are asked for; latest ones always
UNKNOWN_BYTES = 1 << 40  # of a record of a broker that is away: a limit leaves it for later
IDLE_MARKS = 32  # queues without news that are looked at then, in turns: they may be made anew
IDLE_PAUSE_S = 0.1  # between two looks that find nothing: Spark asks again at once


class ClusterFeed:
    """The wanted queues of a cluster, asked of its brokers (Feed), which stay open until `close`.

    A broker that is away, for a restart, keeps its queues: what they held last counts, for as long
    as `networkTimeout` says.
    """

    def __init__(self, options: Options, address: NetworkAddress) -> None:
        self._options = options
        self._network = Network(address)
        self._patience_s = address.patience_ms / 1000
        self._brokers: list[str] | None = None  # before they were asked for
        self._choice: TopicChoice | None = None
        self._bounds: dict[BrokerQueue, QueueRange] = {}
        self._asked_s = self._looked_s = float("-inf")
        self._silent_s: float | None = None  # since when somebody does not answer
        self._idle = False
        self._known_absent: frozenset[BrokerQueue] = frozenset()  # of which was asked since
        self._deleted: frozenset[BrokerQueue] = frozenset()
        self._marked = NetworkMarks(self._network.messages_at)
        self._peeked: dict[
            BrokerQueue, tuple[int, Ints]
        ] = {}  # sizes from an offset on, of this look
        self._mute: set[str] = set()  # brokers that told no sizes since this look
        self._usual: dict[BrokerQueue, int] = {}  # the mean of the sizes that were seen last

    def brokers(self) -> Collection[str]:
        """The brokers' names, in a stream as of its last look."""
        if self._brokers is None:
            self._brokers = self._network.brokers()
        return self._brokers

    def bounds(self, asked: Asked) -> dict[BrokerQueue, QueueRange]:
        """The messages of each wanted queue. Raises OptionError, ClusterUnreachable."""
        return self._network.bounds(asked.selection.choice)

    def look(self) -> dict[BrokerQueue, QueueRange]:
        """Each wanted queue's messages at this moment. Raises ClusterUnreachable."""
        if self._idle:
            time.sleep(max(0.0, self._looked_s + IDLE_PAUSE_S - time.monotonic()))
        try:
            found = self._ask()
        except ClusterUnreachable as error:
            now = time.monotonic()
            if self._silent_s is None:
                self._silent_s = now
                log.warning("%s; asked again for %g s", error, self._patience_s)
            if not self._bounds or now - self._silent_s >= self._patience_s:
                raise
            found = self._bounds
        else:
            self._silent_s = None
        self._idle, self._looked_s = found == self._bounds, time.monotonic()
        self._bounds = found
        self._peeked.clear()
        self._mute.clear()
        return found

    def check(self) -> None:
        """Refuse topics and queues that there are not. Raises OptionError."""
        self._network.bounds(self._options.choice(self.brokers()))

    def missing(self, keys: Collection[BrokerQueue]) -> Missing:
        """A queue without a route is away, unless its broker is there and knows no such topic."""
        wanted = (key for key in keys if self._choice is None or self._choice.wants_queue(key))
        absent = frozenset(key for key in wanted if key not in self._bounds)
        if absent - self._known_absent:
            self._known_absent, self._deleted = absent, self._ask_deleted(absent)
        deleted = absent & self._deleted
        return Missing(deleted=deleted, away=absent - deleted)

    def changed(self, offsets: Offsets, marks: Marks) -> Offsets:
        """Queues that were made anew since they were marked, and where to go on in each."""
        return self._marked.changed(self._bounds, offsets, marks)

    def marks(self, offsets: Offsets, known: Marks) -> Marks:
        """The marks of offsets; `known` are kept of queues that are away."""
        return self._marked.marks(self._bounds, offsets, known)

    def offsets_at(self, keys: Iterable[BrokerQueue], timestamp_ms: int) -> Offsets:
        """The first offset of each queue with a store timestamp of `timestamp_ms` or later."""
        return self._network.offsets_at(keys, timestamp_ms)

    def sizes(self, key: BrokerQueue, start: int, count: int) -> Ints:
        """About the sizes of a queue's records: of the next ones exactly, of others their mean.

        Brokers do not tell sizes: for each queue and look, one pull brings the next records. One
        that does not answer is asked once for all of its queues.
        """
        if key not in self._peeked or start < self._peeked[key][0]:
            self._peeked[key] = start, self._peek(key, start)
        first, known = self._peeked[key]
        found: Ints = np.full(count, self._usual.get(key, UNKNOWN_BYTES), np.int64)
        exact = known[start - first : start - first + count]
        found[: len(exact)] = exact
        return found

    def partitions(self, asked: Asked, ranges: Sequence[QueueRange]) -> list[NetworkPartition]:
        """What Spark's tasks pull: small queues share a task, a large one is cut.

        Brokers pick nothing out of a queue, so what surely is not wanted is not asked for.
        """
        ranges = within_limits(ranges, asked.selection, self.offsets_at)
        count = messages(ranges)
        if not count:
            return []
        self._marked.doubt(each.key for each in ranges)
        planned = PlannedEnds.of_marks(ranges, asked.marks or {})
        parts = task_count(count * self._network.record_bytes(ranges), asked.options)
        # whatever ends the brokers have told
        groups = shared_out(ranges, min(count, parts, PARTITIONS_MAX))
        address = self._network.address
        return [
            NetworkPartition(NetworkPiece(address, tuple(group), planned.of(group)))
            for group in groups
        ]

    def close(self) -> None:
        """Close the connections."""
        self._network.close()

    def _ask_deleted(self, absent: frozenset[BrokerQueue]) -> frozenset[BrokerQueue]:
        try:
            return self._network.deleted(absent)
        except ClusterUnreachable as error:
            log.warning("%s", error)
            return frozenset()

    def _peek(self, key: BrokerQueue, start: int) -> Ints:
        if key.broker in self._mute:
            return np.empty(0, np.int64)
        try:
            sizes = self._network.record_sizes(key, start)
        except ClusterUnreachable as error:  # the look says so, if it lasts
            log.warning("%s", error)
            if isinstance(error.__cause__, Unavailable):
                self._mute.add(key.broker)
            return np.empty(0, np.int64)
        if len(sizes):
            self._usual[key] = max(1, int(sizes.mean()))
        return sizes

    def _ask(self) -> dict[BrokerQueue, QueueRange]:
        if time.monotonic() - self._asked_s < ROUTES_S:
            ends = self._network.latest(self._bounds)
            if all(ends[key] >= each.end for key, each in self._bounds.items()):
                return {
                    key: QueueRange(key, each.start, ends[key])
                    for key, each in self._bounds.items()
                }
        self._brokers = self._network.brokers()
        if self._choice is None:
            known = self._brokers if len(self._brokers) == 1 else ()
            self._choice = self._options.choice(known)
        found = self._network.bounds(self._choice, missing_fails=False)
        self._asked_s = time.monotonic()
        self._known_absent = frozenset()  # what became of those is asked once more
        self._marked.doubt_some(IDLE_MARKS)
        return found
