"""Which message stood before each offset of a stream: tells queues from others of their names.

A queue that was deleted and made again has offsets that look like those of the one before. So a
stream notes beside each offset where in the log the message before it stands, and when that was
stored; if another one stands there now, the queue is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from aerobee.remoting.message.message_id import KEPT_BESIDE
from aerobee.spark.at_rest.queue_entries import NOWHERE, ConsumeQueueFiles
from aerobee.spark.at_rest.queue_ranges import StoreState, queue_dir
from aerobee.spark.at_rest.times import position_of
from aerobee.spark.lost.stamps import UNKNOWN, LogStamps
from aerobee.spark.offsets import BrokerQueue, Marks, Offsets

States = Mapping[str, StoreState]
LastPosition = Callable[[BrokerQueue, int], int | None]
Asked = tuple[BrokerQueue, int, "Mark | None"]


class Mark(NamedTuple):
    """A message: its log position, and its store timestamp in ms, or -1."""

    position: int
    stamp: int

    def __str__(self) -> str:
        return f"{self.position}@{self.stamp}"

    def is_of(self, other: Mark) -> bool:
        """Whether both are of one message; one that compaction keeps has no place in the log."""
        if max(self.position, other.position) >= KEPT_BESIDE:
            return self.stamp == other.stamp
        return self == other

    @classmethod
    def of_text(cls, text: str) -> Mark | None:
        """What `str` has made of one; None for anything else."""
        position, _, stamp = text.partition("@")
        try:
            return cls(int(position), int(stamp))
        except ValueError:
            return None


class MarkedQueues:
    """The marks of one query's queues; each is held against the store once, then followed."""

    def __init__(self) -> None:
        self._trusted: dict[BrokerQueue, tuple[int, str]] = {}
        self._replaced: dict[BrokerQueue, int] = {}

    def note_replaced(self, replaced: Mapping[BrokerQueue, int]) -> None:
        """Queues whose last known entry, which led to a log position, is not there any more."""
        for key, position in replaced.items():
            self._replaced.setdefault(key, position)
            self._trusted.pop(key, None)

    def distrust(self, label: str) -> None:
        """A store was lost from sight: what is there now may be another one."""
        self._trusted = {key: each for key, each in self._trusted.items() if key.broker != label}

    def changed(self, states: States, offsets: Offsets, marks: Marks) -> Offsets:
        """Those of the queues that are not the marks' any more, and where to go on in each."""
        found: Offsets = {}
        doubted: list[Asked] = []
        for key, offset in offsets.items():
            text = marks.get(key, "")
            if self._trusted.get(key) != (offset, text):
                doubted.append((key, offset, Mark.of_text(text)))
        for state, asked in _by_store(states, doubted):
            with LogStamps(state) as stamps:
                for key, offset, mark in asked:
                    with ConsumeQueueFiles(queue_dir(state.store, key)) as entries:
                        restart = self._restart(state, stamps, entries, key, offset, mark)
                    if restart is not None:
                        found[key] = restart
                    elif mark is not None:  # others get one, in a micro-batch without rows
                        self._trusted[key] = offset, str(mark)
        return found

    def _restart(
        self,
        state: StoreState,
        stamps: LogStamps,
        entries: ConsumeQueueFiles,
        key: BrokerQueue,
        offset: int,
        mark: Mark | None,
    ) -> int | None:
        """Where to go on in a queue that is another one; None where nothing says that it is."""
        if entries.end == entries.first:
            return None  # it is missing, which is told elsewhere
        if mark is None:
            if key not in self._replaced:
                return None
            mark = Mark(self._replaced[key], UNKNOWN)
        elif not _is_another(mark, entries.position(offset - 1), stamps):
            self._replaced.pop(key, None)
            return None
        behind = mark.position + 1
        if mark.stamp != UNKNOWN and stamps.at(mark.position) != mark.stamp:
            behind = min(behind, position_of(state, mark.stamp + 1))  # of another log all is new
        earliest, latest = entries.bounds(state.start, state.end)
        return min(max(earliest, entries.first_from(behind)), latest)

    def marks(self, states: States, offsets: Offsets, last: LastPosition) -> Marks:
        """The marks of offsets of queues, as the store has them now if they are not known.

        `last` tells where the message before an offset stands if the last look has seen it.
        """
        asked: list[Asked] = []
        for key, offset in offsets.items():
            known = self._trusted.get(key)
            if known is None or known[0] != offset:
                asked.append((key, offset, None))
        for state, queues in _by_store(states, asked):
            with LogStamps(state) as stamps:
                for key, offset, _ in queues:
                    position = last(key, offset)
                    if position is None:
                        with ConsumeQueueFiles(queue_dir(state.store, key)) as entries:
                            position = entries.position(offset - 1) if offset else -1
                    there = 0 <= position < NOWHERE
                    text = str(Mark(position, stamps.at(position))) if there else ""
                    self._trusted[key] = offset, text
                    self._replaced.pop(key, None)
        return {key: self._trusted[key][1] for key in offsets if self._trusted[key][1]}


def _is_another(mark: Mark, there: int, stamps: LogStamps) -> bool:
    """Whether the message that a queue's entry leads to is not the marked one."""
    if there < 0:
        return False  # retention had the entry
    if there != mark.position:
        return True
    return mark.stamp != UNKNOWN and stamps.at(there) not in (UNKNOWN, mark.stamp)


def _by_store(states: States, asked: list[Asked]) -> Iterator[tuple[StoreState, list[Asked]]]:
    """What is asked of each store."""
    for label in sorted({key.broker for key, _, _ in asked}):
        yield states[label], [each for each in asked if each[0].broker == label]
