"""What the broker counts; `measures` has the names under which the world reads it.

Hot paths bump plain integers: each queue counts its own arrivals, pulls are counted here. Rates are
differences between samples.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from operator import itemgetter
from typing import Final, Protocol

import msgspec

from aerobee.broker.health.history import GrowthHistory
from aerobee.storage.grouped_keys import GroupedKeys
from aerobee.storage.queues.consume_queue import ConsumeQueue

SAMPLE_INTERVAL_S: Final = 10.0
SAMPLED_PER_STEP: Final = 1_000  # counters, half a millisecond
WINDOWS_S: Final = (10, 60, 600)  # as RocketMQ prints its rates
TOPIC, GROUP = 0, 1  # of a key
PUT: Final = "put"
GET: Final = "get"
_NONE: Final = (0, 0)


class CountedQueue(Protocol):
    """A queue that knows what has arrived in it."""

    name: str  # of its topic
    stored: ConsumeQueue
    start_offset: int  # what was there before this process
    arrived_bytes: int


@dataclass(slots=True)
class PulledCounts:
    """What one group has pulled from one topic since the start."""

    messages: int = 0
    size_bytes: int = 0


class Counts(msgspec.Struct, frozen=True):
    """The broker's totals since its start, at one moment."""

    at_s: float
    put: int = 0
    put_bytes: int = 0
    found: int = 0
    missed: int = 0
    transferred: int = 0


class Metrics:
    """Counters of one broker; `pulled` is called for every answered pull."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self.started_ms = int(time.time() * 1000)
        self.outgoing: dict[tuple[str, str], PulledCounts] = {}
        self.dead_letters: Counter[tuple[str, str]] = Counter()  # by topic and group
        self.sent_back: Counter[tuple[str, str]] = Counter()  # likewise, dead letters too
        self._rows = tuple(
            GroupedKeys[tuple[str, str]](table, itemgetter(TOPIC), itemgetter(GROUP))
            for table in (self.outgoing, self.dead_letters, self.sent_back)
        )
        self.found = 0
        self.missed = 0
        self.transferred = 0
        self._gone_messages = 0  # of queues that were deleted
        self._gone_bytes = 0
        began = Counts(clock_s())
        self._samples = deque([began], maxlen=1 + int(600 / SAMPLE_INTERVAL_S))
        self.sent_to = GrowthHistory[str](began.at_s)  # by topic
        self.pulled_by = GrowthHistory[tuple[str, str]](began.at_s)  # by topic and group
        self.sent_back_by = GrowthHistory[tuple[str, str]](
            began.at_s
        )  # likewise; bytes are not counted
        self.in_all = GrowthHistory[str](began.at_s)  # PUT and GET
        self._day: date | None = None
        self.today = self.yesterday = Counts(0.0)  # at the two last midnights

    def pulled(self, topic: str, group: str, count: int, size_bytes: int, pulls: int = 1) -> None:
        """Count a pull that was answered with `count` messages, or several that have found some."""
        if not count:
            self.missed += 1
            return
        self.found += pulls
        self.transferred += count
        outgoing = self.outgoing.get((topic, group))
        if outgoing is None:
            outgoing = self.outgoing[topic, group] = PulledCounts()
        outgoing.messages += count
        outgoing.size_bytes += size_bytes

    def dead_letter(self, topic: str, group: str) -> None:
        """Count one message of `topic` that its group could not consume."""
        self.dead_letters[topic, group] += 1

    def send_back(self, topic: str, group: str) -> None:
        """Count one message of `topic` that its group sent back, whatever becomes of it."""
        self.sent_back[topic, group] += 1

    def forget(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Drop the rows of a deleted topic, or of a deleted group."""
        for rows in self._rows:
            for key in rows.of(topic, TOPIC) if topic is not None else rows.of(group, GROUP):
                rows.remove(key)

    def queue_gone(self, queue: CountedQueue) -> None:
        """Keep a deleted queue's arrivals in the totals."""
        self._gone_messages += queue.stored.max_offset - queue.start_offset
        self._gone_bytes += queue.arrived_bytes

    def counts(self, queues: Iterable[CountedQueue]) -> Counts:
        """Add up the totals; the cost grows with the number of queues in use."""
        put, put_bytes = self._gone_messages, self._gone_bytes
        for queue in queues:
            put += queue.stored.max_offset - queue.start_offset
            put_bytes += queue.arrived_bytes
        return Counts(self._clock_s(), put, put_bytes, self.found, self.missed, self.transferred)

    def sample(self, queues: Iterable[CountedQueue], today: date | None = None) -> None:
        """Remember the totals, to be called every SAMPLE_INTERVAL_S; notice midnight."""
        for _ in self.sampling(queues, today):
            pass

    def sampling(self, queues: Iterable[CountedQueue], today: date | None = None) -> Iterator[None]:
        """Do the same in steps, between which messages may come and queues may go."""
        queues, at_s = list(queues), self._clock_s()
        put, put_bytes = self._gone_messages, self._gone_bytes  # those of `queues` are not in it
        sent_to: dict[str, tuple[int, int]] = {}
        for count, queue in enumerate(queues, 1):
            arrived, size_bytes = queue.stored.max_offset - queue.start_offset, queue.arrived_bytes
            put += arrived
            put_bytes += size_bytes
            if arrived:
                before, bytes_before = sent_to.get(queue.name, _NONE)
                sent_to[queue.name] = before + arrived, bytes_before + size_bytes
            if count % SAMPLED_PER_STEP == 0:
                yield
        pulled: dict[tuple[str, str], tuple[int, int]] = {}
        for count, (key, outgoing) in enumerate(list(self.outgoing.items()), 1):
            pulled[key] = outgoing.messages, outgoing.size_bytes
            if count % SAMPLED_PER_STEP == 0:
                yield
        counts = Counts(at_s, put, put_bytes, self.found, self.missed, self.transferred)
        self._samples.append(counts)
        yield from self.sent_to.sampling(at_s, sent_to)
        yield from self.pulled_by.sampling(at_s, pulled)
        sent_back = {key: (count, 0) for key, count in self.sent_back.items()}
        yield from self.sent_back_by.sampling(at_s, sent_back)
        self.in_all.sample(at_s, {PUT: (put, put_bytes), GET: (self.transferred, 0)})
        today = today or datetime.now().date()
        if self._day is not None and today != self._day:
            self.yesterday, self.today = self.today, counts
        self._day = today

    def rates(self, latest: Counts) -> dict[str, list[float]]:
        """Return what happened per second, in each of WINDOWS_S up to `latest`.

        A window longer than the broker runs reaches back to its start.
        """
        rates: dict[str, list[float]] = {}
        for name in ("put", "found", "missed", "transferred"):
            rates[name] = []
            for window_s in WINDOWS_S:
                base = self._sample_before(latest.at_s - window_s)
                elapsed_s = max(latest.at_s - base.at_s, 1e-3)
                rates[name].append((getattr(latest, name) - getattr(base, name)) / elapsed_s)
        return rates

    def _sample_before(self, at_s: float) -> Counts:
        for counts in reversed(self._samples):
            if counts.at_s <= at_s:
                return counts
        return self._samples[0]
