"""Half messages whose producers have not decided yet: which there are, and when each is due.

A transaction is known by its producer group, its message's unique key and its topic. A copy that
was stored for a check takes the place of the one before, so each transaction has one open half,
whichever of its records an END names.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

REMEMBERED_MAX: Final = 100_000  # outcomes, for ENDs that come twice
MOVE_ON_MS: Final = 600_000  # a half that may not be checked holds progress back no longer
DROPPED_MAX: Final = 512  # dues of what has ended, in one look
SPARE_DUES: Final = 1024  # of transactions that have ended: dropped in one go


class Key(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What makes two half messages the same transaction."""

    group: str
    unique_key: str
    topic: str


class Half(msgspec.Struct, gc=False):
    """An open half message: the latest record of it, and what decides when it is checked.

    `offset` is of the half topic, `position` of the log; times are milliseconds since 1970.
    `immune_ms` is how long its sender wants no check, None without a wish; `first_offset` is where
    it was before it moved on for that. `begun` is the position of the transaction's first record,
    where it is known: one of the same name that ended before that is another.
    """

    key: Key
    offset: int
    position: int
    queue_id: int
    born_ms: int
    stored_ms: int
    checks: int = 0
    immune_ms: int | None = None
    first_offset: int | None = None
    begun: int = 0


class Waits(msgspec.Struct, frozen=True):
    """How long a half message waits for its first check, and from one to the next (ms)."""

    first_ms: int
    next_ms: int

    def due_ms(self, half: Half) -> int:
        """Return when a half is to be looked at, by the clock that its times are of."""
        if half.immune_ms is None:
            return half.stored_ms + (self.next_ms if half.checks else self.first_ms)
        return min(self.check_ms(half), half.stored_ms + MOVE_ON_MS)

    def check_ms(self, half: Half) -> int:
        """Return when a half may be checked."""
        if half.immune_ms is None:
            return self.due_ms(half)
        immune = min(half.born_ms, half.stored_ms) + half.immune_ms
        if half.checks:
            return max(half.stored_ms + self.next_ms, immune)
        return max(immune, half.stored_ms)


class OpenHalves:
    """The open half messages of one broker, by their latest offset and by transaction.

    Dues are kept by a clock that never goes back (`steady_ms`), so that a wall clock that is set
    neither asks everybody at once nor forgets anybody.
    """

    def __init__(self, waits: Waits) -> None:
        self.waits = waits
        self.by_offset: dict[int, Half] = {}
        self.by_key: dict[Key, Half] = {}
        self._dues: list[tuple[int, int]] = []  # when by the steady clock, offset
        self.latest_due = 0  # of the half that was added last, 0 where others' have changed
        self._outcomes: dict[Key, int] = {}
        self._forget: deque[Key] = deque()
        self.by_topic: dict[str, int] = {}  # how many are open

    def __len__(self) -> int:
        return len(self.by_offset)

    def __iter__(self) -> Iterator[Half]:
        return iter(self.by_offset.values())

    def find(self, key: Key) -> Half | None:
        """Return the open half of a transaction."""
        return self.by_key.get(key)

    def at(self, offset: int) -> Half | None:
        """Return the open half whose latest record has an offset."""
        return self.by_offset.get(offset)

    def add(self, half: Half, now_ms: int, steady_ms: int) -> Half | None:
        """Take a half; return the earlier record of the same transaction, which it replaces."""
        before = self.by_key.get(half.key)
        if before is not None:
            del self.by_offset[before.offset]
            half.begun = before.begun
        else:
            self.by_topic[half.key.topic] = self.by_topic.get(half.key.topic, 0) + 1
            self._outcomes.pop(half.key, None)
            if not half.checks and half.first_offset is None:
                half.begun = half.position
        self.by_offset[half.offset] = self.by_key[half.key] = half
        self._put(half, now_ms, steady_ms)
        return before

    def add_run(self, opened: dict[Key, Half], by_offset: dict[int, Half], steady_ms: int) -> None:
        """Take halves that were stored now, each by its transaction and its offset, in their order.

        None of those is open; none wishes for immunity, and all know where they begin.
        """
        by_topic, forget_outcome = self.by_topic, self._outcomes.pop
        for key in opened:
            by_topic[key.topic] = by_topic.get(key.topic, 0) + 1
            forget_outcome(key, None)
        self.by_offset.update(by_offset)
        self.by_key.update(opened)
        dues = self._dues
        if len(dues) > 2 * len(self.by_offset) + SPARE_DUES:
            last = next(reversed(opened.values()))
            self._again(self, last.stored_ms, steady_ms)
            return
        self.latest_due = due_ms = steady_ms + self.waits.first_ms
        for offset in by_offset:
            heapq.heappush(dues, (due_ms, offset))

    def end(self, half: Half, outcome: int) -> None:
        """Let a transaction be over; `outcome` is what its END said."""
        self.end_run([half], [outcome])

    def end_run(self, ended: list[Half], outcomes: list[int]) -> None:
        """Let transactions be over, in their order."""
        by_offset, by_key, by_topic = self.by_offset, self.by_key, self.by_topic
        for half, outcome in zip(ended, outcomes, strict=True):
            key = half.key
            del by_offset[half.offset], by_key[key]
            if left := by_topic[key.topic] - 1:
                by_topic[key.topic] = left
            else:
                del by_topic[key.topic]
            self._outcomes[key] = outcome
            self._forget.append(key)
        while len(self._forget) > REMEMBERED_MAX:
            self._outcomes.pop(self._forget.popleft(), None)

    def outcome(self, key: Key) -> int | None:
        """Return how a transaction ended, None if that is long ago or it never was."""
        return self._outcomes.get(key)

    def oldest_offset(self, otherwise: int) -> int:
        """Return the first offset that is open, `otherwise` where none is."""
        return next(iter(self.by_offset), otherwise)  # they come in that order

    def oldest_ms(self) -> int | None:
        """Return when the first to come of what is open was sent (ms), None where none is open.

        One that an administrator resumed counts from then on.
        """
        half = next(iter(self.by_key.values()), None)
        return None if half is None else min(half.born_ms, half.stored_ms)

    def recovered(self) -> None:
        """Take those that were added, some of them as copies, for the first ones, by their age."""
        by_age = sorted(self, key=lambda half: min(half.born_ms, half.stored_ms))
        self.by_key.clear()  # not another one: compiled code holds it
        self.by_key.update((half.key, half) for half in by_age)

    def next_due(self) -> int | None:
        """Return when the next look is due by the steady clock, None where none is open.

        That may be for one that has ended: a few of them are dropped at a time.
        """
        if not self.by_offset:
            self._dues = []
            return None
        dues = self._dues
        for _ in range(DROPPED_MAX):
            if not dues or self.at(dues[0][1]) is not None:
                break
            heapq.heappop(dues)
        return dues[0][0] if dues else None

    def take_due(self, steady_ms: int, count_max: int) -> Iterator[Half]:
        """Yield halves that are due, each of which has to be added again, put off, or ended."""
        for _ in range(count_max + DROPPED_MAX):
            if not count_max or not self._dues or self._dues[0][0] > steady_ms:
                break
            half = self.at(heapq.heappop(self._dues)[1])
            if half is not None:
                count_max -= 1
                yield half

    def put_off(self, half: Half, due_ms: int) -> None:
        """Look at a half later, by the steady clock."""
        heapq.heappush(self._dues, (due_ms, half.offset))

    def follow(self, waits: Waits, now_ms: int, steady_ms: int) -> None:
        """Take other waits, for those too that are open."""
        if waits != self.waits:
            self.waits = waits
            self._again(self, now_ms, steady_ms)

    def _put(self, half: Half, now_ms: int, steady_ms: int) -> None:
        if len(self._dues) > 2 * len(self.by_offset) + SPARE_DUES:
            self._again(self, now_ms, steady_ms)
        else:
            self.latest_due = due_ms = self._due(half, now_ms, steady_ms)
            heapq.heappush(self._dues, (due_ms, half.offset))

    def _again(self, halves: Iterable[Half], now_ms: int, steady_ms: int) -> None:
        self.latest_due = 0
        self._dues = [(self._due(half, now_ms, steady_ms), half.offset) for half in halves]
        heapq.heapify(self._dues)

    def _due(self, half: Half, now_ms: int, steady_ms: int) -> int:
        """Return when by the steady clock; a stamp of the future counts as now."""
        wait_ms = self.waits.due_ms(half) - half.stored_ms
        age_ms = max(0, now_ms - half.stored_ms)
        return steady_ms + max(0, wait_ms - age_ms)
