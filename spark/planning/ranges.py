"""From which offset to which each queue is read, and in how many parts: pure arithmetic.

Nothing here asks a store or a broker: what there is comes in, what is read goes out. Batches,
streams and exports share it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from aerobee.spark.at_rest.queue_ranges import report_lost
from aerobee.spark.offsets import EARLIEST, LATEST, BrokerQueue, Offsets, QueueRange
from aerobee.spark.options.query import Options
from aerobee.spark.planning.log_pieces import piece_bytes
from aerobee.spark.records.selection import Selection

Bounds = Mapping[BrokerQueue, QueueRange]


def resolve_ranges(
    bounds: Bounds,
    starting: Mapping[BrokerQueue, int] | int = EARLIEST,
    ending: Mapping[BrokerQueue, int] | int = LATEST,
    *,
    fail_on_data_loss: bool = True,
) -> list[QueueRange]:
    """The ranges to read, in order of their queues, none of them empty.

    `starting` and `ending` are EARLIEST, LATEST, or an offset (or one of these) per queue; a
    queue that they do not name is read from its earliest, up to its latest offset. What they ask
    for and is not there any more, or not yet, raises DataLost, or is left out with a warning.
    """
    lost: list[QueueRange] = []
    asked = set(starting if isinstance(starting, Mapping) else ())
    asked.update(ending if isinstance(ending, Mapping) else ())
    ranges = []
    for key in sorted({*bounds, *asked}):
        there = bounds.get(key) or QueueRange(key, 0, 0)
        start = _offset(starting, there, EARLIEST)
        end = _offset(ending, there, LATEST)
        if start < end:
            kept = QueueRange(key, max(start, there.start), min(end, there.end))
            if kept.start >= kept.end:
                lost.append(QueueRange(key, start, end))
                continue
            if start < kept.start:
                lost.append(QueueRange(key, start, kept.start))
            if end > kept.end:
                lost.append(QueueRange(key, kept.end, end))
            ranges.append(kept)
        elif start > there.end:
            lost.append(QueueRange(key, there.end, start))
    report_lost(lost, fail=fail_on_data_loss)
    return ranges


def within_limits(
    ranges: Sequence[QueueRange],
    selection: Selection,
    offsets_at: Callable[[Iterable[BrokerQueue], int], Offsets],
) -> list[QueueRange]:
    """The ranges without offsets and times that are surely not wanted; none of them empty.

    `offsets_at` tells the first offset of each queue with a store timestamp or a later one.
    """
    limits = selection.queue_offsets
    lows, highs = [limits.low or 0], [] if limits.high is None else [limits.high]
    if limits.values:
        lows.append(min(limits.values))
        highs.append(max(limits.values) + 1)
    kept = {each.key: _within(each, max(lows), min(highs, default=None)) for each in ranges}
    if selection.since_ms is not None:
        first = offsets_at(kept, selection.since_ms)
        kept = {key: _within(each, first[key], None) for key, each in kept.items()}
    if selection.until_ms is not None:
        # brokers before 5.0 may name the message before the one that is meant
        last = offsets_at(kept, selection.until_ms + 1)
        kept = {key: _within(each, 0, last[key] + 1) for key, each in kept.items()}
    return [each for each in kept.values() if each.start < each.end]


def messages(ranges: Iterable[QueueRange]) -> int:
    """How many messages the ranges have."""
    return sum(each.end - each.start for each in ranges)


def task_count(total: int, options: Options, share: int | None = None) -> int:
    """How many tasks read what has `total` bytes: some for each core, none too small to pay.

    `share` is how much each gets where that is not to be as long as usual, or not in bytes.
    `minPartitions` and `partitionBytes` count.
    """
    share = share or options.partition_bytes or piece_bytes(total, os.cpu_count() or 1)
    return max(1, -(-total // share), options.partitions_min or 1)


def shared_out(ranges: Sequence[QueueRange], parts: int) -> Iterator[list[QueueRange]]:
    """The ranges in groups of about as many messages each; a large range is cut."""
    share = max(1, -(-messages(ranges) // parts))
    group: list[QueueRange] = []
    room = share
    for each in ranges:
        start = each.start
        while each.end - start >= room:
            group.append(QueueRange(each.key, start, start + room))
            yield group
            start, group, room = start + room, [], share
        if start < each.end:
            group.append(QueueRange(each.key, start, each.end))
            room -= each.end - start
    if group:
        yield group


def _offset(asked: Mapping[BrokerQueue, int] | int, there: QueueRange, usual: int) -> int:
    offset = asked.get(there.key, usual) if isinstance(asked, Mapping) else asked
    if offset == EARLIEST:
        return there.start
    return there.end if offset == LATEST else offset


def _within(each: QueueRange, low: int, high: int | None) -> QueueRange:
    return QueueRange(
        each.key, max(each.start, low), each.end if high is None else min(each.end, high)
    )
