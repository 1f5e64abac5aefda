"""Light queues after any stop: loaded beside the others, and brought up to the log.

A light queue's entries lead to records of other topics, which name it, and its offset, among their
properties. So they are none of the entries that recovery holds against the log: they are loaded
when that is done, cut where the log ends, and get what records behind the proven position say.
"""

import logging
from collections.abc import Collection, Iterator
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE, RECORD_BYTES_MIN
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.words import RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.errors import StoreDamaged, StoreError
from aerobee.storage.layout import LIGHT
from aerobee.storage.log.scan import LogScan, Scanned, tags_code
from aerobee.storage.parts import StoreParts
from aerobee.storage.proofs.progress import Progress
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.light import LIGHT_QUEUE_ID

log = logging.getLogger(__name__)

_MARK: Final = Property.INNER_MULTI_QUEUE_OFFSET.encode() + b"\x01"


class LightRecovery:
    """One run over the light queues of one store, after that over the log."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        self._queues = parts.queues
        self._segments = parts.segments
        self._note = parts.settings.root / LIGHT
        self.entries = 0  # that were missing

    @property
    def wanted(self) -> bool:
        """Whether there may be entries: they are filled, or were once."""
        return (
            self._parts.settings.light_queues
            or bool(self._queues.light_names)
            or self._note.exists()
        )

    def run(
        self, progress: Progress | None, begin: int, end: int, bad: Collection[str] = ()
    ) -> int:
        """Bring all light queues up to a log that ends at `end`; return how many entries that took.

        What lies before `begin` has its entries on the disk, but for those of queues in `bad`.
        """
        if self._parts.write and not self._note.exists():
            try:  # a kill loses what memory has; then the next start must look, whatever is set
                replace_file(self._parts.files, self._note, b"")
            except OSError as error:
                log.error("note_not_written path=%s error=%s", self._note, error)
        proven = progress.queues if progress is not None else {}
        names = [*self._queues.light_names, *(key for key in proven if self._is_gone(key))]
        for topic, queue_id in names:
            queue = self._queues.get(topic, queue_id)
            known = proven.get((topic, queue_id), 0)
            try:
                if topic in bad:
                    raise StoreDamaged("entries that lead to none of its messages")
                queue.load(known)
            except StoreError as error:
                log.error("light_queue_lost queue=%s error=%s", queue.directory, error)
                self._make_anew(queue)
                begin = self._segments.begin
            begin = min(begin, self._cut(queue, known, begin, end))
        self._replay(begin, end)
        for topic, queue_id in names:
            self._queues.get(topic, queue_id).trim(self._segments.begin)
        return self.entries

    def _is_gone(self, key: tuple[str, int]) -> bool:
        """Whether a queue was there, and has no folder now."""
        return key not in self._queues.light_names and self._queues.is_light(key[0])

    def _make_anew(self, queue: ConsumeQueue) -> None:
        if self._parts.write:
            self._queues.remove_files(queue)
        queue.start_at(0)

    def _cut(self, queue: ConsumeQueue, known: int, begin: int, end: int) -> int:
        """Forget entries behind the log's end; return from where on entries may be missing."""
        kept = queue.first_behind(end)
        if kept < queue.max_offset:
            self._queues.cut.add(queue, queue.max_offset)
            queue.truncate(kept)
        return self._segments.begin if queue.max_offset < known else begin

    def _replay(self, begin: int, end: int) -> None:
        for record in light_records(self._parts, begin, end):
            for name, offset in light_offsets(self._parts, record):
                self._see(name, offset, record)

    def _see(self, name: str, offset: int, record: Scanned) -> None:
        """See that a light queue has an entry."""
        try:
            queue = self._queues.get(name, LIGHT_QUEUE_ID)
        except ValueError:
            return
        if offset < queue.max_offset:
            return
        if queue.max_offset and record.position <= queue.last_position():
            return
        if not queue.max_offset and offset and self._segments.begin:
            queue.start_at(offset)  # those before it have gone with the log
        elif offset > queue.max_offset and not len(self._parts.damage):
            log.warning("light_entry_refused queue=%s offset=%d position=%d", name, offset,
                        record.position)  # fmt: skip
            return
        self._put(queue, offset, record)

    def _put(self, queue: ConsumeQueue, offset: int, record: Scanned) -> None:
        code = tags_code(record, record.topic, self._parts.settings.delay_levels_ms)
        put = queue.put if self._parts.write else queue.put_in_memory
        while queue.max_offset < offset:  # of records that damage has taken
            put(queue.max_offset, 0, BLANK_SIZE, 0)
        put(offset, record.position, record.size, code)
        self.entries += 1


def light_records(parts: StoreParts, begin: int, end: int) -> Iterator[Scanned]:
    """Yield the records up to the log's end that name light queues; damage is stepped over."""
    while begin < end:
        scan = LogScan(parts.segments, begin, check_crc=False)
        for record in scan:
            if record.position >= end:
                return
            named = _MARK in record.properties and not _is_left_out(record.topic)
            if named and parts.damage.at(record.position) is None:
                yield record
        span = parts.damage.at(scan.end)
        if span is None or span.end <= begin:
            return
        begin = span.end


def light_offsets(parts: StoreParts, record: Scanned) -> Iterator[tuple[str, int]]:
    """Yield the light queues that a record names, and its offset in each.

    What cannot be true is passed over: a sender could have put it there before the feature was on.
    """
    names = find_property(record.properties, Property.INNER_MULTI_DISPATCH) or ""
    offsets = find_property(record.properties, Property.INNER_MULTI_QUEUE_OFFSET) or ""
    for name, text in zip(names.split(","), offsets.split(","), strict=False):
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            continue
        if int(text) > record.position // RECORD_BYTES_MIN:
            continue
        if not parts.queues.is_light(name) or record.position < parts.queues.deleted.before(name):
            continue
        yield name, int(text)


def _is_left_out(topic: str) -> bool:
    """Whether messages of a topic are for no light queue, whatever they say: they come again."""
    return topic.startswith((RETRY_PREFIX, SYSTEM_PREFIX)) or topic == SCHEDULE_TOPIC
