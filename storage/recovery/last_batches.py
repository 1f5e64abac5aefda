"""What recovery knows of records that hold several messages (`queue.type=BatchCQ`)."""

from aerobee.remoting.message.layout import RECORD_BYTES_MIN
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.log.scan import BATCHED_BYTES_MIN
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.next_record import sound_record


def complete_last(segments: Segments, queue: ConsumeQueue, *, write: bool) -> int:
    """Give all messages of the newest record an entry if its first ones have it; return how many.

    A loss of power, or a cut, may have left a part of them. The stretch of the log with that record
    counts as known, so nothing else would look at it again.
    """
    if not queue.batched or queue.max_offset <= queue.min_offset:
        return 0
    last = queue.max_offset - 1
    position, size, code = queue.entry(last)
    record = sound_record(segments, position) if size > 0 else None
    if record is None or (record.prefix, record.queue_id) != (queue.prefix, queue.queue_id):
        return 0
    end = record.queue_offset + record.messages
    if record.size != size or not record.queue_offset <= last < end - 1:
        return 0
    put = queue.put if write else queue.put_in_memory
    for offset in range(last + 1, end):
        put(offset, position, size, code)
    return end - last - 1


def are_alike(queue: ConsumeQueue, first: int, count: int) -> bool:
    """Return whether so many entries from an offset on are the same: any of them may be lost."""
    entry, end = queue.copied(first, 1), first + count
    while first < end:
        found = queue.copied(first, end - first)
        if not found or found != entry * (len(found) // ENTRY_BYTES):
            return False
        first += len(found) // ENTRY_BYTES
    return True


def bytes_min(queue: ConsumeQueue) -> int:
    """Return how many bytes of the log a message of a queue takes at least."""
    return BATCHED_BYTES_MIN if queue.batched else RECORD_BYTES_MIN
