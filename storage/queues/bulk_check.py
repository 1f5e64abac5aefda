"""Checks many records at once with numpy, guided by the queue entries that point at them.

Walking a log record by record costs microseconds each. Where queue entries exist, their positions,
sorted, must be exactly the records of the log one behind the other; then all headers can be fetched
and compared as columns, and only the checksum is left to do one by one.
"""

import mmap
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from isal.isal_zlib import crc32

from aerobee.remoting.message.layout import (
    BLANK_SIZE,
    BODY_BYTES_AT,
    ENTRY_FIELDS,
    HOST_BITS,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    RECORD_FIELDS,
)
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.log.segment import Segment
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.entries import QueueEntries

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

RANGE_BYTES: Final = 32 << 20

_ENTRY: Final = np.dtype(ENTRY_FIELDS.columns())
_HEAD: Final = np.dtype(
    RECORD_FIELDS.columns(
        ("total_size", "magic", "body_crc", "queue_id", "queue_offset", "position", "sys_flag")
    )
)
_TAGS_AT: Final = ENTRY_FIELDS.at("tags_code")
_BODY_BYTES_AT: Final = np.zeros(HOST_BITS + 1, np.int64)
for bits, place in BODY_BYTES_AT.items():
    _BODY_BYTES_AT[bits] = place


class Entries(NamedTuple):
    """Queue entries of one stretch of the log as columns; `queue` is an index into a list."""

    position: "Ints"
    size: "Ints"
    tags: "Ints"
    offset: "Ints"
    queue: "Ints"


class Columns(NamedTuple):
    """What the log says where entries point: where bodies and properties are, what is sound."""

    sound: "Bools"
    crc: "Ints"
    body_at: "Ints"  # in the data that was looked at
    body_bytes: "Ints"
    properties_at: "Ints"
    end: "Ints"


def read_entries(queue: QueueEntries, low: int, high: int) -> "npt.NDArray[np.void]":
    """Copy the entries `low` to `high` of a queue into one array."""
    pieces = []
    while low < high:
        piece = np.frombuffer(queue.copied(low, high - low), _ENTRY)
        pieces.append(piece)
        low += len(piece)
    return np.concatenate(pieces) if pieces else np.empty(0, _ENTRY)


def entries_between(queues: list[ConsumeQueue], begin: int, end: int) -> Entries:
    """Collect what all queues say about a stretch of the log, in the log's order."""
    rows, offsets, owners = [], [], []
    for index, queue in enumerate(queues):
        low, high = queue.first_from(begin), queue.first_from(end)
        if low < high:
            found, places = read_entries(queue, low, high), np.arange(low, high, dtype=np.int64)
            if queue.batched:  # of messages that share a record the first one speaks for all
                firsts = first_of_each(found)
                found, places = found[firsts], places[firsts]
            rows.append(found)
            offsets.append(places)
            owners.append(np.full(len(places), index, dtype=np.int64))
    if not rows:
        empty = np.empty(0, np.int64)
        return Entries(empty, empty, empty, empty, empty)
    table = np.concatenate(rows)
    position = table["position"].astype(np.int64)
    order = np.argsort(position, kind="stable")
    return Entries(
        position[order],
        table["size"].astype(np.int64)[order],
        table["tags_code"].astype(np.int64)[order],
        np.concatenate(offsets)[order],
        np.concatenate(owners)[order],
    )


def first_of_each(rows: "npt.NDArray[np.void]", before: int = -1) -> "Bools":
    """Tell the entries that lead to another record than the one before them; `before` is its
    position in front of the first one."""
    firsts: Bools = np.ones(len(rows), bool)
    position = rows["position"]
    firsts[1:] = position[1:] != position[:-1]
    if len(rows):
        firsts[0] = int(position[0]) != before
    firsts[rows["size"] == BLANK_SIZE] = True
    return firsts


def take(entries: Entries, count: int) -> Entries:
    """Return the first entries."""
    return Entries(*(column[:count] for column in entries))


def chained(entries: Entries, begin: int) -> int:
    """Return how many entries follow each other without gap or overlap from `begin` on."""
    if not len(entries.position) or entries.position[0] != begin:
        return 0
    breaks = np.flatnonzero(entries.position[1:] != (entries.position + entries.size)[:-1])
    return int(breaks[0]) + 1 if len(breaks) else len(entries.position)


def columns(data: bytes, base: int, entries: Entries, queues: list[ConsumeQueue]) -> Columns:
    """Compare headers, topic and lengths with the entries; `data` are the log's bytes from `base`.

    Entries must lie within `data`. Bodies are not looked at.
    """
    at = entries.position - base
    heads = np.ndarray((len(data) - _HEAD.itemsize + 1,), _HEAD, data, strides=(1,))[at]
    size, sys_flag = entries.size, heads["sys_flag"]
    v1 = heads["magic"] == MAGIC_V1
    sound = v1 | (heads["magic"] == MAGIC_V2)
    sound &= (heads["total_size"] == size) & (heads["position"] == entries.position)
    sound &= heads["queue_offset"] == entries.offset
    end = at + size
    body_at = at + _BODY_BYTES_AT[sys_flag & HOST_BITS]
    words = np.ndarray((len(data) - 3,), ">i4", data, strides=(1,))
    sound &= body_at + 7 <= end
    body_bytes = words[np.where(sound, body_at, 0)].astype(np.int64)
    body_at += 4
    sound &= (body_bytes >= 0) & (body_at + body_bytes + 3 <= end)
    topic_at = np.where(sound, body_at + body_bytes, 0)
    topic_end = topic_at.copy()
    for index in np.unique(entries.queue):
        queue, mine = queues[index], entries.queue == index
        length = len(queue.prefix)
        texts = np.ndarray((max(0, len(data) - length + 1),), f"S{length}", data, strides=(1,))
        inside = mine & sound & (topic_at + length + 2 <= end)
        same = np.zeros(len(at), bool)
        same[inside] = texts[topic_at[inside]] == queue.prefix
        sound &= ~mine | (same & (heads["queue_id"] == queue.queue_id))
        topic_end[mine] += length
    shorts = np.ndarray((len(data) - 1,), ">i2", data, strides=(1,))
    properties_at = np.where(sound, topic_end, 0)
    sound &= properties_at + 2 + shorts[properties_at] == end
    crc = heads["body_crc"].astype(np.int64)
    return Columns(sound, crc, body_at, body_bytes, properties_at + 2, end)


def wrong_bodies(data: bytes, found: Columns) -> Iterable[int]:
    """Yield the indexes of sound headers whose body does not match its checksum.

    Also of those with zeros among their properties, which may be lost bytes: see walk.has_hole.
    """
    view = memoryview(data)
    begins, lengths = found.body_at.tolist(), found.body_bytes.tolist()
    sums, sound = found.crc.tolist(), found.sound.tolist()
    more, ends = found.properties_at.tolist(), found.end.tolist()
    for index, begin in enumerate(begins):
        length = lengths[index]
        if not sound[index]:
            continue
        wrong = length and crc32(view[begin : begin + length]) & 0x7FFF_FFFF != sums[index]
        if wrong or data.find(0, more[index], ends[index]) >= 0:
            yield index


def read_stretch(segment: Segment, begin: int, entries: Entries) -> tuple[bytes, Entries]:
    """Read the log's bytes that entries point at; entries that leave the file are dropped."""
    ends = entries.position + entries.size
    inside = (ends <= segment.end) & (entries.size >= RECORD_BYTES_MIN)
    if not inside.all():
        entries = take(entries, int(np.argmin(inside)))
        ends = ends[: len(entries.position)]
    if not len(ends):
        return b"", entries
    data = segment.read(begin, int(ends.max()) - begin)
    inside = ends <= begin + len(data)
    if not inside.all():  # of a file that has lost its end
        entries = take(entries, int(np.argmin(inside)))
    return data, entries


def sound_until(
    segments: Segments,
    queues: list[ConsumeQueue],
    begin: int,
    on_stretch: Callable[[bytes, int, Entries, Columns], None] | None = None,
) -> tuple[int, int]:
    """Return up to where log and queues prove each other from `begin` on, and how many records.

    Beyond it the log may go on, or end. `on_stretch` sees every stretch that was found sound.
    """
    position, records = begin, 0
    while (segment := segments.find(position)) is not None:
        entries = entries_between(queues, position, min(segment.end, position + RANGE_BYTES))
        data, entries = read_stretch(segment, position, take(entries, chained(entries, position)))
        if not len(entries.position):
            if not segment.is_closed_at(position):
                break
            position = segment.end
            continue
        found = columns(data, position, entries, queues)
        sound = len(found.sound) if found.sound.all() else int(np.argmin(found.sound))
        sound = min(sound, next(iter(wrong_bodies(data, found)), sound))
        if sound and on_stretch is not None:
            on_stretch(data, position, take(entries, sound), found)
        records += sound
        if sound:
            position = int(entries.position[sound - 1] + entries.size[sound - 1])
        if sound < len(entries.position):
            break
    return position, records


def matching(
    entries: mmap.mmap | bytearray | bytes, at: int, count: int, wanted: frozenset[int]
) -> list[int]:
    """Return the indexes of entries whose tags code is wanted."""
    tags = np.ndarray((count,), ">i8", entries, at + _TAGS_AT, (ENTRY_BYTES,))
    codes = iter(wanted)
    first = next(codes, None)
    if first is None:
        return []
    mask = tags == first
    for code in codes:  # a few comparisons are far quicker than numpy.isin
        mask |= tags == code
    found: list[int] = mask.nonzero()[0].tolist()
    return found
