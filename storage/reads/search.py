"""Finds messages by their place in the log, and those of a queue by when they were stored."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, Protocol

from isal.isal_zlib import crc32

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import (
    BLANK_SIZE,
    BODY_BYTES_AT,
    BODY_LENGTH_BYTES,
    HOST_BITS,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    RECORD_SHAPES,
)
from aerobee.remoting.message.record import TOPIC_BYTES_MAX, decode_record
from aerobee.storage.log.commit_log import CommitLog
from aerobee.storage.log.scan import HEAD, store_timestamp
from aerobee.storage.queues.consume_queue import ConsumeQueue

Boundary = Literal["LOWER", "UPPER"]

_HEAD_BYTES_MIN: Final = min(
    BODY_BYTES_AT.values()
)  # enough for the store timestamp behind any born host
_HEAD_BYTES_MAX: Final = RECORD_SHAPES[HOST_BITS].size  # up to the body, behind any two hosts


class Lookup(Protocol):
    """Where bytes of the log and entries of the queues are read: the open store, or its files."""

    def read(self, position: int, count: int) -> bytes:
        """Copy up to `count` bytes of the log; safe for any position."""

    def entry_of(self, topic: str, queue_id: int, offset: int) -> tuple[int, int] | None:
        """Return position and size that a queue's entry names, None where there is no entry."""


class SearchedQueue(Protocol):
    """The entries of one queue, of the open store or of its files."""

    min_offset: int
    max_offset: int

    def entry(self, offset: int) -> tuple[int, int, int]:
        """Return (position, record size, tags code) of one entry."""


class OpenLookup:
    """The log and the queues of a store that is open."""

    def __init__(
        self, commit_log: CommitLog, find_queue: Callable[[str, int], ConsumeQueue | None]
    ) -> None:
        self._find_queue = find_queue
        self._log = commit_log
        self._earliest: tuple[int, int | None] = (-1, None)  # of the log that begins there
        self.read = commit_log.read

    def earliest_store_time(self) -> int | None:
        """Return when the oldest message kept was stored (ms), None in an empty log.

        Read once; not known, either, where the disk refuses.
        """
        begin = self._log.begin
        if self._earliest[0] != begin:
            stamp = None
            with suppress(OSError):
                stamp = store_time_at(self, begin)
                if stamp is None:
                    return None
            self._earliest = begin, stamp
        return self._earliest[1]

    def entry_of(self, topic: str, queue_id: int, offset: int) -> tuple[int, int] | None:
        """Return what an entry names; see Lookup."""
        queue = self._find_queue(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return None
        return queue.place_of(offset)


def record_bytes_at(
    lookup: Lookup, position: int, named: tuple[str, int, int] | None = None
) -> bytes | None:
    """Return the whole record that starts at `position`, None if none does.

    Any position may be asked for, one inside a body too, where a sender can have put whatever it
    likes. So a record has to prove itself before a byte of it is copied: it names this position,
    and the queue that it names has an entry of this position and size, which no sender can write.
    A record whose queue was deleted proves nothing any more. Who comes from an entry says of which
    topic, queue and offset that is (`named`): then a record that says the same proves itself,
    whatever size the entry has. Raises CorruptRecord for a record that is there and damaged:
    lengths that do not add up, a body that is not what its checksum says.
    """
    head = _head(lookup, position)
    if head is None:
        return None
    total, magic, crc, queue_id, _, queue_offset, _, sys_flag = HEAD.unpack_from(head)
    body_at = BODY_BYTES_AT[sys_flag & HOST_BITS]
    topic = _topic(lookup, position, head, body_at, total, long=magic == MAGIC_V2)
    if topic is None:
        return None
    if named is not None:
        if (topic, queue_id, queue_offset) != named:
            return None
    elif lookup.entry_of(topic, queue_id, queue_offset) != (position, total):
        return None
    data = lookup.read(position, total)
    if len(data) < total:
        return None
    decode_record(data, body=False)  # that its lengths add up
    topic_at = (
        body_at
        + BODY_LENGTH_BYTES
        + int.from_bytes(data[body_at : body_at + BODY_LENGTH_BYTES], "big")
    )
    if crc32(memoryview(data)[body_at + BODY_LENGTH_BYTES : topic_at]) & 0x7FFF_FFFF != crc:
        raise CorruptRecord(f"record at position {position}: wrong body crc")
    return data


def _topic(
    lookup: Lookup, position: int, head: bytes, body_at: int, total: int, *, long: bool
) -> str | None:
    """Return the topic that a record names behind its body, None where there can be none."""
    if len(head) < body_at + BODY_LENGTH_BYTES:
        return None
    at = (
        body_at
        + BODY_LENGTH_BYTES
        + int.from_bytes(head[body_at : body_at + BODY_LENGTH_BYTES], "big", signed=True)
    )
    length_bytes = 2 if long else 1
    if not body_at + BODY_LENGTH_BYTES <= at <= total - length_bytes - 2:
        return None
    count = int.from_bytes(lookup.read(position + at, length_bytes), "big")
    if count > min(TOPIC_BYTES_MAX, total - at - length_bytes - 2):
        return None
    try:
        return lookup.read(position + at + length_bytes, count).decode()
    except UnicodeDecodeError:
        return None


def store_time_at(lookup: Lookup, position: int) -> int | None:
    """Return the store timestamp (ms) of the record at `position`, None if there is none."""
    head = _head(lookup, position)
    if head is None:
        return None
    return store_timestamp(head, 0, HEAD.unpack_from(head)[7])


def _head(lookup: Lookup, position: int) -> bytes | None:
    if position < 0:
        return None
    head = lookup.read(position, _HEAD_BYTES_MAX)
    if len(head) < _HEAD_BYTES_MIN:
        return None
    total, magic, _, _, _, _, own, _ = HEAD.unpack_from(head)
    if magic not in (MAGIC_V1, MAGIC_V2) or own != position or total < RECORD_BYTES_MIN:
        return None
    return head


def offset_by_time(
    lookup: Lookup, queue: SearchedQueue, timestamp_ms: int, boundary: Boundary = "LOWER"
) -> int:
    """Return the offset that a time stands for (ConsumeQueue.binarySearchInQueueByTime).

    LOWER: the first message stored at or after it, `max_offset` if there is none. UPPER: the last
    message stored at or before it, `min_offset` if there is none. Messages that are lost have no
    time: they are stepped past, and go with the one that follows them.
    """
    after = 0 if boundary == "LOWER" else 1
    low, high = queue.min_offset, queue.max_offset
    while low < high:  # the first message stored at (LOWER) or after (UPPER) the time
        middle = (low + high) // 2
        known, stamp = middle, stamp_of(lookup, queue, middle)
        while stamp is None and known + 1 < high:
            known += 1
            stamp = stamp_of(lookup, queue, known)
        if stamp is not None and stamp < timestamp_ms + after:
            low = known + 1
        else:
            high = middle
    if boundary == "LOWER":
        while low < queue.max_offset and stamp_of(lookup, queue, low) is None:
            low += 1
        return low
    return max(queue.min_offset, low - 1)


def stamp_of(lookup: Lookup, queue: SearchedQueue, offset: int) -> int | None:
    """Return when the message of an offset was stored (ms), None where that, or it, is gone."""
    position, size, _ = queue.entry(offset)
    return store_time_at(lookup, position) if 0 < size < BLANK_SIZE else None
