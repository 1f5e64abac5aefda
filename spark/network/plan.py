"""From a query's options to what its tasks read over the network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from aerobee.spark.at_rest.queue_ranges import resolve_ranges
from aerobee.spark.lost.network_planned import PlannedEnds
from aerobee.spark.network.brokers import Network
from aerobee.spark.network.reads import NetworkPiece
from aerobee.spark.offsets import QueueRange
from aerobee.spark.options.query import Options
from aerobee.spark.options.values import PARTITIONS_MAX
from aerobee.spark.planning.asked_names import check_chosen
from aerobee.spark.planning.log_pieces import piece_bytes
from aerobee.spark.planning.queue_pieces import messages, shared_out
from aerobee.spark.records.selection import Selection


def plan_network(options: Options, selection: Selection) -> list[NetworkPiece]:
    """What the tasks of a query read.

    `selection` is that of the options, narrowed by filters of the query. Raises OptionError,
    ClusterUnreachable, DataLost.
    """
    assert options.network is not None, "else stores are read"
    with Network(options.network) as network:
        brokers = network.brokers()
        selection = replace(selection, choice=options.choice(brokers))
        bounds = network.bounds(selection.choice)
        starting, ending = options.starting_offsets(brokers), options.ending_offsets(brokers)
        fail = options.fail_on_data_loss
        for option, asked in (("startingOffsets", starting), ("endingOffsets", ending)):
            check_chosen(option, asked, selection.choice, bounds, fail=fail)
        ranges = resolve_ranges(bounds, starting, ending, fail_on_data_loss=fail)
        ranges = narrowed(network, ranges, selection)
        return share_out(network, ranges, options)


def narrowed(
    network: Network, ranges: Sequence[QueueRange], selection: Selection
) -> list[QueueRange]:
    """The ranges without what a selection surely does not want; none of them empty."""
    kept = {
        each.key: each
        for each in ranges
        if selection.wants_topic(each.key.topic) and selection.queue_ids.has(each.key.queue_id)
    }
    limits = selection.queue_offsets
    lows, highs = [limits.low or 0], [] if limits.high is None else [limits.high]
    if limits.values:
        lows.append(min(limits.values))
        highs.append(max(limits.values) + 1)
    kept = {key: _within(each, max(lows), min(highs, default=None)) for key, each in kept.items()}
    if selection.since_ms is not None:
        first = network.offsets_at(kept, selection.since_ms)
        kept = {key: _within(each, first[key], None) for key, each in kept.items()}
    if selection.until_ms is not None:
        # brokers before 5.0 may name the message before the one that is meant
        last = network.offsets_at(kept, selection.until_ms + 1)
        kept = {key: _within(each, 0, last[key] + 1) for key, each in kept.items()}
    return [each for each in kept.values() if each.start < each.end]


def share_out(
    network: Network,
    ranges: Sequence[QueueRange],
    options: Options,
    planned: PlannedEnds = PlannedEnds(),  # noqa: B008
) -> list[NetworkPiece]:
    """The ranges as pieces for tasks: some for each core, none too small to pay for a task.

    Small queues share a task; a large one is cut. `minPartitions` and `partitionBytes` count.
    `planned` are the ends of the ranges, as far as they are known.
    """
    count = messages(ranges)
    if not count:
        return []
    size = count * network.record_bytes(ranges)
    target = options.partition_bytes or piece_bytes(size, os.cpu_count() or 1)
    wanted = max(1, -(-size // target), options.partitions_min or 1)
    parts = min(count, wanted, PARTITIONS_MAX)  # whatever ends the brokers have told
    groups = shared_out(ranges, parts)
    return [NetworkPiece(network.address, tuple(group), planned.of(group)) for group in groups]


def _within(each: QueueRange, low: int, high: int | None) -> QueueRange:
    return QueueRange(
        each.key, max(each.start, low), each.end if high is None else min(each.end, high)
    )
