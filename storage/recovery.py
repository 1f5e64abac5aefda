"""Finds the true end of the log after any kind of stop, and makes the queues agree with it.

Where to begin is a matter of proof, tried from the latest position to the earliest:

1. written:    our marker of this boot of the machine: the process died, the page cache did not;
2. flushed:    our progress file: log and queues were on the disk up to there;
3. dispatched: the end of the newest queue entry, after a clean stop;
4. timestamp:  the last file whose first record is older than RocketMQ's checkpoint - 3 s;
5. the log's first byte.

Each proof is checked against the files; one that they contradict is dropped. From there every
record is checked, queue entries are written where they are missing or wrong, and what follows the
last sound record is forgotten (CommitLog.recoverNormally, recoverAbnormally).
"""

import logging
import time
from dataclasses import dataclass
from typing import Final

from aerobee.storage.checkpoint import Checkpoint
from aerobee.storage.consume_queue import ConsumeQueue
from aerobee.storage.consume_queues import ConsumeQueues
from aerobee.storage.log_scan import HEAD, LogScan, Scanned, tags_code
from aerobee.storage.progress import Progress
from aerobee.storage.queue_files import BLANK_SIZE
from aerobee.storage.segments import Segments
from aerobee.storage.settings import StoreSettings

log = logging.getLogger(__name__)

WRITTEN: Final = "written"
FLUSHED: Final = "flushed"
BULK_BYTES_MIN: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the last user of the store left behind."""

    aborted: bool  # the file `abort` is there
    checkpoint: Checkpoint
    progress: Progress | None
    written: int | None  # the marker's position, if it is of this boot


@dataclass(slots=True)
class Recovered:
    """What recovery found."""

    position: int = 0  # the end of the log
    begun_at: int = 0
    proof: str = "empty"
    reason: str = ""  # why the log ends there
    records: int = 0  # checked
    entries: int = 0  # written to queues
    truncated_queues: int = 0
    seconds: float = 0.0


class _Gap(Exception):
    """A queue lacks entries of messages older than where the scan began."""


class Recovery:
    """One run over one store; `run` leaves segments and queues ready for use."""

    def __init__(
        self,
        segments: Segments,
        queues: ConsumeQueues,
        settings: StoreSettings,
        evidence: Evidence,
        *,
        write: bool,
    ) -> None:
        self._segments = segments
        self._queues = queues
        self._settings = settings
        self._evidence = evidence
        self._write = write
        self._by_key: dict[tuple[bytes, int], ConsumeQueue] = {}
        self.result = Recovered()

    def run(self) -> Recovered:
        """Recover; the queues have been loaded."""
        started = time.monotonic()
        result = self.result
        if self._segments.items:
            result.begun_at, result.proof = self._begin()
            try:
                self._replay(result.begun_at)
            except _Gap as gap:
                log.warning("recovery_restarts reason=%s", gap)
                result.begun_at, result.proof = self._segments.begin, f"log begin ({gap})"
                self._replay(result.begun_at)
            if self._write:
                self._segments.drop_after(result.position)
        self._truncate_queues(result.position)
        for queue in self._queues:
            queue.trim(self._segments.begin)
        result.seconds = time.monotonic() - started
        return result

    def _begin(self) -> tuple[int, str]:
        """Choose where to begin, with the name of the proof."""
        evidence, begin = self._evidence, self._segments.begin
        progress = evidence.progress
        if progress is not None and not self._holds(progress):
            return begin, "log begin (queues have lost entries)"
        newest = self._queues.max_end_position()
        written = evidence.written
        if (
            written is not None
            and written >= (progress.position if progress is not None else begin)
            and self._lead_to(written)
        ):
            return written, WRITTEN
        if progress is not None and begin <= progress.position <= self._segments.end:
            return progress.position, FLUSHED
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

    def _holds(self, progress: Progress) -> bool:
        """Whether every queue still has what the progress file says it had."""
        begin = self._segments.begin
        if not begin <= progress.position <= self._segments.end:
            return progress.position == begin
        for (topic, queue_id), max_offset in progress.queues.items():
            if max_offset == 0:
                continue
            queue = self._queues.find(topic, queue_id)
            if queue is None or queue.max_offset < max_offset:
                return False
            if max_offset <= queue.min_offset:
                continue
            position, size, _ = queue.entry(max_offset - 1)
            if position < begin or size == BLANK_SIZE:
                continue
            if position + size > progress.position or not self._is_record(position, size):
                return False
        return True

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
        scan = LogScan(self._segments, last + size)
        following = next(iter(scan), None)
        return position == (scan.end if following is None else following.position)

    def _replay(self, begin: int) -> None:
        """Check every record from `begin` and bring the queues up to them."""
        whole = begin == self._segments.begin
        by_key = self._by_key
        result = self.result
        result.entries = 0
        begin, records = self._check_in_bulk(begin)
        scan = LogScan(self._segments, begin)
        for record in scan:
            records += 1
            if not record.queued:
                continue
            queue = by_key.get((record.prefix, record.queue_id))
            if queue is None:
                queue = self._queue_of(record)
                if queue is None:
                    continue
            offset = record.queue_offset
            if queue.min_offset <= offset < queue.max_offset and (
                queue.entry(offset)[:2] == (record.position, record.size)
            ):
                continue
            self._dispatch(queue, record, whole)
        result.records = records
        result.position, result.reason = scan.end, scan.reason

    def _check_in_bulk(self, begin: int) -> tuple[int, int]:
        """Check what the queues already cover many times faster; return where it ends, and records.

        Only for stretches that are worth the 100 ms that numpy takes to load.
        """
        if self._queues.max_end_position() - begin < BULK_BYTES_MIN:
            return begin, 0
        from aerobee.storage.bulk_check import sound_until

        return sound_until(self._segments, list(self._queues), begin)

    def _queue_of(self, record: Scanned) -> ConsumeQueue | None:
        """Find or make the queue of a record; None where its name cannot be one."""
        try:
            queue = self._queues.get(record.topic, record.queue_id)
        except ValueError as error:
            log.warning("record_skipped position=%d reason=%s", record.position, error)
            return None
        self._by_key[record.prefix, record.queue_id] = queue
        return queue

    def _dispatch(self, queue: ConsumeQueue, record: Scanned, whole: bool) -> None:
        """Write the entry of one record, whatever the queue holds at that place."""
        if not self._write:
            return
        offset = record.queue_offset
        if offset < 0:
            return
        if offset < queue.min_offset:
            if queue.max_offset > queue.min_offset:
                return  # its file is gone, and so is every entry before it
            queue.start_at(offset)
        if offset < queue.max_offset and record.position > queue.end_position():
            queue.truncate(offset)  # a topic that was deleted and made again
        if offset > queue.max_offset:
            if not whole:
                raise _Gap(f"{queue.topic}-{queue.queue_id} lacks entries")
            if queue.max_offset == queue.min_offset and not queue.spans():
                queue.start_at(offset)
            while queue.max_offset < offset:  # messages that the log lost, never to be read
                queue.put(queue.max_offset, 0, BLANK_SIZE, 0)
        code = tags_code(record, queue.topic, self._settings.delay_levels_ms)
        queue.put(offset, record.position, record.size, code)
        self.result.entries += 1

    def _truncate_queues(self, position: int) -> None:
        """Forget queue entries of messages that the log does not have."""
        for queue in list(self._queues):
            if not self._segments.items and self._write:
                queue.truncate(0)
                self._queues.remove_files(queue)
                queue.start_at(0)
                continue
            offset = queue.first_behind(position)
            if offset < queue.max_offset:
                queue.truncate(offset)
                self.result.truncated_queues += 1
