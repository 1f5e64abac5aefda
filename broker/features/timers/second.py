"""What is due within one second, in memory: places in the log by the millisecond."""

from array import array
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from aerobee.storage.features.timers.chains import Chain
from aerobee.storage.features.timers.codecs import PRECISION_MS, Unit


class DueSecond:
    """Messages of one slot, by when they are due, those of one millisecond as they have arrived.

    Eight bytes for each. The chain is read from the last unit to the first, in steps of `read`, and
    what arrives meanwhile comes behind them. `deletes` are the keys of messages that are not wanted
    any more, with the topics for which each was counted.
    """

    def __init__(self, time_s: int, chain: Chain, missing: int | None = None) -> None:
        self.time_s = time_s
        self.missing = missing  # how many its slot counts that were not read, None: not known
        self.deletes: dict[str, list[str]] = {}
        self.rolls: set[int] = set()  # places of those that are due later
        self.pending = 0
        self._chain = chain
        self._units: Iterator[Unit] | None = chain
        self._unit: Unit | None = None  # that could not be taken so far
        self._found: list[array[int]] = [array("q"), array("q")]
        self._came: list[tuple[int, int]] = []
        self._places: dict[int, array[int]] = {}
        self._dues: list[int] = []  # a heap of what `_places` has
        self._taken: dict[int, int] = {}
        self.begun_at: int | None = None  # where the log ended before the first was delivered
        self.is_swept = False
        self.is_known = True  # while it is swept: what was read so far may be delivered
        self.known: set[int] = set()  # places that a sweep is to leave out
        self.rolled: set[int] = set()  # offsets of which a sweep has met what they became

    @property
    def is_read(self) -> bool:
        """Whether all units of the slot are here."""
        return self._units is None

    @property
    def is_open(self) -> bool:
        """Whether what is here may be delivered: all of it is, or what is missing is older."""
        return self._units is None or (self.is_swept and self.is_known)

    @property
    def is_doubted(self) -> bool:
        """Whether there may be more than what its slot has led to."""
        return not self._chain.is_whole or self.missing != 0

    def read(self, count: int, take: Callable[[Unit], None]) -> None:
        """Have up to so many of the units taken that are not here yet; `take` calls `found`.

        What it raises leaves its unit to the next step. After the last one everything is put in its
        order.
        """
        units = self._units
        if units is None:
            return
        for _ in range(count):
            unit = self._unit or next(units, None)
            if unit is None:
                return self._order()
            self._unit = unit
            take(unit)
            self._unit = None

    def sweep(self, units: Iterator[Unit], *, known: bool) -> None:
        """Have more read, behind the slot's own units: what they do not lead to.

        `known`: no message that takes another one back can be among what is missing, but of those
        that are missing themselves.
        """
        self._units, self.is_swept, self.is_known = units, True, known

    def may_be(self, due_ms: int) -> bool:
        """Whether a time lies in this second; not so: a late message, or a flipped bit."""
        return 0 < due_ms - self.time_s * PRECISION_MS <= PRECISION_MS

    def found(self, due_ms: int, position: int) -> None:
        """Take a message that `read` has come upon."""
        self._found[0].append(due_ms)
        self._found[1].append(position)

    def arrived(self, due_ms: int, position: int) -> None:
        """Take a message that has just come."""
        if self.is_open:
            self._put(due_ms, position)
        else:
            self._came.append((due_ms, position))

    def unwanted(self, key: str, topic: str) -> None:
        """Take note of a message that takes another one back, and of the topic it was sent to."""
        self.deletes.setdefault(key, []).append(topic)

    def is_counted_off(self, key: str | None) -> bool:
        """Whether a message with that key has been counted off already; each count is for one."""
        topics = self.deletes.get(key or "")
        if topics:
            topics.pop()
            return True
        return False

    def counted_off(self) -> Iterator[str]:
        """Yield the topics for which was counted off what was not there."""
        for topics in self.deletes.values():
            yield from topics

    def _order(self) -> None:
        dues, positions = self._found
        for due_ms, position in zip(reversed(dues), reversed(positions), strict=True):
            self._put(due_ms, position)
        for due_ms, position in self._came:
            self._put(due_ms, position)
        self._units = None
        self._found, self._came = [array("q"), array("q")], []

    def _put(self, due_ms: int, position: int) -> None:
        places = self._places.get(due_ms)
        if places is None:
            places = self._places[due_ms] = array("q")
            heappush(self._dues, due_ms)
        places.append(position)
        self.pending += 1

    def due_until(self, now_ms: int, count: int) -> list[int]:
        """Return the first milliseconds up to now that have messages, in order.

        There can be very many: where the clock was set back one second holds what is due before it.
        """
        dues: list[int] = []
        while len(dues) < count and self._dues and self._dues[0] <= now_ms:
            due_ms = heappop(self._dues)
            if due_ms in self._places and due_ms not in dues[-1:]:
                dues.append(due_ms)
        for due_ms in dues:
            heappush(self._dues, due_ms)
        return dues

    def first_ms(self) -> int | None:
        """Return when the next message is due."""
        while self._dues and self._dues[0] not in self._places:
            heappop(self._dues)
        return self._dues[0] if self._dues else None

    def due(self, due_ms: int, count: int) -> "array[int]":
        """Return the first places of a millisecond, those that `delivered` has not taken off."""
        begin = self._taken.get(due_ms, 0)
        return self._places[due_ms][begin : begin + count]

    @property
    def was_delivered(self) -> bool:
        """Whether a part of it was."""
        return self.begun_at is not None

    def delivered(self, due_ms: int, count: int) -> None:
        """Take the first of a millisecond off."""
        taken = self._taken.get(due_ms, 0) + count
        self.pending -= count
        if taken >= len(self._places[due_ms]):
            del self._places[due_ms]
            self._taken.pop(due_ms, None)
        else:
            self._taken[due_ms] = taken

    def left(self) -> set[int]:
        """Return the places of all messages that are still to be delivered."""
        return {
            position
            for due_ms, places in self._places.items()
            for position in places[self._taken.get(due_ms, 0) :]
        }
