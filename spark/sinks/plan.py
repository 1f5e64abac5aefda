"""What the driver fixes before tasks write: as whom, and where in the queues they begin."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from time import sleep
from typing import Final

from aerobee.remoting.clocks import wall_clock_ms
from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.network.brokers import Network
from aerobee.spark.offsets import Offsets
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.sinks.options import SinkOptions
from aerobee.spark.sinks.progress import SinkRecord, keep_record, read_record
from aerobee.spark.topics import TopicChoice

log = logging.getLogger(__name__)

# what the workers of a killed driver may need to end, on a busy machine, and what they had sent to
# reach the brokers
SETTLE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """What every task of a write, or of one micro-batch, knows; small and picklable.

    `ends` is where the queues ended at `at_ms`, before any task of this attempt. Earlier attempts
    have written at `lows` or later. Both name the topics that are known beforehand.
    """

    address: NetworkAddress
    topic: str | None
    sink: str
    at_ms: int
    ends: Offsets
    lows: Offsets
    record: SinkRecord | None = None


def plan_write(options: SinkOptions) -> SinkPlan:
    """The plan of one write. Raises OptionError, ClusterUnreachable."""
    with Network(options.address) as network:
        topics = _topics(network, options, None)
        ends, _ = _bounds(network, topics)
    return SinkPlan(options.address, options.topic, options.sink, wall_clock_ms(), ends, ends)


def plan_batch(options: SinkOptions) -> SinkPlan:
    """The plan of one micro-batch, which may have been tried before.

    Raises likewise, also where its beginning can be kept nowhere: nothing is sent then, as nobody
    could find it later.
    """
    address, sink = options.address, options.sink
    with Network(address) as network:
        record = network.run(read_record(network, sink))
        if record is not None and record.begun:
            sleep(SETTLE_S)
        ends, firsts = _bounds(network, _topics(network, options, record))
        at_ms = wall_clock_ms()
        if record is None or not record.begun:
            older = record or SinkRecord("", -1, at_ms, {}, begun=True)
            fresh = replace(older, at_ms=at_ms, ends={**older.ends, **ends}, begun=True)
            network.run(keep_record(network, sink, fresh))
            return SinkPlan(address, options.topic, sink, at_ms, ends, ends, record)
    written = {key.topic for key in record.ends}
    lows = {
        key: max(firsts[key], record.ends.get(key, 0)) if key.topic in written else end
        for key, end in ends.items()
    }
    return SinkPlan(address, options.topic, sink, at_ms, ends, lows, record)


def note_batch(options: SinkOptions, query: str, batch: int, topics: Collection[str]) -> None:
    """Keep that all of a micro-batch is stored, which wrote to these topics.

    Where that cannot be kept, the next one searches from its beginning on, and it is a warning.
    """
    sink = options.sink
    with Network(options.address) as network:
        record = network.run(read_record(network, sink))
        older = record or SinkRecord("", -1, 0, {}, begun=True)
        ends, _ = _bounds(network, {*topics, *(key.topic for key in older.ends)})
        newer = older.followed(query, batch, ends)
        try:
            network.run(keep_record(network, sink, newer))
        except ClusterUnreachable as error:
            log.warning("micro-batch %d is stored, and the next one looks for it: %s", batch, error)


def _topics(network: Network, options: SinkOptions, record: SinkRecord | None) -> set[str]:
    """The topics that are known before tasks begin."""
    topics = set() if record is None else {key.topic for key in record.ends}
    if options.topic is not None:
        network.check_writable(options.topic)
        topics.add(options.topic)
    return topics


def _bounds(network: Network, topics: Collection[str]) -> tuple[Offsets, Offsets]:
    """Where the queues of topics end, and where they begin."""
    if not topics:
        return {}, {}
    found = network.bounds(TopicChoice(names=frozenset(topics)), missing_fails=False)
    ends = {key: each.end for key, each in found.items()}
    return ends, {key: each.start for key, each in found.items()}
