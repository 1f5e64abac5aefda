"""Reads from a queue whose messages may share a record (`queue.type=BatchCQ`): each record once."""

import mmap
from typing import Final

from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.reads.gathered import Gathered
from aerobee.storage.reads.results import Accept

_ALIKE_MAX: Final = 1 << 16  # bytes of entries that are compared at once


def gather_batched(
    gathered: Gathered,
    queue: ConsumeQueue,
    offset: int,
    run: tuple[mmap.mmap | bytearray | bytes, int, int],
    wanted: frozenset[int] | None,
    accept: Accept | None,
) -> tuple[int, int] | None:
    """Collect records, beginning with the one that holds an offset; limits count messages.

    Returns how many entries of the run were looked at, and the offset of the first message behind
    what was collected, which may lie behind the run. None: the first record is not in memory.
    """
    entries, at, count = run
    index = 0
    while index < count:
        position, size, code = ENTRY.unpack_from(entries, at + index * ENTRY_BYTES)
        end = index + _alike(entries, at + index * ENTRY_BYTES, count - index)
        if wanted is not None and code not in wanted:
            index = end
            continue
        before = gathered.count
        if not gathered.add(position, size, accept):
            return None if gathered.cold and not index else (index, offset + index)
        behind = offset + end
        if gathered.count > before:
            if end == count < queue.max_offset - offset:
                behind = max(behind, queue.first_from(position + 1))
            gathered.count += behind - offset - index - 1
        if behind > offset + end:
            return count, behind
        index = end
    return count, offset + count


def _alike(entries: mmap.mmap | bytearray | bytes, at: int, count: int) -> int:
    """Return how many entries from a byte on are the same, of so many."""
    first, alike = entries[at : at + ENTRY_BYTES], 1
    while alike < count:
        step = min(count - alike, _ALIKE_MAX // ENTRY_BYTES)
        begin = at + alike * ENTRY_BYTES
        if entries[begin : begin + step * ENTRY_BYTES] == first * step:
            alike += step
            continue
        while entries[begin : begin + ENTRY_BYTES] == first:
            alike, begin = alike + 1, begin + ENTRY_BYTES
        break
    return alike
