"""Damaged spans of the log: what they are, which one a position lies in, and their file.

A span goes from the first byte that is no sound record to where a record proves itself again. The
file `aerobee.damage` lets the next start step over known spans without searching. Big-endian:

    magic · count of spans
    · per span: the fields of a span · reason · set aside (empty: where it was) · count of queues
      · per queue: topic · the fields of a queue
    · CRC-32 of all before; a text is its length and UTF-8
"""

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from aerobee.remoting.message.layout import Layout
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.layout import DAMAGE

MAGIC: Final = b"AERODMG1"
SPANS_MAX: Final = 10_000  # more are found again at each start
QUEUES_MAX: Final = 1000  # named per span; the rest is counted by nobody
DAMAGE_BYTES_MAX: Final = 64 << 20

_COUNT: Final = struct.Struct(">i")
_SPAN: Final = Layout(begin="q", end="q").run()
_QUEUE: Final = Layout(queue_id="i", first="q", last="q").run()
_LENGTH: Final = struct.Struct(">H")
_CRC: Final = struct.Struct(">I")

Lost = tuple[str, int, int, int]
"""Topic, queue number, first and last offset of what a queue has lost in a span."""


class Damage(msgspec.Struct, frozen=True):
    """The log's bytes from `begin` to `end` are no records; `queues` says whose offsets they had.

    `set_aside` names the copy of the bytes, None where they only lie where they were. What was lost
    of queues whose own files were lost, too, is known as far as later records tell.
    """

    begin: int
    end: int
    reason: str
    queues: tuple[Lost, ...] = ()
    set_aside: str | None = None


class DamageTable:
    """The spans of one log in order, without overlaps; empty for a log that is whole."""

    def __init__(self) -> None:
        self._spans: list[Damage] = []
        self._begins: list[int] = []
        self.lost_blanks: set[int] = set()  # where files lack the blank that closes them

    def __iter__(self) -> Iterator[Damage]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def end_at(self, position: int) -> None:
        """Forget what lies behind the end of the log: there will be other records."""
        kept = [span for span in self._spans if span.begin < position]
        if kept and kept[-1].end > position:
            kept[-1] = replace(kept[-1], end=position)
        if kept != self._spans:
            self.replace(kept)

    def add(self, span: Damage) -> Damage:
        """Note a span; it swallows those that it overlaps. Returns what is noted now."""
        if not self._spans or self._spans[-1].end <= span.begin:  # as a walk finds them
            self._spans.append(span)
            self._begins.append(span.begin)
            return span
        same = [old for old in self._spans if old.begin < span.end and old.end > span.begin]
        if same:
            first = same[0] if same[0].begin <= span.begin else span
            span = Damage(min(span.begin, same[0].begin), max(span.end, same[-1].end), first.reason)
        self.replace([old for old in self._spans if old not in same] + [span])
        return span

    def take_back(self, begin: int, end: int) -> None:
        """Forget what a sound record has of spans that seemed to begin within it."""
        index = bisect_right(self._begins, begin)
        if index == len(self._spans) or self._begins[index] >= end:
            return
        kept = [span for span in self._spans if not begin < span.begin < span.end <= end]
        self.replace(
            replace(span, begin=end, set_aside=None) if begin < span.begin < end else span
            for span in kept
        )

    def replace(self, spans: Iterable[Damage]) -> None:
        """Put other spans in the place of all."""
        self._spans = sorted(spans, key=lambda span: span.begin)
        self._begins = [span.begin for span in self._spans]

    def at(self, position: int) -> Damage | None:
        """Return the span that a position lies in."""
        index = bisect_right(self._begins, position) - 1
        if index >= 0 and position < self._spans[index].end:
            return self._spans[index]
        return None

    def touches(self, begin: int, end: int) -> bool:
        """Whether a stretch of the log has a damaged byte."""
        index = bisect_right(self._begins, end - 1) - 1
        return index >= 0 and begin < self._spans[index].end

    def frozen(self) -> "DamageTable | None":
        """Return the table as it is now, for another thread; None while it is empty."""
        if not self._spans:
            return None
        table = DamageTable()
        table._spans, table._begins = self._spans, self._begins  # `replace` makes new ones
        return table

    def bytes_between(self, begin: int, end: int) -> int:
        """Return how many bytes of a stretch of the log are damaged."""
        index = max(0, bisect_right(self._begins, begin) - 1)
        count = 0
        for span in islice(self._spans, index, None):
            if span.begin >= end:
                break
            count += max(0, min(span.end, end) - max(span.begin, begin))
        return count

    def drop_before(self, position: int) -> bool:
        """Forget what lies before the log's begin; False if that is nothing."""
        kept = [span for span in self._spans if span.end > position]
        changed = len(kept) != len(self._spans)
        if changed:
            self.replace(kept)
        return changed


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")[:65_535]
    return _LENGTH.pack(len(data)) + data


def encode_damage(spans: Iterable[Damage]) -> bytes:
    """Pack spans with their checksum, the first SPANS_MAX of them."""
    kept = list(spans)[:SPANS_MAX]
    parts = [MAGIC, _COUNT.pack(len(kept))]
    for span in kept:
        queues = span.queues[:QUEUES_MAX]
        parts += [_SPAN.pack(span.begin, span.end), _text(span.reason)]
        parts += [_text(span.set_aside or ""), _COUNT.pack(len(queues))]
        for topic, queue_id, first, last in queues:
            parts += [_text(topic), _QUEUE.pack(queue_id, first, last)]
    data = b"".join(parts)
    return data + _CRC.pack(zlib.crc32(data))


def decode_damage(data: bytes) -> list[Damage]:
    """Unpack spans; none if a single bit is wrong."""
    content = data[: -_CRC.size]
    if (
        len(data) < len(MAGIC) + _COUNT.size + _CRC.size
        or not data.startswith(MAGIC)
        or _CRC.unpack_from(data, len(content))[0] != zlib.crc32(content)
    ):
        return []
    try:
        return list(_Decoder(content).spans())
    except (struct.error, UnicodeDecodeError):
        return []


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(MAGIC)

    def spans(self) -> Iterator[Damage]:
        for _ in range(self._take(_COUNT)[0]):
            begin, end = self._take(_SPAN)
            reason, aside = self._text(), self._text()
            queues = []
            for _ in range(self._take(_COUNT)[0]):
                topic = self._text()
                queue_id, first, last = self._take(_QUEUE)
                queues.append((topic, queue_id, first, last))
            yield Damage(begin, end, reason, tuple(queues), aside or None)

    def _take(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return values

    def _text(self) -> str:
        (length,) = self._take(_LENGTH)
        begin, self._at = self._at, self._at + length
        return self._data[begin : self._at].decode()


def read_damage(files: Files, root: Path) -> list[Damage]:
    """Read the spans that an earlier start has found, none if there is nothing to trust."""
    data = files.read_all(root / DAMAGE, DAMAGE_BYTES_MAX)
    return decode_damage(data) if data else []


def write_damage(files: Files, root: Path, spans: Iterable[Damage]) -> None:
    """Replace the file in one step, or remove it where there is no damage; both durable."""
    path, spans = root / DAMAGE, list(spans)
    if not spans:
        if files.read_all(path, 1) is not None:
            files.remove(path)
            files.sync_directory(root)
        return
    data = encode_damage(spans)
    if files.read_all(path, DAMAGE_BYTES_MAX) != data:
        replace_file(files, path, data)
