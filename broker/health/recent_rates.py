"""What happened per second in the last minute, for each of many counters (StatsItem.java)."""

from collections import deque
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

SAMPLES: Final = 7  # every ten seconds one: they span a minute

Key = TypeVar("Key")


class RecentRates(Generic[Key]):
    """Keeps the counters' latest samples; nothing is to be done between two of them.

    A counter that was not there at the first sample was 0 then. Memory: SAMPLES times what
    `sample` is given.
    """

    def __init__(self) -> None:
        self._samples = deque[tuple[float, Mapping[Key, int]]](maxlen=SAMPLES)

    def sample(self, at_s: float, totals: Mapping[Key, int]) -> None:
        """Remember the totals of all counters; `totals` is kept."""
        self._samples.append((at_s, totals))

    def per_second(self, key: Key) -> float:
        """Return by how much a counter grew per second, 0 where it began anew meanwhile."""
        if len(self._samples) < 2:
            return 0.0
        (began_s, first), (ended_s, last) = self._samples[0], self._samples[-1]
        grown = last.get(key, 0) - first.get(key, 0)
        return max(grown, 0) / max(ended_s - began_s, 1e-3)
