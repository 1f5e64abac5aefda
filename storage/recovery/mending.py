"""Writes queues again that have lost entries, from the stretches of the log that no entry covers.

The entries of all other queues say where their records lie, so the log is read only in between: for
one lost queue that is its own share of it, not the whole.
"""

import logging
from collections.abc import Collection, Iterator
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE, RECORD_BYTES_MIN
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.log.scan import HEAD, Scanned
from aerobee.storage.log.segments import Segments
from aerobee.storage.parts import StoreParts
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.dispatch import RecordDispatcher
from aerobee.storage.recovery.last_batches import complete_last
from aerobee.storage.recovery.next_record import NextRecord
from aerobee.storage.recovery.walk import LogWalk

log = logging.getLogger(__name__)

SECTOR_ENTRIES: Final = 512 // ENTRY_BYTES  # what a disk loses, it loses by sectors


def sound_prefix(segments: Segments, queue: ConsumeQueue) -> int:
    """Return the first offset from which on the entries of a queue are not to be believed.

    Their order and sizes are checked for all, the records they point at once per sector.
    """
    end = queue.min_offset
    last_end = -1
    for offset in range(queue.min_offset, queue.max_offset):
        position, size, _ = queue.entry(offset)
        if size == BLANK_SIZE and queue.batched:
            break  # the record of a blank one may be known by the entry of another message
        if size == BLANK_SIZE:
            continue
        shares = queue.batched and position + size == last_end
        if size < RECORD_BYTES_MIN or (position < last_end and not shares):
            break
        last_end = position + size
        checked = offset % SECTOR_ENTRIES == 0 or offset == queue.max_offset - 1
        if checked and position >= segments.begin:
            if not record_of(segments, queue, offset, position, size):
                break
            end = offset  # an entry may reach into a sector that is lost
    return end


def record_of(
    segments: Segments, queue: ConsumeQueue, offset: int, position: int, size: int
) -> bool:
    """Whether the log's header at a position is that of a queue's message, of that size."""
    segment = segments.find(position)
    head = segment.read(position, HEAD.size) if segment is not None else b""
    if len(head) < HEAD.size:
        return False
    total, _, _, queue_id, _, own_offset, own, _ = HEAD.unpack(head)
    if queue.batched and own_offset < offset:
        own_offset = offset  # one of several messages
    return bool((total, queue_id, own_offset, own) == (size, queue.queue_id, offset, position))


class Mender:
    """Gives queues the entries they lack from before the position where a recovery begins."""

    def __init__(
        self,
        parts: StoreParts,
        search: NextRecord,
        dispatcher: RecordDispatcher,
    ) -> None:
        self._segments = parts.segments
        self._queues = parts.queues
        self._table = parts.damage
        self._search = search
        self._dispatcher = dispatcher
        self.records = 0

    def cut(self, queue: ConsumeQueue) -> None:
        """Forget the entries of a queue that are not to be believed."""
        queue.close()
        queue.load()
        offset = sound_prefix(self._segments, queue)
        log.warning(
            "queue_mended queue=%s-%d from_offset=%d entries_forgotten=%d",
            queue.topic, queue.queue_id, offset, queue.max_offset - offset,
        )  # fmt: skip
        old_end = queue.max_offset
        queue.truncate(offset)
        if offset < old_end:
            self._queues.cut.add(queue, old_end)
        if self._segments.begin == 0 and queue.max_offset == queue.min_offset > 0:
            self._queues.remove_files(queue)  # its first files are lost, and nothing of the others
            queue.start_at(0)  # is to be believed
        complete_last(self._segments, queue, write=True)

    def run(self, begin: int, end: int, wanted: Collection[ConsumeQueue] | None) -> None:
        """Read what no entry names from `begin` to `end`, and dispatch what a queue lacks.

        Records of queues that are not `wanted` are taken where they go on behind the queue's last
        entry; other records without an entry are those of deleted topics. None: all are wanted, for
        want of a list, and messages of deleted topics come back.
        """
        for low, high in self._unnamed(begin, end):
            walk = LogWalk(self._search, low, self._table, high)
            for record in walk:
                if record.position >= high:
                    break
                self.records += 1
                queue = self._queues.find(record.topic, record.queue_id)
                if wanted is None or (
                    queue is not None and (queue in wanted or _goes_on(queue, record))
                ):
                    self._dispatcher.dispatch(record)

    def _unnamed(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the stretches that no entry covers; each file is looked at when it is its turn."""
        for segment in self._segments.items:
            low, high = max(begin, segment.base), min(end, segment.end)
            if low < high:
                from aerobee.storage.recovery.named_records import (
                    named_records,
                )  # numpy costs 100 ms

                named = named_records(self._segments, list(self._queues), low, high)
                yield from named.with_true_edges(self._segments).gaps(low, high)


def _goes_on(queue: ConsumeQueue, record: Scanned) -> bool:
    return (
        queue.min_offset < queue.max_offset <= record.queue_offset
        and record.position >= queue.end_position()
    )
