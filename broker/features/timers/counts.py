"""The file `config/timermetrics`: how many messages wait for each topic, in RocketMQ's shape."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from aerobee.broker.room import Histogram
from aerobee.remoting.bodies import DataVersion

DELAY_S: Final = (60, 600, 3600, 43_200, 86_400, 259_200)


class TopicCount(msgspec.Struct):
    """How many messages wait for a topic, and when that changed last (ms)."""

    count: int = 0
    time_stamp: int = msgspec.field(name="timeStamp", default=0)


class _Stored(msgspec.Struct):
    timing_count: dict[str, TopicCount] = msgspec.field(name="timingCount", default_factory=dict)
    data_version: DataVersion | None = msgspec.field(name="dataVersion", default=None)


class PassedMessages:
    """What came and went since the start, by topic; for metrics."""

    def __init__(self, now_ms: int) -> None:
        self.enqueued: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self.delays: dict[str, Histogram] = {}  # seconds that messages were to wait
        self.taken_ms = now_ms  # when a message got a slot for the last time

    def taken(self, topic: str, due_ms: int, now_ms: int) -> None:
        """Count a message that got a slot."""
        self.enqueued[topic] += 1
        self.taken_ms = now_ms
        delays = self.delays.get(topic)
        if delays is None:
            delays = self.delays[topic] = Histogram(DELAY_S)
        delays.add(max(0, due_ms - now_ms) // 1000)


class TimingCounts:
    """Counts by topic; what has left a second that is not done is kept apart.

    So a note has the counts as they were before that second, and a start counts again what of it
    the log says was delivered.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._counts: dict[str, TopicCount] = {}
        self._leaving: Counter[str] = Counter()
        self._version = DataVersion(timestamp=now_ms())

    def load(self, text: bytes) -> None:
        """Take the text of a note, or of the file; one that is none counts as empty."""
        try:
            stored = msgspec.json.decode(text or b"{}", type=_Stored)
        except msgspec.DecodeError:
            return
        self._counts = {topic: each for topic, each in stored.timing_count.items() if each.count}
        self._version = stored.data_version or self._version

    def add(self, topic: str, count: int) -> None:
        """Count messages that wait from now on; -1 for one that takes another one back."""
        if topic:
            each = self._counts.setdefault(topic, TopicCount())
            each.count += count
            each.time_stamp = self._now_ms()

    def leave(self, topic: str, count: int = 1) -> None:
        """Count a message that waits no more; -1 for one that takes another one back."""
        self._leaving[topic] += count

    def settle(self) -> None:
        """Take what has left as gone: its second is done."""
        leaving, self._leaving = self._leaving, Counter()
        for topic, count in leaving.items():
            self.add(topic, -count)

    def current(self) -> Mapping[str, int]:
        """Return how many wait now, by topic."""
        return {topic: each.count - self._leaving[topic] for topic, each in self._counts.items()}

    def text(self, *, noted: bool = False) -> bytes:
        """Return the text of the file, of this moment, or as a note has it."""
        now = self.current()
        self._version = msgspec.structs.replace(
            self._version, timestamp=self._now_ms(), counter=self._version.counter + 1
        )
        counts = {
            topic: TopicCount(each.count if noted else now[topic], each.time_stamp)
            for topic, each in self._counts.items()
        }
        return b'{"dataVersion":%b,"timingCount":%b}' % (
            msgspec.json.encode(self._version),
            msgspec.json.encode(counts),
        )
