"""Which message stood before each offset of a stream over the network: tells topics made anew.

As with stores (`marks.py`), but what stands there now is asked of the brokers: a pull of one
message for each queue that has news. A replica has its master's log, and so tells the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from aerobee.remoting.message.message_id import KEPT_BESIDE
from aerobee.spark.lost.marks import Mark
from aerobee.spark.offsets import BrokerQueue, Marks, Offsets, QueueRange

Bounds = Mapping[BrokerQueue, QueueRange]
Ask = Callable[[Offsets], Mapping[BrokerQueue, tuple[int, int]]]
"""Returns log position and store timestamp of the message at each offset, where a broker tells."""


class NetworkMarks:
    """The marks of one query's queues. What no broker tells just now proves nothing."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._verified: dict[BrokerQueue, tuple[int, str]] = {}
        self._given: dict[
            BrokerQueue, tuple[int, str]
        ] = {}  # with the offsets of the last question

    def changed(self, bounds: Bounds, offsets: Offsets, marks: Marks) -> Offsets:
        """Those of the queues that are not the marks' any more, and where to go on in each."""
        self._given = {key: (offset, marks.get(key, "")) for key, offset in offsets.items()}
        doubted = [key for key in offsets.keys() & bounds.keys() if self._doubted(key, bounds[key])]
        there = self._look({key: min(offsets[key], bounds[key].end) - 1 for key in doubted}, bounds)
        found: Offsets = {}
        for key in doubted:
            offset, text = self._given[key]
            mark, now = Mark.of_text(text), there.get(key)
            if mark is None or now is None:
                continue
            if now.is_of(mark) and offset <= bounds[key].end:
                self._verified[key] = offset, text
            elif offset <= bounds[key].end or _is_later(now, mark):  # else its end was cut off
                found[key] = bounds[key].start
                self._verified.pop(key, None)
                self._given.pop(key)
        return found

    def marks(self, bounds: Bounds, offsets: Offsets, known: Marks) -> Marks:
        """The marks of offsets; `known` are kept of queues that are not there now."""
        found: Marks = {}
        asked: Offsets = {}
        for key, offset in offsets.items():
            if key not in bounds:
                if key in known:
                    found[key] = known[key]
            elif self._verified.get(key, (-1, ""))[0] == offset:
                found[key] = self._verified[key][1]
            else:
                asked[key] = offset - 1
        there = self._look(asked, bounds)
        for key in asked:
            offset, text = self._given.get(key, (-1, ""))
            if key in there:
                found[key] = str(there[key])
                self._verified[key] = offsets[key], found[key]
            elif text and offset == offsets[key]:
                found[key] = text  # as it was: it could not be asked for
        return found

    def doubt(self, keys: Iterable[BrokerQueue]) -> None:
        """Look at these again, with news or without: tasks may find another queue in the place."""
        for key in keys:
            self._verified.pop(key, None)

    def doubt_some(self, count: int) -> None:
        """Look at so many again, those first that were not looked at for the longest time."""
        self.doubt(list(islice(self._verified, count)))

    def _doubted(self, key: BrokerQueue, there: QueueRange) -> bool:
        """Whether a queue has a mark, and news since it was seen to be the mark's."""
        offset, text = self._given[key]
        return bool(text) and (there.end != offset or self._verified.get(key) != (offset, text))

    def _look(self, asked: Offsets, bounds: Bounds) -> dict[BrokerQueue, Mark]:
        """The messages at offsets, of queues that have one there."""
        wanted = {key: at for key, at in asked.items() if bounds[key].start <= at < bounds[key].end}
        found = self._ask(wanted) if wanted else {}
        return {key: Mark(*each) for key, each in found.items()}


def _is_later(now: Mark, mark: Mark) -> bool:
    """Whether a message came after the marked one, by its log or, in another log, by the clock."""
    is_placed = max(now.position, mark.position) < KEPT_BESIDE  # both are in the log
    return (is_placed and now.position > mark.position) or now.stamp > mark.stamp
