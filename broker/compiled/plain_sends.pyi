"""Types of the compiled module; see plain_sends.pyx."""

from collections.abc import Mapping

from aerobee.broker.compiled.choice import HalfWorld
from aerobee.broker.writing.queues import QueueExcerpt, TopicQueue, TopicQueues
from aerobee.broker.writing.runs import ServeRun
from aerobee.broker.writing.tick import Tick
from aerobee.storage.log.commit_log import CommitLog

class PlainSends:
    """Serves the plain sends at the start of what was read."""

    def __init__(
        self,
        queues: TopicQueues | QueueExcerpt,
        log: CommitLog,
        tick: Tick,
        suffix: bytes,
        body_bytes_max: int,
    ) -> None: ...
    @property
    def serve(self) -> ServeRun: ...

class HalfRuns:
    """Serves the half messages and ENDs at the start of what was read."""

    def __init__(self, queues: TopicQueues, world: HalfWorld) -> None: ...
    def begin(self, half_queue: TopicQueue, suffix: bytes, room: int, now_ms: int) -> None:
        """Take what holds for the next run: `room` is how many more transactions may be open."""

    @property
    def serve(self) -> ServeRun: ...

def refuse_run(
    data: bytes, at: int, end: int, before: bytes, after: bytes
) -> tuple[int, bytes, int]:
    """Answer the plain sends that stand at `at`, each by `before`, its opaque and `after`."""

class SeenKeys:
    """Unique keys of topics; see features/dedup/seen_keys.py."""

    entries_max: int
    clock_ms: int
    put_count: int
    count: int
    evicted: int
    def __init__(self, entries_max: int) -> None: ...
    def add_topic(self, window_ms: int) -> int:
        """Return the number of one more topic."""

    def set_window(self, topic: int, window_ms: int) -> None:
        """Let a topic's keys be known for so long from now on; negative: not at all."""

    def find(self, topic: int, key: bytes, now_ms: int) -> int:
        """Return the position of the message that has a key, -1 where none had it in time."""

    def put(self, topic: int, key: bytes, position: int, now_ms: int) -> None:
        """Note the key of a message, which lies behind all others."""

    def forget(self, topic: int, key: bytes) -> None:
        """Drop a key."""

    def take_back(self, position: int) -> None:
        """Drop all keys of messages from a position on."""

    def expire(self, topic: int, now_ms: int, count_max: int) -> int:
        """Drop up to so many keys of a topic whose time is over; return how many went."""

    def trim(self, begin: int, count_max: int) -> int:
        """Drop up to so many keys of messages before a position; return how many went."""

    def state(self, topic: int) -> tuple[int, int, int]:
        """Return count, when the oldest came, and when the last one that went before its time."""

    def rewind(self) -> None:
        """Let `rows` begin with the oldest key."""

    def rows(self, count_max: int) -> bytes:
        """Return up to so many keys more, packed; b"" behind the last one."""

    def load(self, rows: bytes, begin: int, end: int, topics: Mapping[int, int]) -> None:
        """Take packed keys; `topics` has the numbers here by those there."""
