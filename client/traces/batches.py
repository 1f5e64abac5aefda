"""Traces on their way into messages: RocketMQ's rules of what goes together; pure."""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from aerobee.client.message import Message
from aerobee.client.traces.records import Trace, encode_trace, without_separators

WAITING_MAX: Final = 2048  # AsyncTraceDispatcher.queueSize: what comes beyond it is dropped
WAITING_CHARS_MAX: Final = 16 * 1024 * 1024  # ours: batches are one item each, of any number
BATCH_MAX: Final = 20  # AsyncTraceDispatcher.MAX_BATCH_NUM
AGE_MAX_S: Final = 5.0  # a trace waits so long for others of its topic
CHARS_MAX: Final = 118_000  # of one trace message's body: 128,000 and room for the rest
KEYS_BYTES_MAX: Final = 16_000  # of its KEYS: all properties together may have 32,767
CLOUD_TOPIC_PREFIX: Final = "rmq_sys_TRACE_DATA_"

_TRACE_CHARS: Final = 256  # of what is the same in all, about


class TraceItem(NamedTuple):
    """What one call of a hook has to say: of a topic's messages in one region."""

    topic: str
    region: str
    traces: tuple[Trace, ...]

    def held_chars(self) -> int:
        """About how much it holds."""
        return sum(_TRACE_CHARS + len(each.message_id) + len(_keys(each)) for each in self.traces)


class WaitingTraces:
    """Traces by topic and region; a group of `batch_max` is ready, as is one that is old enough.

    Holds WAITING_MAX items of WAITING_CHARS_MAX characters, ready ones too; `dropped` counts traces
    for which there was no room.
    """

    def __init__(self, batch_max: int) -> None:
        self._batch_max = max(1, min(batch_max, BATCH_MAX))
        self._groups: dict[tuple[str, str], list[TraceItem]] = {}
        self._since_s: dict[tuple[str, str], float] = {}  # the oldest first
        self._ready: deque[list[TraceItem]] = deque()
        self._count = 0
        self._chars = 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._count

    def add(self, item: TraceItem, now_s: float) -> bool:
        """Let an item wait; False where there is no room."""
        chars = self._chars + item.held_chars()
        if self._count >= WAITING_MAX or chars > WAITING_CHARS_MAX:
            self.dropped += len(item.traces)
            return False
        self._count += 1
        self._chars = chars
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
        oldest_s = next(iter(self._since_s.values()), None)
        return None if oldest_s is None else oldest_s + AGE_MAX_S

    def take(self, now_s: float, *, everything: bool = False) -> list[list[TraceItem]]:
        """Return the groups that are ready, or all."""
        for at, since_s in list(self._since_s.items()):
            if not everything and since_s + AGE_MAX_S > now_s:
                break  # the others are younger
            self._make_ready(at)
        taken = list(self._ready)
        self._ready.clear()
        self._count -= sum(map(len, taken))
        self._chars -= sum(item.held_chars() for group in taken for item in group)
        return taken

    def _make_ready(self, at: tuple[str, str]) -> None:
        self._ready.append(self._groups.pop(at))
        del self._since_s[at]


def trace_messages(items: list[TraceItem], trace_topic: str) -> Iterator[Message]:
    """Yield messages that hold a group's traces in their order, each within the limits of one.

    They are found by the ids and keys of the messages that they tell of, but for those of one trace
    that are too long together; whoever has read them all finds these in the bodies.
    """
    parts: list[str] = []
    keys: dict[str, None] = {}
    chars = keys_bytes = 0
    for trace in (trace for item in items for trace in item.traces):
        text = encode_trace(trace)
        more = _as_fits(trace)
        more_bytes = sum(more.values())
        if parts and (chars + len(text) > CHARS_MAX or keys_bytes + more_bytes > KEYS_BYTES_MAX):
            yield _message(trace_topic, parts, keys)
            parts, keys, chars, keys_bytes = [], {}, 0, 0
        parts.append(text)
        keys |= dict.fromkeys(more)
        chars += len(text)
        keys_bytes += more_bytes
    if parts:
        yield _message(trace_topic, parts, keys)


def _as_fits(trace: Trace) -> dict[str, int]:
    """Return words by which a trace is found, and the bytes of each: id, keys, ids of a batch."""
    found: dict[str, int] = {}
    ids = trace.message_id.split(",")
    left = KEYS_BYTES_MAX
    for word in (trace.message_id, *without_separators(_keys(trace)).split(), *ids):
        size = len(word.encode("utf-8", "replace")) + 1
        if word and word not in found and size <= left:
            found[word] = size
            left -= size
    return found


def _keys(trace: Trace) -> str:
    return getattr(trace, "keys", None) or ""


def _message(topic: str, parts: list[str], keys: dict[str, None]) -> Message:
    words = " ".join(keys).encode("utf-8", "replace").decode()
    return Message(topic, "".join(parts).encode("utf-8", "replace"), keys=words.split())
