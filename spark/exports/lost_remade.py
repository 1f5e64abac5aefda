"""Queues that were made anew while they were exported: of which life was what the tasks have read?

They read entries by their numbers, and a topic that was deleted and made again has such, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from aerobee.spark.at_rest.queue_entries import QueueEntries
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_dir
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.lost.stamps import UNKNOWN, LogStamps
from aerobee.spark.offsets import Offsets, QueueKey, QueueRange


def remade(
    store: Store, ranges: Iterable[QueueRange], positions: Offsets, stamps: Offsets
) -> list[QueueKey]:
    """The queues of which the last message is another one now than when it was planned.

    `positions` and `stamps` are of that time. One that is gone with its folder, or was taken by
    retention, is none of them: what was read of it was its own. Raises StoreUnreadable.
    """
    found: list[QueueKey] = []
    with LogStamps(StoreState.look(store)) as log:
        for planned in ranges:
            position = positions.get(planned.key, UNKNOWN)
            stamp = stamps.get(planned.key, UNKNOWN)
            if position < 0:
                continue
            there = _position(store, planned)
            if there is not None and (there != position or _differ(log.at(position), stamp)):
                found.append(planned.key)
    return found


def _differ(stamp: int, other: int) -> bool:
    return stamp != other and UNKNOWN not in (stamp, other)


def _position(store: Store, planned: QueueRange) -> int | None:
    """Where the last message of a range stands, NOWHERE where its queue ends before."""
    with QueueEntries(queue_dir(store, planned.key)) as entries:
        if entries.end == entries.first:
            return None
        there = entries.position(planned.end - 1)
    return there if there >= 0 else None
