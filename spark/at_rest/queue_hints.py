"""Where records start, from the ConsumeQueues: a head start that the log itself confirms.

The queues are derived data that may lack records or run ahead of the log: what a record is, only
the log's own chain of sizes tells (`blocks.py`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.log_files import LogSegment
from aerobee.spark.at_rest.queue_entries import NOWHERE, ConsumeQueueFiles
from aerobee.spark.at_rest.queue_folders import topic_dirs
from aerobee.spark.records.layout import Ints
from aerobee.storage.layout import CONSUME_QUEUE

QUEUES_MAX = 512  # with more queues than this, opening them costs more than walking the log
WINDOW_BYTES = 256 << 20  # of the log, whose entries are read at a time


class StartHints:
    """Where records of one log file start before position `end`, as the queues beside it tell.

    They are looked at for much of the file at once; not at all where nobody asks.
    """

    def __init__(self, segment: LogSegment, end: int) -> None:
        self._queues_dir = str(Path(segment.path).parent.parent / CONSUME_QUEUE)
        self._end = end
        self._told_to = segment.base
        self._positions: Ints = np.empty(0, np.int64)

    def between(self, low: int, high: int) -> Ints:
        """Positions in [low, high), ascending; none where there are no queues, or too many."""
        if high > self._told_to:
            self._told_to = max(min(self._end, low + WINDOW_BYTES), high)
            self._positions = _starts(self._queues_dir, low, self._told_to)
        return self._positions[slice(*np.searchsorted(self._positions, (low, high)))]


def _starts(queues_dir: str, low: int, high: int) -> Ints:
    found = [np.empty(0, np.int64)]
    for queue_dir in _queue_dirs(queues_dir):
        with ConsumeQueueFiles(queue_dir) as queue:
            found.append(queue.between(low, high))
    positions = np.sort(np.concatenate(found), kind="stable")
    return positions[np.diff(positions, prepend=-1) > 0]


def last_starts(queues_dir: str | None, high: int) -> list[int]:
    """The last entry before position `high` of each queue, farthest in the log first."""
    found = set()
    for queue_dir in _queue_dirs(queues_dir):
        with ConsumeQueueFiles(queue_dir) as queue:
            at = queue.first_from(high) - 1
            if at >= queue.first and 0 <= (position := queue.position(at)) < high:
                found.add(position)
    return sorted(found, reverse=True)


def farthest_end(queues_dir: str | None, high: int) -> int | None:
    """The end of the farthest record before position `high` that has an entry, 0 without any.

    None where there are too many queues to look at all of them.
    """
    folders = _queue_dirs(queues_dir)
    if not folders and not _few(queues_dir):
        return None
    end = 0
    for queue_dir in folders:
        with ConsumeQueueFiles(queue_dir) as queue:
            end = max(end, queue.end_before(high))
    return end


def next_start(queues_dir: str | None, low: int) -> int | None:
    """The first position from `low` on where a record starts, None where no queue tells."""
    nearest = NOWHERE
    for queue_dir in _queue_dirs(queues_dir):
        with ConsumeQueueFiles(queue_dir) as queue:
            at = queue.first_from(low)
            if at < queue.end:
                nearest = min(nearest, queue.position(at))
    return None if nearest == NOWHERE else nearest


def _queue_dirs(queues_dir: str | None) -> list[str]:
    found: list[str] = []
    for topic_dir in topic_dirs(queues_dir).values():
        found.extend(_folders(topic_dir))
        if len(found) > QUEUES_MAX:
            return []
    return found


def _few(queues_dir: str | None) -> bool:
    """Whether there are no queues at all, rather than too many."""
    return not any(map(_folders, topic_dirs(queues_dir).values()))


def _folders(path: str) -> list[str]:
    names = disk.folders_if_there(path) or ()  # a topic deleted meanwhile: no hint
    return [f"{path}/{name}" for name in names]
