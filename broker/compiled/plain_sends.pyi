"""Types of the compiled module; see plain_sends.pyx."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aerobee.broker.writing.queues import TopicQueue, TopicQueues
from aerobee.broker.writing.tick import Tick
from aerobee.storage.log.commit_log import CommitLog

class PlainSends:
    """Serves the plain sends at the start of what was read."""

    def __init__(
        self,
        queues: TopicQueues,
        log: CommitLog,
        tick: Tick,
        suffix: bytes,
        body_bytes_max: int,
    ) -> None: ...
    def serve(
        self,
        data: bytes,
        at: int,
        frames_max: int,
        frame_bytes_max: int,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
    ) -> tuple[int, int]:
        """Serve frames from `at` on; return where the first is that is not served, and how many."""

class HalfWorld(Protocol):
    """What half messages and ENDs need of the broker; see features/transactions/fast_halves.py.

    `key` and `half` make what the feature keeps of one, `told` hears of the transactions that were
    opened, by key and by offset, and of those that were ended, with their outcomes.
    """

    @property
    def log(self) -> CommitLog: ...
    @property
    def tick(self) -> Tick: ...
    @property
    def by_key(self) -> dict[Any, Any]: ...
    @property
    def by_offset(self) -> dict[int, Any]: ...
    @property
    def unusual(self) -> tuple[bytes, ...]: ...
    @property
    def body_bytes_max(self) -> int: ...
    @property
    def properties_bytes_max(self) -> int: ...
    @property
    def kept_bytes_max(self) -> int: ...
    @property
    def key(self) -> Callable[..., Any]: ...
    @property
    def half(self) -> Callable[..., Any]: ...
    @property
    def told(
        self,
    ) -> Callable[[dict[Any, Any], dict[int, Any], list[Any], list[int]], None]: ...

class HalfRuns:
    """Serves the half messages and ENDs at the start of what was read."""

    def __init__(self, queues: TopicQueues, world: HalfWorld) -> None: ...
    def begin(self, half_queue: TopicQueue, suffix: bytes, room: int, now_ms: int) -> None:
        """Take what holds for the next run: `room` is how many more transactions may be open."""

    def serve(
        self,
        data: bytes,
        at: int,
        frames_max: int,
        frame_bytes_max: int,
        stamp: bytes,
        stamp_flag: int,
        acks: list[bytes],
    ) -> tuple[int, int]:
        """Serve frames from `at` on; return where the first is that is not served, and how many."""

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
