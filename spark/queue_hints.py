"""Where records start, from the ConsumeQueues: a head start that the log itself confirms.

A ConsumeQueue entry is 20 bytes: log position (8), record size (4), tag hash (8). Entries of
one queue ascend, so a range of the log is a slice of each queue. The queues are derived data
that may lack records or run ahead of the log; `boundaries.py` uses an entry only where the
log's own chain of sizes agrees. Source: ConsumeQueue of RocketMQ 5.5.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

from aerobee.spark.layout import Ints

ENTRY_BYTES = 20
QUEUES_MAX = 512  # with more queues than this, opening them costs more than walking the log
_PADDING_SIZE = 0x7FFFFFFF  # fills the file before a queue's first entry
_ENTRY = np.dtype([("position", ">i8"), ("size", ">i4"), ("tag_hash", ">i8")])
_NAME = re.compile(r"\d{20}")
_NOWHERE = np.iinfo(np.int64).max


def hinted_starts(queues_dir: str | None, low: int, high: int) -> Ints:
    """Positions in [low, high) where records start according to the queues, ascending.

    Empty where there are no queues, or too many to be worth it.
    """
    found = []
    for queue_dir in _queue_dirs(queues_dir):
        with _QueueFiles(queue_dir) as queue:
            found.append(queue.between(low, high))
    if not found:
        return np.empty(0, np.int64)
    positions = np.sort(np.concatenate(found), kind="stable")
    return positions[np.diff(positions, prepend=-1) > 0]


def last_starts(queues_dir: str | None, high: int) -> list[int]:
    """The last entry before position `high` of each queue, farthest in the log first."""
    found = set()
    for queue_dir in _queue_dirs(queues_dir):
        with _QueueFiles(queue_dir) as queue:
            at = queue.first_from(high) - 1
            if at >= 0 and (position := queue.position(at)) >= 0:
                found.add(position)
    return sorted(found, reverse=True)


def next_start(queues_dir: str | None, low: int) -> int | None:
    """The first position from `low` on where a record starts, None where no queue tells."""
    nearest = _NOWHERE
    for queue_dir in _queue_dirs(queues_dir):
        with _QueueFiles(queue_dir) as queue:
            at = queue.first_from(low)
            if at < queue.entries:
                nearest = min(nearest, queue.position(at))
    return None if nearest == _NOWHERE else nearest


def _queue_dirs(queues_dir: str | None) -> list[str]:
    found: list[str] = []
    for topic_dir in _folders(queues_dir) if queues_dir else ():
        found.extend(_folders(topic_dir))
        if len(found) > QUEUES_MAX:
            return []
    return found


def _folders(path: str) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            yield from (entry.path for entry in entries if entry.is_dir())
    except OSError:
        return  # a topic deleted meanwhile: its queues only were a hint


class _QueueFiles:
    """One queue's files, read as one array of entries; a file that goes away ends the array."""

    def __init__(self, queue_dir: str) -> None:
        self._fds: list[int] = []
        self._ends: list[int] = []  # entries up to the end of each file
        try:
            names = sorted(path.name for path in Path(queue_dir).iterdir())
        except OSError:
            names = []
        self.entries = 0
        for name in filter(_NAME.fullmatch, names):
            try:
                fd = os.open(f"{queue_dir}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                break
            self._fds.append(fd)
            self.entries += os.fstat(fd).st_size // ENTRY_BYTES
            self._ends.append(self.entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._fds:
            os.close(fd)

    def position(self, at: int) -> int:
        """The log position in entry `at`; -1 for padding, past everything where unwritten."""
        entry = self._read(at, at + 1)
        if not len(entry) or entry["size"][0] <= 0:
            return _NOWHERE
        return -1 if entry["size"][0] == _PADDING_SIZE else int(entry["position"][0])

    def first_from(self, position: int) -> int:
        """The number of the first entry at `position` or behind it."""
        return bisect_left(range(self.entries), position, key=self.position)

    def between(self, low: int, high: int) -> Ints:
        """The positions of all entries in [low, high)."""
        entries = self._read(self.first_from(low), self.first_from(high))
        positions: Ints = entries["position"][entries["size"] > 0].astype(np.int64)
        return positions[(positions >= low) & (positions < high)]

    def _read(self, low: int, high: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        parts = []
        while low < high:
            file = bisect_right(self._ends, low)
            if file == len(self._ends):
                break
            first = self._ends[file - 1] if file else 0
            count = min(high, self._ends[file]) - low
            data = os.pread(self._fds[file], count * ENTRY_BYTES, (low - first) * ENTRY_BYTES)
            part = np.frombuffer(data, _ENTRY, len(data) // ENTRY_BYTES)
            parts.append(part)
            if len(part) < count:
                break
            low += count
        return np.concatenate(parts) if parts else np.empty(0, _ENTRY)
