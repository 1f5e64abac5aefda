"""The messages of which the log turned out to have no record when somebody wanted to read them."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from aerobee.storage.log.damage import Lost

if TYPE_CHECKING:
    from aerobee.storage.queues.consume_queue import ConsumeQueue

log = logging.getLogger(__name__)

RUNS_MAX: Final = 10_000  # of offsets that are remembered
TOLD_MAX: Final = 100  # of them with a line each

_END: Final = 1 << 63  # behind any offset
_Runs = list[tuple[int, int]]  # first and last offset, in order, none beside another


class Misreads:
    """Offsets by queue, as long as the store is open; told by one line for each run of them.

    Which bytes are bad, of the log or of the queue, nobody knows here, so nothing is changed: each
    read passes over them. `repair` finds out, and mends it.
    """

    def __init__(self, runs_max: int = RUNS_MAX, told_max: int = TOLD_MAX) -> None:
        self._runs: dict[ConsumeQueue, _Runs] = {}
        self._runs_max = runs_max
        self._told_max = told_max
        self._count = 0
        self._told = 0

    def note(self, queue: "ConsumeQueue", places: Iterable[tuple[int, int]]) -> None:
        """Take note of messages that a read has passed over: offset and position, in order.

        Those that are new are told.
        """
        runs = self._runs.get(queue, [])
        fresh: list[tuple[int, int, int]] = []
        for offset, position in places:
            index = bisect_right(runs, (offset, _END)) - 1
            if index >= 0 and offset <= runs[index][1]:
                continue
            if fresh and fresh[-1][1] == offset - 1:
                fresh[-1] = fresh[-1][0], offset, fresh[-1][2]
            else:
                fresh.append((offset, offset, position))
        for first, last, position in fresh:
            self._tell(queue, first, last, position)
            self._add(queue, first, last)

    def known(self, find: "Callable[[str, int], ConsumeQueue | None]") -> list[Lost]:
        """List topic, queue, first and last offset of each run that a queue still has.

        `find` returns the queue of a name: what was deleted is forgotten.
        """
        for queue in list(self._runs):
            if find(queue.topic, queue.queue_id) is not queue:
                self._keep(queue, [])
                continue
            low = queue.min_offset
            self._keep(queue, [(max(a, low), b) for a, b in self._runs[queue] if b >= low])
        return [
            (queue.topic, queue.queue_id, first, last)
            for queue, runs in self._runs.items()
            for first, last in runs
        ]

    def _add(self, queue: "ConsumeQueue", first: int, last: int) -> None:
        runs = list(self._runs.get(queue, ()))
        index = bisect_right(runs, (first, last))
        if index < len(runs) and runs[index][0] == last + 1:
            last = runs.pop(index)[1]
        if index and runs[index - 1][1] == first - 1:
            index -= 1
            first = runs.pop(index)[0]
        runs.insert(index, (first, last))
        if len(runs) <= len(self._runs.get(queue, ())) or self._count < self._runs_max:
            self._keep(queue, runs)

    def _keep(self, queue: "ConsumeQueue", runs: _Runs) -> None:
        self._count += len(runs) - len(self._runs.pop(queue, ()))
        if runs:
            self._runs[queue] = runs

    def _tell(self, queue: "ConsumeQueue", first: int, last: int, position: int) -> None:
        if self._told > self._told_max:
            return
        self._told += 1
        if self._told > self._told_max:
            log.error("messages_damaged more=yes reason='too many for a line each'")
            return
        log.error(
            "messages_damaged queue=%s-%d from=%d to=%d position=%d reason='the log has no such"
            " record where the entry of the queue leads' advice='the others are served; stop the"
            " broker and run python -m aerobee.storage.repair'",
            queue.topic, queue.queue_id, first, last, position,
        )  # fmt: skip
