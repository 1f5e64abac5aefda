"""When messages at known places of a log were stored: tells the same log from one made anew.

A log position alone does not: a broker that gets messages of the same sizes after its disk was
emptied has records at the same places. The time at which a message was stored never comes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from aerobee.spark.at_rest.open_segment import OpenLog
from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.at_rest.times import store_time
from aerobee.spark.errors import StoreUnreadable
from aerobee.spark.offsets import BrokerQueue

UNKNOWN = -1
ELSEWHERE = 1 << 62  # the position of what is not in this log, but stood in another one


class LogStamps:
    """Looks at single records of one store's log, as many as are asked for."""

    def __init__(self, state: StoreState) -> None:
        self._end = state.end
        self._log = OpenLog(state.segments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def at(self, position: int) -> int:
        """The store timestamp (ms) of the record at a log position, UNKNOWN where none is."""
        if not 0 <= position < self._end:
            return UNKNOWN
        try:
            file = self._log.file_at(position)
            found = None if file is None else store_time(file, position)
        except StoreUnreadable:
            return UNKNOWN  # its file was deleted meanwhile
        return UNKNOWN if found is None or found < 0 else found

    def verified(
        self, positions: Iterable[tuple[BrokerQueue, int]], stamps: Mapping[BrokerQueue, int]
    ) -> int:
        """The farthest of the positions where the log has a record of that time; -1 for none.

        A log only grows at its end: up to there it is the one that the stamps were taken of.
        """
        known = [(position, stamps.get(key, UNKNOWN)) for key, position in positions]
        for position, stamp in sorted(known, reverse=True):
            if stamp != UNKNOWN and self.at(position) == stamp:
                return position
        return -1

    def close(self) -> None:
        """Close the file that was looked at."""
        self._log.__exit__()
