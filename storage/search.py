"""Finds the message of a queue that was stored at, after or before a time."""

from typing import Final, Literal

from aerobee.remoting.record import MAGIC_V1, MAGIC_V2
from aerobee.storage.commit_log import CommitLog
from aerobee.storage.consume_queue import ConsumeQueue
from aerobee.storage.log_scan import HEAD, RECORD_BYTES_MIN, store_timestamp
from aerobee.storage.queue_files import BLANK_SIZE

Boundary = Literal["LOWER", "UPPER"]

_HEAD_BYTES: Final = 84  # enough for the store timestamp behind any born host


def record_bytes_at(commit_log: CommitLog, position: int) -> memoryview | None:
    """Return the whole record that starts at `position`, None if none does.

    Any position may be asked for, a hostile one too: it is read through the file number, which is
    safe over holes, and believed only if the record names that very position.
    """
    head = _head(commit_log, position)
    if head is None:
        return None
    data = commit_log.read(position, HEAD.unpack_from(head)[0])
    return memoryview(data) if len(data) == HEAD.unpack_from(head)[0] else None


def store_time_at(commit_log: CommitLog, position: int) -> int | None:
    """Return the store timestamp (ms) of the record at `position`, None if there is none."""
    head = _head(commit_log, position)
    if head is None:
        return None
    return store_timestamp(head, 0, HEAD.unpack_from(head)[7])


def _head(commit_log: CommitLog, position: int) -> bytes | None:
    if position < 0:
        return None
    head = commit_log.read(position, _HEAD_BYTES)
    if len(head) < _HEAD_BYTES:
        return None
    total, magic, _, _, _, _, own, _ = HEAD.unpack_from(head)
    if magic not in (MAGIC_V1, MAGIC_V2) or own != position or total < RECORD_BYTES_MIN:
        return None
    return head


def offset_by_time(
    commit_log: CommitLog, queue: ConsumeQueue, timestamp_ms: int, boundary: Boundary = "LOWER"
) -> int:
    """Return the offset that a time stands for (ConsumeQueue.binarySearchInQueueByTime).

    LOWER: the first message stored at or after it, `max_offset` if there is none. UPPER: the last
    message stored at or before it, `min_offset` if there is none.
    """
    after = 0 if boundary == "LOWER" else 1
    low, high = queue.min_offset, queue.max_offset
    while low < high:  # the first message stored at (LOWER) or after (UPPER) the time
        middle = (low + high) // 2
        position, size, _ = queue.entry(middle)
        stamp = None if size == BLANK_SIZE else store_time_at(commit_log, position)
        if stamp is None or stamp < timestamp_ms + after:
            low = middle + 1
        else:
            high = middle
    if boundary == "LOWER":
        return low
    return max(queue.min_offset, low - 1)
