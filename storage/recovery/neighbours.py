"""What the entries around a queue's offset, and the log where they lead to, say of a record."""

from aerobee.storage.log.scan import Scanned
from aerobee.storage.log.segments import Segments
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.files import SCAN_ENTRIES
from aerobee.storage.recovery.dangling import has_message


def place_in_log(segments: Segments, queue: ConsumeQueue, offset: int) -> int | None:
    """Return where the log has the message of an entry, None where it has no such message."""
    return queue.entry(offset)[0] if has_message(segments, queue, offset) else None


def fits(segments: Segments, queue: ConsumeQueue, record: Scanned) -> bool:
    """Whether the sound neighbours of an entry agree that the record stands between them."""
    offset = record.queue_offset
    if offset > queue.min_offset:
        place = place_in_log(segments, queue, offset - 1)
        if place is not None and place >= record.position:
            return False
    after = queue.after_blanks(offset + record.messages, queue.max_offset)
    if after >= queue.max_offset:
        return True
    place = place_in_log(segments, queue, after)
    return place is None or place > record.position


def is_last(segments: Segments, queue: ConsumeQueue, record: Scanned) -> bool:
    """Whether the message before a record stands, and from its own on nothing does."""
    offset = record.queue_offset
    before = place_in_log(segments, queue, offset - 1) if offset > queue.min_offset else -1
    if before is None or before >= record.position:
        return False
    entries = range(offset, queue.max_offset)
    return len(entries) <= SCAN_ENTRIES and all(
        place_in_log(segments, queue, at) is None for at in entries
    )
