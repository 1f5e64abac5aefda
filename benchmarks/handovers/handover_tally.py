"""Who was delivered what: what was delivered twice, what never, and how long queues rested."""

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

Place = tuple[str, int, int]
"""Topic, queue and offset: one stored message, whoever sent it how often."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long queues rested when they went from one member to another, in milliseconds."""

    moves: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the messages of one run; counts are sums over the groups."""

    sent: int
    delivered: int
    twice: int  # deliveries of a stored message after its first one
    lost: int  # sent and in some group never delivered
    pauses: Pauses
    joins: Pauses  # those of them that came after a member had joined, and before the next change


@dataclass(slots=True)
class Delivery:
    """One call of a handler."""

    at_ms: float
    member: str
    place: Place


@dataclass(slots=True)
class Tally:
    """Notes every delivery of a run; groups are told apart, members are processes."""

    _deliveries: dict[str, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    _numbers: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    _changes: list[tuple[float, bool]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_change(self, at_ms: float, *, joins: bool) -> None:
        """Note that a member begins to join, or to leave."""
        self._changes.append((at_ms, joins))

    def note(self, group: str, member: str, place: Place, number: int, at_ms: float) -> None:
        """Note that a handler was given message `number`; callable from every thread."""
        with self._lock:
            self._deliveries[group].append(Delivery(at_ms, member, place))
            self._numbers[group].add(number)

    def delivered(self, group: str) -> int:
        """Return how many different messages a group has had."""
        with self._lock:
            return len(self._numbers[group])

    def deliveries(self) -> int:
        """Return how often any handler was called."""
        with self._lock:
            return sum(map(len, self._deliveries.values()))

    def outcome(self, sent: int, groups: list[str]) -> Outcome:
        """Return what became of messages 0 to `sent` - 1."""
        with self._lock:
            twice = lost = total = 0
            pauses: list[tuple[float, float]] = []
            for group in groups:
                deliveries = self._deliveries[group]
                places = Counter(delivery.place for delivery in deliveries)
                total += len(deliveries)
                twice += len(deliveries) - len(places)
                lost += len(set(range(sent)) - self._numbers[group])
                pauses += _pauses(deliveries)
            joins = [pause for pause in pauses if self._after_a_join(pause[0])]
        return Outcome(sent, total, twice, lost, _summary(pauses), _summary(joins))

    def _after_a_join(self, at_ms: float) -> bool:
        """Whether the last change before that was a member that joined."""
        return next((joins for at, joins in reversed(self._changes) if at <= at_ms), False)


def _pauses(deliveries: list[Delivery]) -> list[tuple[float, float]]:
    """Return when each queue went on after a change of its owner, and how long it had rested.

    From the last message that the old owner began to the first of the new one that nobody had
    before; what is delivered twice on the way would hide the rest.
    """
    by_queue = defaultdict[tuple[str, int], list[Delivery]](list)
    seen = set[Place]()
    for delivery in sorted(deliveries, key=lambda delivery: delivery.at_ms):
        if delivery.place not in seen:
            seen.add(delivery.place)
            by_queue[delivery.place[:2]].append(delivery)
    return [
        (after.at_ms, after.at_ms - before.at_ms)
        for queue in by_queue.values()
        for before, after in pairwise(queue)
        if before.member != after.member
    ]


def _summary(pauses: list[tuple[float, float]]) -> Pauses:
    if not pauses:
        return Pauses(0, 0.0, 0.0, 0.0)
    ranked = sorted(rested_ms for _, rested_ms in pauses)
    return Pauses(
        len(ranked), ranked[len(ranked) // 2], ranked[int(len(ranked) * 0.99)], ranked[-1]
    )
