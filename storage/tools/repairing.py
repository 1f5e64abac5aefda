"""Mends a store at rest: spans are filled, every queue entry has its record, or is blank."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.disk.files import Files
from aerobee.storage.disk.lock import StoreLock
from aerobee.storage.errors import StoreDamaged
from aerobee.storage.layout import ABORT, BOOT_NOTE, DOUBT, ENTRY_BYTES, MENDING, FileSpan
from aerobee.storage.log.aside import UNREADABLE, Aside
from aerobee.storage.log.damage import Damage, read_damage, write_damage
from aerobee.storage.parts import StoreParts
from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.proofs.checkpoint import read_checkpoint
from aerobee.storage.proofs.doubt import Doubt
from aerobee.storage.proofs.progress import Progress, read_progress, write_progress
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.files import BLANK_ENTRY
from aerobee.storage.queues.mending_note import MendingNote
from aerobee.storage.recovery.doubted_bytes import write_doubted_anew
from aerobee.storage.recovery.fillers import fill
from aerobee.storage.recovery.known_damage import take_known_damage
from aerobee.storage.recovery.light_queues import LightRecovery
from aerobee.storage.recovery.next_record import NextRecord, sound_record
from aerobee.storage.recovery.quarantine import Quarantine, describe
from aerobee.storage.recovery.walk import LogWalk
from aerobee.storage.settings import StoreSettings
from aerobee.storage.tools.light_queues import LightCheck
from aerobee.storage.tools.thorough import ThoroughDispatcher

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Repaired:
    """What a repair has done."""

    records: int = 0
    end: int = 0
    spans: list[Damage] = field(default_factory=list)
    unfilled: list[Damage] = field(default_factory=list)  # too small for a filler
    entries_written: int = 0
    entries_blanked: int = 0
    entries_cut: int = 0


class Repairer:
    """One repair of one store; StoreLocked while a broker uses it.

    Killed anywhere it can be begun again: what is overwritten has been copied before, and the note
    of the damaged spans goes last.
    """

    def __init__(
        self,
        settings: StoreSettings,
        files: Files | None = None,
        progress: Callable[[int], None] = lambda done: None,
        *,
        sure: bool = False,
    ) -> None:
        self._settings = settings
        self._files = files = files or Files()
        self._progress = progress
        self._sure = sure  # that log files have the size that the settings say
        self._lock = StoreLock(files, settings.root)
        self._parts = parts = StoreParts.of(files, settings, write=True)
        self._segments, self._queues, self._table = parts.segments, parts.queues, parts.damage
        self._search = NextRecord(self._segments, self._queues)
        self._dispatcher = ThoroughDispatcher(parts, self._search.is_named)
        self.result = Repaired()

    def run(self) -> Repaired:
        """Mend the store; StoreError or OSError where that cannot be done."""
        self._lock.take()
        try:
            self._run()
        finally:
            self._parts.close()
            self._lock.release()
        return self.result

    def _run(self) -> None:
        root, result = self._settings.root, self.result
        boot_note = BootNote(self._files, root)
        write_doubted_anew(
            self._files, self._settings, Doubt(self._files, root, boot_note), boot_note
        )
        found = read_progress(self._files, root)
        aborted = (root / ABORT).exists()
        end = found.position if found is not None else 0
        self._segments.load(end, sure=self._sure, aborted=aborted)
        self._queues.load({})
        if not self._segments.items:
            if self._queues.max_end_position():
                raise StoreDamaged(f"{self._settings.log_dir} has no log files: restore them first")
            return
        note = MendingNote(self._files, root)
        note.take_over([each for key in note.read() if (each := self._queues.find(*key))])
        note.begin(list(self._queues))  # for a start after a kill
        self._dispatcher.proven = found
        self._dispatcher.expected = found.queues if found is not None else ()
        floor = take_known_damage(self._search, self._table, read_damage(self._files, root), found)
        self._walk(floor)
        if found is not None:
            for (topic, queue_id), max_offset in found.queues.items():
                if max_offset and (queue := self._queues.find(topic, queue_id)) is not None:
                    self._dispatcher.fill_up(queue, max_offset, min(found.position, result.end))
        describe(self._table, self._queues, self._dispatcher.holes)
        Quarantine(self._parts).keep(result.end, torn=True)
        result.spans = list(self._table)
        for queue in list(self._queues):
            self._mend_queue(queue, found)
        self._fill()
        self._mend_light()
        self._finish()

    def _walk(self, floor: int) -> None:
        """Take every record of the log."""
        begin = self._segments.begin
        walk = LogWalk(self._search, begin, self._table, floor)
        for record in walk:
            self._dispatcher.dispatch(record)
            self.result.records += 1
            if not self.result.records % 4096:
                self._progress(record.position - begin)
        self._dispatcher.finish()
        self.result.end = walk.end
        self.result.entries_written = self._dispatcher.entries

    def _mend_queue(self, queue: ConsumeQueue, found: Progress | None) -> None:
        """Cut a queue to what there were messages for; blank entries that name no record."""
        key = (queue.topic, queue.queue_id)
        end = max(self._dispatcher.end_of(queue), found.queues.get(key, 0) if found else 0)
        runs = list(self._dispatcher.dangling(queue))
        for _, last in runs:
            if self._table.at(queue.entry(last)[0]) is not None:
                end = max(end, last + 1)  # a message that was there, and is lost
        for offset in range(queue.max_offset - 1, end - 1, -1):
            if queue.entry(offset)[1] != BLANK_SIZE:
                break
            end = max(end, offset + 1)  # blanks stand for messages that were there
        self.result.entries_cut += max(0, queue.max_offset - end)
        queue.truncate(end)
        self._queues.drop_behind(queue)
        queue.close()
        for first, last in runs:
            last = min(last, end - 1)
            if first <= last:
                self.result.entries_blanked += last + 1 - first
                self._blank(queue, first, last)
        for span in queue.spans():
            self._sync(span)

    def _mend_light(self) -> None:
        """Bring light queues up to the log: the next start will believe that they are."""
        light = LightRecovery(self._parts)
        if not light.wanted:
            return
        known = {queue.directory for queue in self._queues}
        check = LightCheck(self._parts, self.result.end, unwritten_from=0)
        for problem in check.problems():
            log.warning("light_queue_made_anew reason=%r", problem)
        # what was proven once is not believed here: an entry that is gone would count as sound
        self.result.entries_written += light.run(
            None, self._segments.begin, self.result.end, check.bad
        )
        for queue in self._queues:
            if queue.directory not in known:
                queue.write_out()
                for span in queue.spans():
                    self._sync(span)
                for folder in (queue.directory, queue.directory.parent):
                    self._files.sync_directory(folder)
        self._files.sync_directory(self._queues.root)

    def _blank(self, queue: ConsumeQueue, first: int, last: int) -> None:
        for span in queue.spans():
            low = max(first, span.begin // ENTRY_BYTES)
            high = min(last + 1, (span.begin + span.size) // ENTRY_BYTES)
            if low < high:
                fd = self._files.open(span.path)
                try:
                    at = low * ENTRY_BYTES - span.begin
                    self._files.write(fd, BLANK_ENTRY * (high - low), at)
                finally:
                    self._files.close(fd)

    def _sync(self, span: FileSpan) -> None:
        fd = self._files.open(span.path)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _fill(self) -> None:
        """Put something into the spans that every reader steps over; the bytes are kept aside."""
        aside = Aside(self._files, self._settings)
        items = self._segments.items
        for span in self._table:
            if span.set_aside is None:
                aside.copy_bytes(items, span.begin, span.end, UNREADABLE)
        aside.sync_names()
        for span in self._table:
            following = sound_record(self._segments, span.end)
            stamp = following.store_timestamp if following is not None else 0
            if not stamp:
                stamp = read_checkpoint(self._files, self._settings.root).log_timestamp
            if not fill(self._segments, span.begin, span.end, stamp):
                self.result.unfilled.append(span)
        tail = self._segments.find(self.result.end)
        if tail is not None:
            tail.clear(self.result.end)
        for segment in items:
            segment.sync()

    def _finish(self) -> None:
        """Say that the store is whole, as a clean stop does."""
        files, root = self._files, self._settings.root
        self._queues.cut.sync()  # what a start has left of that
        for queue in self._queues:
            queue.trim(self._segments.begin)
        found = {(q.topic, q.queue_id): q.max_offset for q in self._queues if q.max_offset}
        offsets = dict(sorted(found.items()))
        stamp = read_checkpoint(files, root).log_timestamp
        files.remove(root / BOOT_NOTE)
        write_progress(files, root, Progress(self.result.end, stamp, offsets), sync=True)
        write_damage(files, root, self.result.unfilled)
        for name in (MENDING, DOUBT, ABORT):
            files.remove(root / name)
        files.sync_directory(root)
