"""Which position of the log a time stands for, as the queues of one topic see it."""

from collections.abc import Sequence

import msgspec

from aerobee.storage.queues.snapshot import QueueSnapshot
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.reads.search import offset_by_time, stamp_of


class KeptFrom(msgspec.Struct, frozen=True):
    """What of some queues is older than a time."""

    position: int  # of the first message that is not
    expired: int  # messages before it


def kept_from(
    lookup: FileLookup, queues: Sequence[QueueSnapshot], timestamp_ms: int, end: int
) -> KeptFrom:
    """Find the first message stored at or after a time; `end` is a position behind all that count.

    The log is in the order of time, so its first such message of any queue is where all of them are
    cut. For a thread: some twenty reads a queue that has older ones, one for any other.
    """
    position, expired = end, 0
    for queue in queues:
        if queue.min_offset >= queue.max_offset:
            continue
        entries = lookup.entries(queue)
        offset, first = queue.min_offset, stamp_of(lookup, entries, queue.min_offset)
        if first is None or first < timestamp_ms:
            offset = offset_by_time(lookup, entries, timestamp_ms)
            expired += offset - queue.min_offset
        if offset < queue.max_offset:
            position = min(position, entries.entry(offset)[0])
    return KeptFrom(position, expired)
