"""Finds the true end of the log after any kind of stop, and makes the queues agree with it.

Where to begin is a matter of proof, tried from the latest position to the earliest:

1. flushed:    our progress file: log and queues were on the disk up to there;
2. synced:     without one, after a kill in this boot of the machine: RocketMQ's checkpoint;
3. dispatched: the end of the newest queue entry, after a clean stop;
4. timestamp:  the last file whose first record is older than RocketMQ's checkpoint - 3 s;
5. the log's first byte.

Our boot note says up to where the log was written in this boot of the machine: the process died,
the page cache did not. The log does not end before that. Of the queues it says nothing: their
newest entries are in memory until a round writes them out.

Each proof is checked against the files; one that they contradict is dropped. From there every
record is checked, and queue entries are written where they are missing or wrong
(CommitLog.recoverNormally, recoverAbnormally).

Nothing sound is removed, which is where this differs from RocketMQ: what cannot be read is a
damaged span, the log goes on behind it, and it ends where nothing sound follows; never before a
position that a proof names. Queues that have lost entries are written again by themselves.
"""

import logging
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.log.damage import Damage
from aerobee.storage.log.scan import HEAD, LogScan
from aerobee.storage.parts import StoreParts
from aerobee.storage.proofs.checkpoint import Checkpoint
from aerobee.storage.proofs.progress import Progress
from aerobee.storage.proofs.syncs import Unheard
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.mending_note import MendingNote
from aerobee.storage.recovery.bad_sectors import pass_bad_sectors
from aerobee.storage.recovery.batch_units.taking import take_units
from aerobee.storage.recovery.dispatch import RecordDispatcher
from aerobee.storage.recovery.known_damage import take_known_damage
from aerobee.storage.recovery.last_batches import complete_last
from aerobee.storage.recovery.mending import Mender
from aerobee.storage.recovery.next_record import NextRecord
from aerobee.storage.recovery.quarantine import describe
from aerobee.storage.recovery.record_ends import ends_record
from aerobee.storage.recovery.walk import LogWalk

log = logging.getLogger(__name__)

SYNCED: Final = "synced"
FLUSHED: Final = "flushed"
BULK_BYTES_MIN: Final = 32 << 20


class Evidence(msgspec.Struct, frozen=True):
    """What the last user of the store left behind."""

    aborted: bool  # the file `abort` is there
    checkpoint: Checkpoint
    progress: Progress | None
    written: int | None  # the boot note's position, if it is of this boot
    damage: tuple[Damage, ...] = ()  # spans that are known
    unheard: Unheard | None = None  # syncs that were under way, None for none


class Recovered(msgspec.Struct):
    """What recovery found."""

    position: int = 0  # the end of the log
    begun_at: int = 0
    proof: str = "empty"
    noted: bool = False  # how far the log was written, by a process of this boot
    reason: str = ""  # why the log ends there
    records: int = 0  # checked
    entries: int = 0  # written to queues
    truncated_queues: int = 0
    seconds: float = 0.0
    mended: set[tuple[str, int]] = msgspec.field(default_factory=set)  # queues that lost entries


class Recovery:
    """One run over one store; `run` leaves segments and queues ready for use."""

    def __init__(self, parts: StoreParts, evidence: Evidence) -> None:
        self._parts = parts
        self._segments = parts.segments
        self._queues = parts.queues
        self._evidence = evidence
        self._record_bytes_max = parts.settings.message_bytes_max
        self._write = parts.write
        self._table = parts.damage
        self._search = NextRecord(parts.segments, parts.queues)
        self._floor = 0  # the log does not end before
        self._torn_at: int | None = None  # where a commit may have been cut short
        self._mending_done = False
        self._dispatcher = RecordDispatcher(parts, self._mend_once, self._search.is_named)
        self._note = MendingNote(parts.files, parts.settings.root)
        self._mender = Mender(parts, self._search, self._dispatcher)
        self.result = Recovered()

    def run(self) -> Recovered:
        """Recover; the queues have been loaded, and no file of the log has been changed yet."""
        started = time.monotonic()
        result = self.result
        if self._segments.items:
            take_units(self._parts)
            for queue in self._queues:
                if queue.batched:
                    result.entries += complete_last(self._segments, queue, write=self._write)
            self._floor = take_known_damage(
                self._search, self._table, self._evidence.damage, self._evidence.progress
            )
            self._evidence = self._of_this_log(self._evidence)
            self._dispatcher.proven = self._evidence.progress
            result.begun_at, result.proof = self._begin()
            if self._evidence.progress is None:
                self._mend_lacking(Progress(result.begun_at, 0))
            if result.proof == SYNCED:
                self._mend_since_progress(result.begun_at)
            self._replay(result.begun_at)
        self._table.end_at(result.position)
        self._truncate_queues(result.position)
        for queue in self._queues:
            queue.trim(self._segments.begin)
            queue.hide_before(self._queues.expired.before(queue.topic))
        describe(self._table, self._queues, self._dispatcher.holes)
        result.entries = self._dispatcher.entries
        result.seconds = time.monotonic() - started
        return result

    def _of_this_log(self, evidence: Evidence) -> Evidence:
        """Leave out a progress that lies before the log, or behind it."""
        progress, segments = evidence.progress, self._segments
        if progress is not None and not segments.begin <= progress.position <= segments.end:
            return replace(evidence, progress=None)
        return evidence

    def _begin(self) -> tuple[int, str]:
        """Choose where to begin, with the name of the proof."""
        evidence, begin = self._evidence, self._segments.begin
        progress = evidence.progress
        written = evidence.written
        if written is not None and self._is_written(written):
            self._floor = max(self._floor, written)
            self._torn_at = written  # behind the note nothing was acknowledged
            self.result.noted = True
        if progress is not None:
            self._mend_lacking(progress)  # its entries of what came since are written again below
            return progress.position, FLUSHED
        newest = self._queues.max_end_position()
        if written is not None:
            known = min(written, evidence.checkpoint.queue_position)
            if known >= begin and self._lead_to(known):
                return known, SYNCED
        if newest == 0:
            return begin, "log begin (no queues)"
        if not evidence.aborted and self._lead_to(newest):
            return newest, "dispatched"
        for segment in reversed(self._segments.items):
            record = next(iter(LogScan(self._segments, segment.base)), None)
            if record is not None and record.position == segment.base:
                if evidence.aborted:
                    stamp = record.store_timestamp
                    sound = 0 < stamp <= evidence.checkpoint.safe_timestamp
                else:
                    sound = record.position <= newest
                if sound:
                    return segment.base, "timestamp" if evidence.aborted else "dispatched file"
        return begin, "log begin"

    def _is_written(self, position: int) -> bool:
        """Whether the log agrees with the note of this boot: its last record is there."""
        progress = self._evidence.progress
        if progress is not None and position <= progress.position:
            return position == progress.position
        return position <= self._segments.end and ends_record(
            self._segments, position, self._record_bytes_max
        )

    def _mend_lacking(self, progress: Progress) -> None:
        """Write queues again that do not have what the progress file says they had.

        Without one it says nothing but how far the log is to be looked through. Their entries of
        what came behind its position are forgotten.
        """
        lacking = self._lacking(progress)
        if not lacking or not self._write:
            return
        self._note.take_over(self._unfinished())
        self._note.begin(lacking)
        for queue in lacking:
            self.result.mended.add((queue.topic, queue.queue_id))
            self._mender.cut(queue)
        self._dispatcher.front_lost = lacking
        self._mending_done = True  # a gap that is met now is none that this could mend
        self._mender.run(self._segments.begin, progress.position, lacking)
        self._dispatcher.finish()
        self._mending_done = False
        for queue in lacking:
            max_offset = progress.queues.get((queue.topic, queue.queue_id), 0)
            self._dispatcher.fill_up(queue, max_offset, progress.position)
        self._note.end(lacking)

    def _mend_since_progress(self, end: int) -> None:
        """Write entries that were lost of what only RocketMQ's checkpoint vouches for.

        Nothing else tells of a queue that was first used there. The log is read where no entry
        leads to; what deleted topics have left is read in vain.
        """
        if not self._write:
            return
        progress, begin = self._evidence.progress, self._segments.begin
        if progress is not None and begin <= progress.position <= end:
            begin = progress.position
        before = {queue: queue.max_offset for queue in self._queues}
        self._mender.run(begin, end, None)
        self._dispatcher.finish()
        for queue in self._queues:
            if before.get(queue) != queue.max_offset:
                self.result.mended.add((queue.topic, queue.queue_id))

    def _lacking(self, progress: Progress) -> Collection[ConsumeQueue]:
        """Return the queues that do not have what the progress file says they had, to be looked up.

        They may be all that there are, and each record of theirs asks for its own.
        """
        begin = self._segments.begin
        lacking = dict.fromkeys(self._queues.damaged)
        lacking |= dict.fromkeys(queue for queue in self._queues if self._lacks_front(queue))
        for (topic, queue_id), max_offset in progress.queues.items():
            if max_offset == 0:
                continue
            queue = self._queues.get(topic, queue_id)
            if queue in lacking:
                continue
            if queue.max_offset >= max_offset:
                if max_offset <= queue.min_offset:
                    continue
                position, size, _ = queue.entry(max_offset - 1)
                if 0 <= position < begin or size == BLANK_SIZE:
                    continue
                if position + size <= progress.position and (
                    self._table.at(position) is not None or self._is_record(position, size)
                ):
                    continue
            lacking[queue] = None
        return lacking | dict.fromkeys(self._unfinished())

    def _unfinished(self) -> list[ConsumeQueue]:
        """List the queues that an earlier start has begun to write again."""
        found = (self._queues.find(*key) for key in self._note.read())
        return [queue for queue in found if queue is not None]

    def _lacks_front(self, queue: ConsumeQueue) -> bool:
        """Whether files may be missing before the first one of a queue.

        Nothing has ever been too old in a log that begins at 0; elsewhere the first file of a queue
        begins with what is, unless by chance it is just gone.
        """
        if queue.min_offset == 0 or self._segments.begin == 0:
            return queue.min_offset > 0
        if queue.min_offset >= queue.max_offset:
            return False
        position, size, _ = queue.entry(queue.min_offset)
        return size != BLANK_SIZE and position > self._segments.begin

    def _mend_once(self, queue: ConsumeQueue) -> None:
        """Look for the messages that queues lack before where the scan began."""
        if not self._mending_done:
            self._mending_done = True
            log.warning("queues_mended first=%s-%d", queue.topic, queue.queue_id)
            before = {each: each.max_offset for each in self._queues}
            self._mender.run(self._segments.begin, self.result.begun_at, None)
            for each in self._queues:
                if before.get(each) != each.max_offset:
                    self.result.mended.add((each.topic, each.queue_id))

    def _is_record(self, position: int, size: int) -> bool:
        """Whether the log has a record of that size there, by its header alone."""
        segment = self._segments.find(position)
        if segment is None:
            return False
        data = segment.read(position, HEAD.size)
        if len(data) < HEAD.size:
            return False
        total, _, _, _, _, _, own, _ = HEAD.unpack(data)
        return bool(total == size and own == position)

    def _lead_to(self, position: int) -> bool:
        """Whether the queues know every record before `position`, and the log agrees.

        The last record before it ends there, or is followed by nothing but the unused end of its
        file; before the first record stands only the log's first byte.
        """
        last, size = self._segments.begin, 0
        for queue in self._queues:
            offset = queue.first_behind(position) - 1
            if offset >= max(queue.min_offset, 0):
                begin, length, _ = queue.entry(offset)
                if length != BLANK_SIZE:
                    last, size = max((last, size), (begin, length))
        if size and not self._is_record(last, size):
            return False
        if position == last + size:
            return True  # a blank may stand there, and nothing in the next file yet
        scan = LogScan(self._segments, last + size)
        following = next(iter(scan), None)
        return position == (scan.end if following is None else following.position)

    def _replay(self, begin: int) -> None:
        """Check every record from `begin` and bring the queues up to them."""
        self._mending_done |= begin == self._segments.begin
        dispatcher, result = self._dispatcher, self.result
        begin, records = self._check_in_bulk(begin)
        dispatcher.walked.begin((queue, self._first_walked(queue, begin)) for queue in self._queues)
        walk = LogWalk(self._search, begin, self._table, self._floor, self._torn_at)
        for record in walk:
            records += 1
            dispatcher.dispatch(record)
        self._note_cuts()
        dispatcher.finish()
        end = pass_bad_sectors(self._segments, self._table, walk.end)
        result.truncated_queues += dispatcher.drop_dangling(end)
        self._note_cuts()
        dispatcher.write_patches()
        result.records = records + self._mender.records
        result.position, result.reason = end, walk.reason

    def _first_walked(self, queue: ConsumeQueue, begin: int) -> int:
        """Return the first offset of a queue whose message lies behind where a walk begins."""
        progress = self._evidence.progress
        if progress is not None and begin == progress.position:
            return progress.queues.get((queue.topic, queue.queue_id), 0)
        return queue.first_from(begin)

    def _check_in_bulk(self, begin: int) -> tuple[int, int]:
        """Check what the queues already cover many times faster; return where it ends, and records.

        Only for stretches that are worth the 100 ms that numpy takes to load.
        """
        if self._queues.max_end_position() - begin < BULK_BYTES_MIN:
            return begin, 0
        from aerobee.storage.queues.bulk_check import sound_until

        return sound_until(self._segments, list(self._queues), begin)

    def _note_cuts(self) -> None:
        """Note which entries are cut off, before their files are synced: that may fail."""
        shortened, cut = self._dispatcher.walked.shortened, self._queues.cut
        while shortened:
            cut.add(*shortened.pop())
        if self._write:
            with suppress(OSError):  # tried again before the store takes messages
                cut.note()

    def _truncate_queues(self, position: int) -> None:
        """Forget queue entries of messages that the log does not have, once that is noted."""
        gone = not self._segments.items and self._write
        ends = [(queue, 0 if gone else queue.first_behind(position)) for queue in self._queues]
        for queue, offset in ends:
            if gone or offset < queue.max_offset:
                self._queues.cut.add(queue, queue.max_offset)
        self._note_cuts()
        for queue, offset in ends:
            if gone:
                queue.truncate(0)
                self._queues.remove_files(queue)
                queue.start_at(0)
                continue
            if offset < queue.max_offset:
                queue.truncate(offset)
                self.result.truncated_queues += 1
            self._queues.drop_behind(queue)
