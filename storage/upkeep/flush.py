"""When bytes become durable: syncs the log and the queues in the background, and says so.

A round syncs every file that has changed since the last one. Rounds of the log and of the queues
run side by side, at most one of each. A queue round that covers everything dispatched before it
began ends with the checkpoint files being written, also in the background.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from aerobee.storage.disk.files import wait_readable
from aerobee.storage.disk.open_files import OUT_OF_NUMBERS
from aerobee.storage.disk.worker import Job
from aerobee.storage.errors import AppendRefused, LogUnavailable
from aerobee.storage.log.commit_log import RESTART, CommitLog
from aerobee.storage.log.segment import Segment
from aerobee.storage.parts import StoreParts
from aerobee.storage.proofs.syncs import Syncs
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.upkeep.backends import SyncBackend
from aerobee.storage.upkeep.queue_rounds import QUEUE_FILE, OnSynced, QueueRound, QueueRounds

log = logging.getLogger(__name__)

LOG_ROUND: Final = 1
CHECKPOINT: Final = 3
LOG_FILES_PER_SUBMIT: Final = 32
OTHER_WORK: Final = 4
SAY_S: Final = 5.0  # that somebody waits here without a word
ROUNDS_SHARE: Final = 0.05  # of the loop's time
ROUNDS_APART_MAX_S: Final = 20.0
ROUND_LOG_BYTES_MAX: Final = 1 << 30  # which a start after a kill has to read again

Done = Callable[[bool], None]
OnCheckpoint = Callable[[QueueRound], Job]
"""Takes a round that is on the disk, and the log with it; returns the work of writing that down."""


class Flusher:
    """Counts syncs in `fsyncs`; the owner watches `fileno()` and calls `on_readable()`."""

    def __init__(
        self,
        parts: StoreParts,
        commit_log: CommitLog,
        backend: SyncBackend,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        settings = parts.settings
        self._log = commit_log
        self._queues = parts.queues
        self._root = settings.root
        self._sync_flush = settings.sync_flush
        self._timeout_s = settings.sync_flush_timeout_ms / 1000
        self._backend = backend
        self._clock = clock
        self._waiting: deque[tuple[int, float, Done]] = deque()
        self._log_target = 0
        self._log_wanted = 0
        self._log_under_way = 0
        self._log_began_s = 0.0
        self._held: list[Segment] = []  # whose numbers the syncs under way use
        self._log_failed = 0
        self._rounds = QueueRounds(
            parts, backend, self._doubt, self._synced, commit_log.refuse_for_queues
        )
        self._writing = False  # all of the round is synced, and the checkpoints are being written
        self._checkpointed = 0
        self._queues_synced = 0  # entries of records before it are on the disk
        self._unproven = 0  # checkpoints that could not be written, since the last one
        self.on_checkpoint: OnCheckpoint = lambda _: lambda: None
        self.on_synced: OnSynced = lambda queue, offset: None
        self.on_doubt: Callable[[int], None] = lambda position: None
        self.on_proven: Callable[[], None] = lambda: None  # a checkpoint has been written
        self.syncs = Syncs()  # says which are under way, to whom comes after us
        self.fsyncs = 0
        self.log_fsyncs = 0
        self.timeouts = 0

    def fileno(self) -> int:
        """Return the number that is readable when a sync has completed."""
        return self._backend.fileno()

    def start(self, position: int) -> None:
        """Take everything below `position` as on the disk, and nothing behind it."""
        self._checkpointed = self._log.flushed_position = self._queues_synced = position
        self._rest_log()

    @property
    def busy(self) -> bool:
        """Whether a sync is under way."""
        return self._log_under_way > 0 or self._rounds.round is not None

    def queues_due(self, since_s: float, interval_s: float) -> bool:
        """Whether a round over queues is to begin, so long after the last one has begun.

        Of the loop's time rounds take a twentieth: where one takes long, the next waits for longer
        than `interval_s`, but not for more than ROUNDS_APART_MAX_S, nor behind 1 GiB of log. Where
        the disk had no room it is asked each time: that is one file.
        """
        if self.lacks_room:
            return True
        apart_s = min(self._rounds.work_s / ROUNDS_SHARE, ROUNDS_APART_MAX_S)
        behind = self._log.committed - self._checkpointed
        return since_s >= max(interval_s, apart_s) or behind >= ROUND_LOG_BYTES_MAX

    @property
    def lost_queues(self) -> Collection[ConsumeQueue]:
        """The queues whose files somebody has removed or replaced: the next start writes them."""
        return self._rounds.lost_queues

    @property
    def lacks_room(self) -> bool:
        """Whether the disk had no room for a queue's file, and no round has met room since."""
        return self._rounds.refused.no_room

    @property
    def needed_from(self) -> int:
        """From where on the log is needed: what the disk lacks of it, or of its entries.

        Entries that are in memory alone have nothing else, were the process killed: their offsets
        would be given again. Where no round comes any more, the log alone counts.
        """
        flushed = self._log.flushed_position
        return flushed if self._rounds.lost else min(flushed, self._queues_synced)

    def refusals(self, count: int) -> Collection[AppendRefused]:
        """Say which files of queues cannot be made or written, about so many of them."""
        return self._rounds.refused.told(count)

    @property
    def log_sync_s(self) -> float:
        """How long the disk has been at the sync of the log that is under way, 0 without one."""
        return self._clock() - self._log_began_s if self._log_under_way else 0.0

    def request(self, position: int, done: Done) -> None:
        """Call `done(True)` when the log is on the disk up to `position`, which is committed.

        `done(False)` is called instead when the time is over (sync_flush_timeout_ms) or the disk
        reports an error. Many requests share one sync (GroupCommitService).
        """
        if position <= self._log.flushed_position:
            done(True)
            return
        if self._log_failed:
            done(False)
            return
        self._waiting.append((position, self._clock() + self._timeout_s, done))
        if not self._log_under_way:
            self.flush_log()

    def poll_timeouts(self, now: float | None = None) -> None:
        """Give up the requests whose time is over; `now` is of the monotonic clock, in seconds."""
        if now is None:
            now = self._clock()
        while self._waiting and self._waiting[0][1] <= now:
            self.timeouts += 1
            self._waiting.popleft()[2](False)

    def flush_log(self) -> None:
        """Begin to sync what is committed, a few files at a time, unless a sync is under way."""
        self._log_wanted = end = self._log.committed
        begin = self._log.flushed_position
        if self._log_under_way or begin >= end or self._log_failed:
            return
        segments = self._log.dirty_segments(begin, end)
        if len(segments) > LOG_FILES_PER_SUBMIT:
            segments = segments[:LOG_FILES_PER_SUBMIT]
            end = segments[-1].end
        try:
            syncs = [(segment.fd, LOG_ROUND) for segment in segments if self._hold(segment)]
        except OSError as error:
            self._release()
            if error.errno in OUT_OF_NUMBERS:  # no word of the disk's: the next tick tries again
                log.warning("log_sync_waits error=%s", error)
            else:
                self._fail(error.errno or 5)
            return
        self._log_target = end
        self._log_under_way = len(syncs)
        self._log_began_s = self._clock()
        self.syncs.log_begins(begin)
        self._backend.submit(syncs, log=True)

    def _hold(self, segment: Segment) -> bool:
        """Keep the number of a file that is to be synced."""
        segment.held += 1
        self._held.append(segment)
        return True

    def _release(self) -> None:
        while self._held:
            self._held.pop().held -= 1

    def flush_queues(self) -> None:
        """Commit, and begin to sync every queue that has changed, unless that is under way."""
        if self._rounds.round is not None or self._rounds.lost or self._log_failed:
            return
        if self._log.unclean:
            return  # a failed write has ended all appending; recovery will say what is there
        try:
            self._log.commit()  # or there would be entries of records that are in no file
        except LogUnavailable:
            return  # the log has told, and takes nothing more
        if self._log.committed > self._checkpointed and self._rounds.write_what_is_left():
            self.syncs.queues_begin(self._queues_synced)
            self._rounds.begin(self._log.committed, self._queues.take_changed())
            self._finish_queues()

    def run(self, job: Job) -> None:
        """Have file work done in the background; a failure of it is logged."""
        self._backend.run(job, OTHER_WORK)

    def on_readable(self) -> None:
        """Take completions, release the requests they cover, begin the next round if one waits."""
        for token, error in self._backend.completed():
            if token == CHECKPOINT:
                self._checkpoint_written(error)
            elif token == LOG_ROUND:
                self.fsyncs += 1
                self.log_fsyncs += 1
                self._log_synced(error)
            elif token > QUEUE_FILE:
                self.fsyncs += self._rounds.completed(token, error)
                self._finish_queues()
            elif error:
                log.error("store_work_failed errno=%d", error)

    def drain(self, timeout_s: float) -> bool:
        """Wait here until nothing is under way; False where nothing completes for so long."""
        said_s = time.monotonic()
        while self.busy:
            if not wait_readable([self.fileno()], timeout_s):
                return False
            self.on_readable()
            if (now_s := time.monotonic()) - said_s >= SAY_S:
                said_s = now_s
                left = round_.queues_left if (round_ := self._rounds.round) is not None else 0
                log.info("store_syncs queues_left=%d", left)
        return True

    def flush_all(self, timeout_s: float) -> bool:
        """Sync log and queues and wait here; False if any of it fails, or for so long nothing ends.

        A line says each 5 seconds how many queues are left.
        """
        for _ in range(2):  # a sync that was under way has begun without what came after it
            self.flush_log()
            self.flush_queues()
            if not self.drain(timeout_s):
                return False
        return self._log.flushed_position >= self._log.committed <= self._checkpointed

    def close(self) -> None:
        """Answer whoever still waits and release the backend."""
        while self._waiting:
            position, _, done = self._waiting.popleft()
            done(position <= self._log.flushed_position)
        self._backend.close()
        self._rounds.close()

    def forget(self, queues: Collection[ConsumeQueue]) -> None:
        """Sync and note nothing more of queues that are gone."""
        self._rounds.forget(queues)

    def note_again(self) -> None:
        """Write the checkpoints once more, though nothing may have come since the last ones."""
        self._checkpointed = -1

    def _log_synced(self, error: int) -> None:
        self._log_under_way -= 1
        if error:
            self._fail(error)
        if not self._log_under_way:
            self._release()
        if self._log_under_way or self._log_failed:
            return
        self._log.flushed_position = max(self._log.flushed_position, self._log_target)
        while self._waiting and self._waiting[0][0] <= self._log.flushed_position:
            self._waiting.popleft()[2](True)
        if self._waiting or self._log.flushed_position < self._log_wanted:
            self.flush_log()
        if not self._log_under_way:
            self._rest_log()
        self._finish_queues()

    def _rest_log(self) -> None:
        """Say that no sync of the log is under way.

        With SYNC_FLUSH the helper that prepares the log's files syncs them, too, at any time: so
        what is not known to be on the disk counts as under way.
        """
        if self._sync_flush:
            self.syncs.log_begins(self._log.flushed_position)
        else:
            self.syncs.log_ended()

    def _fail(self, error: int) -> None:
        """After a failed sync nobody knows what the disk has: take no more messages, for good."""
        if not self._log_failed:
            log.error(
                "log_sync_failed errno=%d position=%d advice=%r",
                error, self._log.flushed_position, RESTART,
            )  # fmt: skip
            self._log_failed = error
            self._log.refuse(f"a sync of the log failed (errno {error}); restart the broker")
            self._doubt()
        while self._waiting:
            self._waiting.popleft()[2](False)
        self._finish_queues()

    def _doubt(self) -> None:
        """A sync has failed; what it was to bring to the disk lies behind the flushed position."""
        self.on_doubt(self._log.flushed_position)

    def _synced(self, queue: ConsumeQueue, offset: int) -> None:
        """A queue is on the disk up to an offset, and so is all of its round but the log."""
        self.on_synced(queue, offset)

    def _finish_queues(self) -> None:
        """End a round whose files are synced as soon as the log is, too."""
        round_ = self._rounds.round
        if round_ is None or not round_.synced or self._writing:
            return
        if not round_.doubted:
            self.syncs.queues_ended()
        if not round_.failed:
            self._queues_synced = round_.position
        if round_.failed or self._log_failed:
            self._rounds.end()
            return
        if self._log.flushed_position < round_.position:
            self.flush_log()
            return  # comes back from _log_synced
        self._checkpointed = round_.position
        self._writing = True
        self._backend.run(self.on_checkpoint(round_), CHECKPOINT)

    def _checkpoint_written(self, error: int) -> None:
        self._writing = False
        if error and (round_ := self._rounds.round) is not None:
            round_.failed = True  # the older ones stay true, and the next round tries again
            if not self._unproven:  # a full disk fails every round: told when it begins and ends
                log.error("checkpoint_failed errno=%d path=%s", error, self._root)
            self._unproven += 1
            self._checkpointed = -1
        self._rounds.end()
        if not error and self._unproven:
            log.info("checkpoint_written_again failed=%d", self._unproven)
            self._unproven = 0
        if not error and not self._log_failed:  # a sync that failed meanwhile leaves its doubt
            self.on_proven()
