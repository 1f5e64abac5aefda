"""The store as the broker sees it: open, append, commit, read, tick, close.

Synchronous, and used by one thread. The broker watches `flusher.fileno()`, `allocator.fileno()`,
calls `commit_log.commit()` once per turn of its loop and `tick()` every `flush_interval_ms`.
"""

import logging
import time
from contextlib import suppress

from aerobee.storage.disk.files import Files, memory_bytes, raise_open_files_limit, wait_readable
from aerobee.storage.disk.lock import StoreLock
from aerobee.storage.disk.worker import Job
from aerobee.storage.errors import LogFull, LogUnavailable, StoreReadOnly
from aerobee.storage.layout import ABORT
from aerobee.storage.log.allocator import Allocator
from aerobee.storage.log.commit_log import CommitLog
from aerobee.storage.log.damage import Damage, read_damage
from aerobee.storage.log.log_cache import LogCache
from aerobee.storage.parts import StoreParts
from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.proofs.checkpoint import read_checkpoint
from aerobee.storage.proofs.doubt import Doubt
from aerobee.storage.proofs.progress import Progress, read_progress
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.light import without_light
from aerobee.storage.reads import search
from aerobee.storage.reads.cold.fetching import Fetched
from aerobee.storage.reads.reading import Gather, Reader, TagHashes
from aerobee.storage.reads.results import Accept, ReadResult
from aerobee.storage.recovery.doubted_bytes import write_doubted_anew
from aerobee.storage.recovery.light_queues import LightRecovery
from aerobee.storage.recovery.quarantine import forget_damage_before, tell
from aerobee.storage.recovery.recovery import Evidence, Recovered, Recovery
from aerobee.storage.recovery.unreadable import (
    QUEUE_FILES_MAX,
    set_aside_queue_file,
    sort_out_notes,
)
from aerobee.storage.recovery.writing_start import WritingStart
from aerobee.storage.settings import StoreSettings
from aerobee.storage.upkeep.backends import DirectBackend, SyncBackend, best_backend
from aerobee.storage.upkeep.checkpoints import Checkpoints
from aerobee.storage.upkeep.flush import Flusher
from aerobee.storage.upkeep.queue_rounds import QueueRound
from aerobee.storage.upkeep.retention import Retention
from aerobee.storage.upkeep.statistics import StoreStatistics, taken

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 60.0


class MessageStore:
    """One CommitLog and its ConsumeQueues in one directory; see StoreSettings for the directory."""

    def __init__(self, settings: StoreSettings, files: Files | None = None) -> None:
        self.settings = settings
        self.files = files or Files()
        self.read_only = False
        self.recovered = Recovered()
        self._open = self.aborted = False  # whoever was here before has not stopped cleanly
        self._progress_found: Progress | None = None
        self._queues_flushed_at = 0.0
        self._lock = StoreLock(self.files, settings.root)
        self._boot_note = BootNote(self.files, settings.root)
        self._doubt = Doubt(self.files, settings.root, self._boot_note)
        self._build(write=True)

    def _build(self, *, write: bool) -> None:
        settings, files = self.settings, self.files
        self._parts = parts = StoreParts.of(files, settings, write=write)
        self.segments, self.queues, self._damage = parts.segments, parts.queues, parts.damage
        self.allocator = Allocator(self.segments, settings)
        self.commit_log = CommitLog(self.segments, self.allocator, settings)
        self._lookup = search.OpenLookup(self.commit_log, self.queues.find)
        self.reader = Reader(self.commit_log, settings, memory_bytes())
        self.retention = Retention(parts, self.commit_log, self.allocator)
        self.log_cache = LogCache(
            settings, self.segments, self.commit_log, self.allocator,
            lambda job: self.flusher.run(job),
        )  # fmt: skip
        self.checkpoints = Checkpoints(files, settings.root)
        self._writing = WritingStart(
            parts, self.allocator, self.commit_log, self.checkpoints, self._boot_note
        )
        self.flusher = self._flusher(DirectBackend(files))

    def _flusher(self, backend: SyncBackend) -> Flusher:
        flusher = Flusher(self._parts, self.commit_log, backend)
        flusher.syncs, flusher.on_checkpoint = self._boot_note.syncs, self._checkpointed
        flusher.on_synced = self.checkpoints.put
        flusher.on_doubt = lambda position: flusher.run(self._doubt.begin(position))
        flusher.on_proven = self._proven
        return flusher

    def open(self) -> None:
        """Lock, load, recover; StoreError says what is wrong, where, and what to do.

        A store that cannot be written is opened for reading: `read_only` is set, one error is
        logged, appends are refused and everything else works.
        """
        assert not self._open, "a store is opened once"
        files_max = raise_open_files_limit(self.settings.open_files_wanted)
        self.files.limit(files_max, min(files_max // 8, self.settings.spare_files_max))
        lock_fd = -1
        try:
            for folder in self.settings.folders:
                self.files.make_directory(folder)
            lock_fd = self._lock.take()
        except OSError as error:
            self._read_only(error)
        try:
            sort_out_notes(self.files, self.settings.root)
            self._believe_disk()
            self._recover_what_reads()
            self.segments.bad.active = False
            if not self.read_only:
                self._start_writing(lock_fd)
        except BaseException:
            self._release()
            raise
        self._open = True

    def _believe_disk(self) -> None:
        """Write anew what an earlier process did not sync; where that fails nothing is written.

        Then the doubt stays noted, and a later start tries again.
        """
        if self.read_only:
            return
        try:
            write_doubted_anew(self.files, self.settings, self._doubt, self._boot_note)
        except OSError as error:
            self._read_only(error)

    def _read_only(self, error: Exception) -> None:
        if not self.settings.log_dir.is_dir():
            raise StoreReadOnly(
                f"the store {self.settings.root} cannot be made or written: {error}"
            ) from error
        log.error("store_read_only path=%s error=%s", self.settings.root, error)
        self.read_only = True
        self._build_again(write=False)

    def _build_again(self, *, write: bool) -> None:
        for part in (self.allocator, self.flusher, self.queues, self.segments):
            part.close()
        self._build(write=write)

    def _recover_what_reads(self) -> None:
        """Recover; without the files of queues that cannot be read, or for reading only."""
        for _ in range(QUEUE_FILES_MAX):
            try:
                return self._recover()
            except (OSError, LogFull, LogUnavailable) as error:  # no room for what queues lack
                if self.read_only:
                    raise
                if not set_aside_queue_file(self.files, self.settings, self.queues, error):
                    self._read_only(error)
                else:
                    self._build_again(write=True)
        self._recover()

    def _recover(self) -> None:
        files, root = self.files, self.settings.root
        self.checkpoints.latest = checkpoint = read_checkpoint(files, root)
        progress = read_progress(files, root)
        self.aborted = aborted = (root / ABORT).exists()
        damage = tuple(read_damage(files, root))
        self.queues.deleted.load()
        self._progress_found = self.queues.deleted.still_true(progress)
        progress = without_light(self._progress_found)
        evidence = Evidence(
            aborted, checkpoint, progress, self._boot_note.read(), damage, self._boot_note.unheard()
        )
        self.segments.load(progress.position if progress else 0, aborted=aborted)
        self.queues.load(progress.queues if progress else {}, stopped=not aborted)
        self.recovered = result = Recovery(self._parts, evidence).run()
        if (light := LightRecovery(self._parts)).wanted:
            result.entries += light.run(self._progress_found, result.begun_at, result.position)
        log.info(
            "store_recovered position=%d from=%d proof=%r records=%d entries=%d seconds=%.3f"
            " end=%r aborted=%s",
            result.position, result.begun_at, result.proof, result.records, result.entries,
            result.seconds, result.reason, aborted,
        )  # fmt: skip
        if len(self._damage):
            self.commit_log.damage = self._damage
            if self.read_only:
                tell(self._damage)
        self.commit_log.place(result.position)
        if self.read_only:
            self.commit_log.refuse(f"the store {root} is open for reading only; restart the broker")

    def _start_writing(self, lock_fd: int) -> None:
        """Begin to sync what an earlier process left, and to append if the disk lets us."""
        self.flusher.close()
        self.flusher = self._flusher(best_backend(self.files, lock_fd))
        trusted = self._writing.trust(
            self.recovered, self._progress_found, self._progress, aborted=self.aborted
        )
        self.flusher.start(trusted)
        self._writing.attempt()
        self.retention.start()

    def close(self) -> None:
        """Commit, flush everything, write the checkpoints, remove `abort`, let go of the lock."""
        if not self._open:
            return
        self._open = False
        try:
            if not self.read_only:
                self._finish()
        except OSError as error:  # `abort` stays, so that the next start checks
            log.error("store_close_failed path=%s error=%s", self.settings.root, error)
        finally:
            self._release()

    def _finish(self) -> None:
        self._commit()
        self.commit_log.refuse("the store is closing")
        position = self.commit_log.committed
        if not self.flusher.flush_all(CLOSE_TIMEOUT_S):
            log.error("store_close_unflushed position=%d", position)
            return  # `abort` stays, so that the next start checks
        if self.flusher.lost_queues:
            log.error("store_close_queues_lost queues=%d", len(self.flusher.lost_queues))
            return
        if not self._writing.done or self.commit_log.unclean:
            return  # whoever was here before has left it so; or the next start must clear up
        self.allocator.finish(position)
        self.checkpoints.write(self._progress(position))
        self.files.remove(self.settings.root / ABORT)

    def _release(self) -> None:
        for release in (
            self.flusher.close, self.allocator.close, self.queues.close, self.segments.close,
            self._boot_note.close, self._lock.release,
        ):  # fmt: skip
            try:
                release()
            except OSError as error:  # what was proven was synced before; let go of the rest, too
                log.error("store_close_failed path=%s error=%s", self.settings.root, error)

    def abandon(self) -> None:
        """Let go of everything as a killed process would: nothing is flushed, `abort` stays."""
        if self._open:
            self._open = False
            self._release()

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The spans of the log that cannot be read, oldest first; empty for a log that is whole.

        Found when the store was opened; gone when their log files are too old to be kept.
        """
        return tuple(self._damage)

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, made on first use; ValueError for a name that cannot be a directory."""
        return self.queues.get(topic, queue_id)

    def find_queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue if it exists."""
        return self.queues.find(topic, queue_id)

    def read(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        messages_max: int,
        bytes_max: int,
        wanted: TagHashes | None = None,
        accept: Accept | None = None,
        gather: Gather | None = None,
        fetched: Fetched | None = None,
    ) -> ReadResult:
        """Read messages of a queue; see Reader.read. Commit first."""
        return self.reader.read(
            queue, offset, messages_max, bytes_max, wanted, accept, gather, fetched
        )

    def poll(self, timeout_s: float = 0.0) -> None:
        """Take what the disk and the helper report, for users without a loop of their own."""
        flush, space = self.flusher.fileno(), self.allocator.fileno()
        ready = wait_readable([flush, space], timeout_s)
        if flush in ready:
            self.flusher.on_readable()
        if space in ready:
            self.allocator.on_readable()

    def apply(self, settings: StoreSettings) -> None:
        """Take changed limits of retention, of the disk and of single reads; nothing else."""
        self.settings = settings
        self.retention.apply(settings)
        self.reader.apply(settings)

    def in_memory(self, position: int) -> bool:
        """Whether a record is so recent that it counts as cached (checkInMemByConsumeOffset)."""
        return self.reader.in_memory(position)

    def record_at(self, position: int, named: tuple[str, int, int] | None = None) -> bytes | None:
        """Return the record that starts at a position of the log, None if none proves that it does.

        Raises CorruptRecord for one that is damaged; see `search.record_bytes_at`.
        """
        return search.record_bytes_at(self._lookup, position, named)

    def store_time_at(self, position: int) -> int | None:
        """Return when the record at a position was stored (ms), None if there is none."""
        return search.store_time_at(self._lookup, position)

    def offset_by_time(
        self, queue: ConsumeQueue, timestamp_ms: int, boundary: search.Boundary = "LOWER"
    ) -> int:
        """Return the first offset stored at or after a time; UPPER: the last at or before it."""
        return search.offset_by_time(self._lookup, queue, timestamp_ms, boundary)

    def topics(self) -> dict[str, list[int]]:
        """Return the queue numbers of every topic that has a queue."""
        return self.queues.topics()

    def delete_topic(self, *topics: str) -> bool:
        """Remove the queues of topics; False if there are none. Their messages age with the log.

        Waits for one small sync. Errors: StoreReadOnly; OSError of the disk: nothing has changed.
        """
        if self.read_only:
            raise StoreReadOnly(f"the store {self.settings.root} is open for reading only")
        doomed = self.queues.of_topics(topics)
        if doomed:
            self.checkpoints.withdraw()  # no proof may speak of what is gone
            self.flusher.note_again()  # what remains, also where the disk refuses
            at = {queue.topic: self.commit_log.position for queue in doomed}
            self.queues.deleted.add(at, self.segments.begin)
            self.queues.delete(doomed)
            self.checkpoints.forget(doomed)
            self.flusher.forget(doomed)
        return bool(doomed)

    def earliest_store_time(self) -> int | None:
        """Return when the oldest message kept was stored (ms), None in an empty log."""
        return self._lookup.earliest_store_time()

    def tick(self) -> None:
        """Do what is due: begin syncs, note progress, watch the disk, order space, let files go."""
        if not self._open or self.read_only:
            return
        self._commit()
        now = time.monotonic()
        if not self._writing.done and not self.flusher.busy:
            self._writing.retry()
        self.flusher.poll_timeouts()
        self.flusher.flush_log()
        since_s = now - self._queues_flushed_at
        if self.flusher.queues_due(since_s, self.settings.queue_flush_interval_ms / 1000):
            self._queues_flushed_at = now
            self.flusher.flush_queues()
        if self.commit_log.refusal is None and not self.flusher.lacks_room:  # queues come first
            self.allocator.tick(self.commit_log.position)
        self.log_cache.tick()
        if self.retention.tick(now, self.flusher.needed_from) and len(self._damage):
            forget_damage_before(self._parts, self.segments.begin)

    def _commit(self) -> None:
        """Write what is appended; whoever waits for a lost message is told by its own commit."""
        with suppress(LogUnavailable):  # the log has logged it, and counts it in `losses`
            self.commit_log.commit()

    def statistics(self) -> StoreStatistics:
        """Return counters and sizes of this moment."""
        parts = self._parts, self.commit_log, self.flusher, self.retention, self.allocator
        return taken(*parts, self.earliest_store_time())

    def _checkpointed(self, done: QueueRound) -> Job:
        """Return the work of writing both checkpoints: all is on the disk up to its position."""
        stamp = self.checkpoints.latest.log_timestamp
        with suppress(OSError):  # what cannot be read just now: the older time is true, too
            stamp = self.store_time_at(done.last_position) or stamp
        return self.checkpoints.job(done.position, stamp, done.end, done.names, done.lost)

    def _proven(self) -> None:
        """A checkpoint has been written: whatever was doubted of queues is on the disk now."""
        if self._doubt.position is None:
            return
        self.flusher.run(self._doubt.end())
        try:
            self._boot_note.open(self.commit_log.committed)
        except OSError as error:  # without it a kill costs reading from the checkpoint on
            log.warning("marker_not_written path=%s error=%s", self.settings.root, error)

    def _progress(self, position: int) -> Progress:
        """Describe the store as it is, all of it flushed."""
        end = self.queues.max_end_position()
        assert end <= position, f"an entry ends at {end}, the proof speaks of {position}"
        offsets = {(q.topic, q.queue_id): q.max_offset for q in self.queues if q.max_offset}
        last = max((q.last_position() for q in self.queues), default=-1)
        stamp = self.store_time_at(last) or self.checkpoints.latest.log_timestamp
        return Progress(position, stamp, offsets)
