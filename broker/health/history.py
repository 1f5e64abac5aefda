"""What each of many counters grew by in the last minute, hour and day (StatsItem.java)."""

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

import msgspec

STEP: Final = 1_000  # counters that one step of a sample takes, half a millisecond
MINUTE_SAMPLES: Final = 7  # every ten seconds one: they span a minute
HOUR_SAMPLES: Final = 7
HOUR_SPACING_S: Final = 600.0
DAY_SAMPLES: Final = 25
DAY_SPACING_S: Final = 3600.0
EARLY_S: Final = 5.0  # a sample that comes by so little too early is in time

Key = TypeVar("Key")


class Grown(msgspec.Struct, frozen=True):
    """What came in a time: messages, their bytes, and how long that was."""

    messages: int = 0
    size_bytes: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        """Messages per second; 0 where no time has passed."""
        return self.messages / self.seconds if self.seconds > 0 else 0.0


class _Sample:
    """All counters at one moment, each in its row; rows behind the end are those of 0."""

    __slots__ = ("at_s", "messages", "size_bytes")

    def __init__(self, at_s: float, rows: int = 0) -> None:
        self.at_s = at_s
        self.messages = array("q", bytes(8 * rows))
        self.size_bytes = array("q", bytes(8 * rows))

    def get(self, row: int) -> tuple[int, int]:
        if row >= len(self.messages):
            return 0, 0
        return self.messages[row], self.size_bytes[row]

    def put(self, row: int, messages: int, size_bytes: int) -> None:
        if row >= len(self.messages):
            more = bytes(8 * (row + 1 - len(self.messages)))
            self.messages.frombytes(more)
            self.size_bytes.frombytes(more)
        self.messages[row], self.size_bytes[row] = messages, size_bytes

    def clear(self, row: int) -> None:
        if row < len(self.messages):
            self.messages[row] = self.size_bytes[row] = 0


class GrowthHistory(Generic[Key]):
    """Samples of counters of messages and bytes; between two of them nothing is to be done.

    All counters were 0 when it was made. Memory: 16 bytes for each counter and sample, of which
    there are up to 36. Hour and day begin at the oldest sample that is kept for them, up to ten
    minutes or an hour early, and all end with the newest sample.
    """

    def __init__(self, at_s: float) -> None:
        began = _Sample(at_s)
        self._minute = deque([began], maxlen=MINUTE_SAMPLES)
        self._hour = deque([began], maxlen=HOUR_SAMPLES)
        self._day = deque([began], maxlen=DAY_SAMPLES)
        self._rows: dict[Key, int] = {}
        self._free: list[int] = []

    def sample(self, at_s: float, totals: Mapping[Key, tuple[int, int]]) -> None:
        """Remember the messages and bytes of all counters; one that is not there is forgotten."""
        for _ in self.sampling(at_s, totals):
            pass

    def sampling(self, at_s: float, totals: Mapping[Key, tuple[int, int]]) -> Iterator[None]:
        """Do the same in steps."""
        rows, last = self._rows, self._minute[-1]
        taken = _Sample(at_s, len(rows) + len(self._free))
        for count, (key, (messages, size_bytes)) in enumerate(totals.items(), 1):
            row = rows.get(key)
            if row is None:
                row = rows[key] = self._free.pop() if self._free else len(rows)
            elif messages < last.get(row)[0]:  # the topic was deleted, and made again
                self._clear(row)
            taken.put(row, messages, size_bytes)
            if count % STEP == 0:
                yield
        gone = [key for key in rows if key not in totals] if len(rows) > len(totals) else []
        for count, key in enumerate(gone, 1):
            row = rows.pop(key)
            self._clear(row)
            self._free.append(row)
            if count % STEP == 0:
                yield
        self._minute.append(taken)
        for kept, spacing_s in ((self._hour, HOUR_SPACING_S), (self._day, DAY_SPACING_S)):
            if at_s - kept[-1].at_s >= spacing_s - EARLY_S:
                kept.append(taken)

    def __contains__(self, key: Key) -> bool:
        """Whether the newest sample has a counter."""
        return key in self._rows

    def minute(self, key: Key) -> Grown:
        """Return what a counter grew by in the last minute, up to the newest sample."""
        return self._since(self._minute[0], key)

    def hour(self, key: Key) -> Grown:
        """Return the same of the last hour."""
        return self._since(self._hour[0], key)

    def day(self, key: Key) -> Grown:
        """Return the same of the last day."""
        return self._since(self._day[0], key)

    def per_second(self, key: Key) -> float:
        """Return how many messages per second came in the last minute."""
        return self.minute(key).per_second

    def _since(self, first: _Sample, key: Key) -> Grown:
        last, row = self._minute[-1], self._rows.get(key)
        seconds = last.at_s - first.at_s
        if row is None:
            return Grown(seconds=seconds)
        (messages, size_bytes), (before, bytes_before) = last.get(row), first.get(row)
        return Grown(messages - before, size_bytes - bytes_before, seconds)

    def _clear(self, row: int) -> None:
        for sample in {id(each): each for each in self._samples()}.values():
            sample.clear(row)

    def _samples(self) -> Iterator[_Sample]:
        yield from self._minute
        yield from self._hour
        yield from self._day
