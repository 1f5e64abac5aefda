"""Traces on their way into messages: RocketMQ's rules of what goes together; pure."""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from aerobee.client.message import Message
from aerobee.client.traces.records import Trace, encode_trace

WAITING_MAX: Final = 2048  # AsyncTraceDispatcher.queueSize: what comes beyond it is dropped
BATCH_MAX: Final = 20  # AsyncTraceDispatcher.MAX_BATCH_NUM
AGE_MAX_S: Final = 5.0  # a trace waits so long for others of its topic
CHARS_MAX: Final = 118_000  # of one trace message's body: 128,000 and room for the rest
KEYS_CHARS_MAX: Final = 16_000  # of its KEYS: all properties together may have 32,767 bytes
CLOUD_TOPIC_PREFIX: Final = "rmq_sys_TRACE_DATA_"


class TraceItem(NamedTuple):
    """What one call of a hook has to say: of a topic's messages in one region, their keys too."""

    topic: str
    region: str
    traces: tuple[Trace, ...]

    def keys(self) -> Iterator[str]:
        """Yield by what the trace message is found: the messages' ids and keys."""
        for trace in self.traces:
            yield trace.message_id
            keys = getattr(trace, "keys", None)
            if keys:
                yield keys


class WaitingTraces:
    """Traces by topic and region; a group of `batch_max` is ready, as is one that is old enough.

    Holds WAITING_MAX items, ready ones too; `dropped` counts those for which there was no room.
    """

    def __init__(self, batch_max: int) -> None:
        self._batch_max = max(1, min(batch_max, BATCH_MAX))
        self._groups: dict[tuple[str, str], list[TraceItem]] = {}
        self._since_s: dict[tuple[str, str], float] = {}
        self._ready: deque[list[TraceItem]] = deque()
        self._count = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._count

    def add(self, item: TraceItem, now_s: float) -> bool:
        """Let an item wait; False where there is no room."""
        if self._count >= WAITING_MAX:
            self.dropped += 1
            return False
        self._count += 1
        at = item.topic, item.region
        group = self._groups.setdefault(at, [])
        group.append(item)
        self._since_s.setdefault(at, now_s)
        if len(group) >= self._batch_max:
            self._make_ready(at)
        return True

    def due_s(self) -> float | None:
        """Return the time at which something is ready: 0 for now, None where nothing waits."""
        if self._ready:
            return 0.0
        oldest_s = min(self._since_s.values(), default=None)
        return None if oldest_s is None else oldest_s + AGE_MAX_S

    def take(self, now_s: float, *, everything: bool = False) -> list[list[TraceItem]]:
        """Return the groups that are ready, or all."""
        for at, since_s in list(self._since_s.items()):
            if everything or since_s + AGE_MAX_S <= now_s:
                self._make_ready(at)
        taken = list(self._ready)
        self._ready.clear()
        self._count -= sum(map(len, taken))
        return taken

    def _make_ready(self, at: tuple[str, str]) -> None:
        self._ready.append(self._groups.pop(at))
        del self._since_s[at]


def trace_messages(items: list[TraceItem], trace_topic: str) -> Iterator[Message]:
    """Yield messages that hold a group's items in their order, each within the limits of one."""
    parts: list[str] = []
    keys: dict[str, None] = {}
    chars = keys_chars = 0
    for item in items:
        text = "".join(map(encode_trace, item.traces))
        more = dict.fromkeys(item.keys())
        more_chars = sum(map(len, more)) + len(more)
        if parts and (chars + len(text) > CHARS_MAX or keys_chars + more_chars > KEYS_CHARS_MAX):
            yield Message(trace_topic, "".join(parts).encode(), keys=list(keys))
            parts, keys, chars, keys_chars = [], {}, 0, 0
        parts.append(text)
        keys |= more
        chars += len(text)
        keys_chars += more_chars
    if parts:
        yield Message(trace_topic, "".join(parts).encode(), keys=list(keys))
