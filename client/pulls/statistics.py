"""How a push consumer is doing, topic by topic: counters, and rates over the last minute."""

import time
from collections import deque
from collections.abc import Callable, Container
from typing import Final, NamedTuple

from aerobee.remoting.bodies import ConsumeStatus

SAMPLE_INTERVAL_MS: Final = 10_000
_MINUTE_SAMPLES: Final = 6
_HOUR_SAMPLES: Final = 360


class TopicStatistics(NamedTuple):
    """Counters of one topic since the start; times are sums, in seconds.

        each = consumer.statistics().topics["orders"]
        print(each.pulled, "messages,", each.call_s / max(each.calls, 1), "s for a call")

    `pulls` brought messages, `pulled` of them in `pull_s` from request to reply; handlers were
    called `calls` times and took `call_s`; `succeeded` and `failed` count messages.
    """

    pulls: int
    pulled: int
    pull_s: float
    calls: int
    call_s: float
    succeeded: int
    failed: int


class TopicCounters:
    """The same while it grows."""

    __slots__ = TopicStatistics._fields

    def __init__(self) -> None:
        self.pulls = 0
        self.pulled = 0
        self.pull_s = 0.0
        self.calls = 0
        self.call_s = 0.0
        self.succeeded = 0
        self.failed = 0

    def read(self) -> TopicStatistics:
        """Return the present values."""
        return TopicStatistics(
            self.pulls,
            self.pulled,
            self.pull_s,
            self.calls,
            self.call_s,
            self.succeeded,
            self.failed,
        )


_NOTHING: Final = TopicCounters().read()


class ConsumeStatistics:
    """The counters of all topics and what they were in the last hour (ConsumerStatsManager.java).

    `sample` is to be called every SAMPLE_INTERVAL_MS; memory is bounded by an hour of
    samples, and `keep` by the topics that are consumed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._topics: dict[str, TopicCounters] = {}
        self._samples: deque[tuple[float, dict[str, TopicStatistics]]] = deque(maxlen=_HOUR_SAMPLES)
        self.sample()

    def of(self, topic: str) -> TopicCounters:
        """Return the counters of a topic, to be counted up by who does the work."""
        return self._topics.setdefault(topic, TopicCounters())

    def read(self) -> dict[str, TopicStatistics]:
        """Return the counters of every topic."""
        return {topic: counters.read() for topic, counters in self._topics.items()}

    def keep(self, topics: Container[str]) -> None:
        """Forget the counters of all other topics: they come and go."""
        for topic in [each for each in self._topics if each not in topics]:
            del self._topics[topic]

    def sample(self) -> None:
        """Remember the present values."""
        self._samples.append((self._clock(), self.read()))

    def status(self, topic: str) -> ConsumeStatus:
        """Return times in ms and rates per second over the last minute, failures of the hour.

        While no handler was called for a minute, the time of a call is that of the hour.
        """
        seconds, minute = self._since(topic, _MINUTE_SAMPLES)
        _, hour = self._since(topic, _HOUR_SAMPLES)
        handled = minute if minute.calls else hour
        return ConsumeStatus(
            pull_rt=_mean_ms(minute.pull_s, minute.pulls),
            pull_tps=minute.pulled / seconds,
            consume_rt=_mean_ms(handled.call_s, handled.calls),
            consume_ok_tps=minute.succeeded / seconds,
            consume_failed_tps=minute.failed / seconds,
            consume_failed_msgs=hour.failed,
        )

    def _since(self, topic: str, samples: int) -> tuple[float, TopicStatistics]:
        """Return how much was counted up since so many samples ago, and in how many seconds."""
        began, before = self._samples[-min(samples, len(self._samples))]
        now = self._topics[topic].read() if topic in self._topics else _NOTHING
        then = before.get(topic, _NOTHING)
        differences = (late - early for late, early in zip(now, then, strict=True))
        return max(self._clock() - began, 0.001), TopicStatistics._make(differences)


def _mean_ms(seconds: float, times: int) -> float:
    return 1000 * seconds / times if times else 0.0
