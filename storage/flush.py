"""When bytes become durable: syncs the log and the queues in the background, and says so.

A round syncs every file that has changed since the last one. Rounds of the log and of the queues
run side by side, at most one of each. A queue round that covers everything dispatched before it
began ends with the checkpoint files being written, also in the background.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from aerobee.storage.commit_log import CommitLog
from aerobee.storage.consume_queue import ConsumeQueue
from aerobee.storage.consume_queues import ConsumeQueues
from aerobee.storage.files import Files, wait_readable
from aerobee.storage.settings import StoreSettings
from aerobee.storage.sync_backends import SyncBackend
from aerobee.storage.worker import Job

log = logging.getLogger(__name__)

LOG_ROUND: Final = 1
QUEUE_ROUND: Final = 2
CHECKPOINT: Final = 3
QUEUES_PER_SUBMIT: Final = 64  # of many changed queues, so many are synced at a time

Done = Callable[[bool], None]
Offsets = list[tuple[ConsumeQueue, int]]
"""Queues and their max offsets at one moment."""

OnCheckpoint = Callable[[int, Offsets, int], Job]
"""Takes the position, the queues that changed since the last checkpoint, and where the newest
record of theirs starts, or -1; returns the work of writing that down."""


@dataclass(slots=True)
class QueueRound:
    """The queues to sync so that everything dispatched below `position` is on the disk."""

    position: int
    offsets: Offsets  # of every queue that had changed when the round began
    waiting: Offsets  # those whose files are still to be synced
    last_position: int = -1  # of the newest record
    under_way: int = 0
    to_close: list[int] = field(default_factory=list)
    failed: bool = False
    writing: bool = False  # all is synced, and the checkpoints are being written


class Flusher:
    """Counts syncs in `fsyncs`; the owner watches `fileno()` and calls `on_readable()`."""

    def __init__(
        self,
        files: Files,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        settings: StoreSettings,
        backend: SyncBackend,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._log = commit_log
        self._queues = queues
        self._timeout_s = settings.sync_flush_timeout_ms / 1000
        self._backend = backend
        self._clock = clock
        self._waiting: deque[tuple[int, float, Done]] = deque()
        self._log_target = 0
        self._log_under_way = 0
        self._log_failed = 0
        self._queue_round: QueueRound | None = None
        self._checkpointed = 0
        self.on_checkpoint: OnCheckpoint = lambda *_: lambda: None
        self.fsyncs = 0
        self.log_fsyncs = 0
        self.timeouts = 0

    def fileno(self) -> int:
        """Return the number that is readable when a sync has completed."""
        return self._backend.fileno()

    def start(self, position: int) -> None:
        """Take everything below `position` as on the disk, and nothing behind it."""
        self._checkpointed = self._log.flushed_position = position

    @property
    def busy(self) -> bool:
        """Whether a sync is under way."""
        return self._log_under_way > 0 or self._queue_round is not None

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
        """Begin to sync what is committed, unless a sync is under way."""
        begin, end = self._log.flushed_position, self._log.committed
        if self._log_under_way or begin >= end or self._log_failed:
            return
        syncs = [(segment.fd, LOG_ROUND) for segment in self._log.dirty_segments(begin, end)]
        self._log_target = end
        self._log_under_way = len(syncs)
        self._backend.submit(syncs, log=True)

    def flush_queues(self) -> None:
        """Begin to sync every queue that has changed, unless that is under way."""
        if self._queue_round is not None or self._log.committed <= self._checkpointed:
            return
        offsets = [(queue, queue.max_offset) for queue in self._queues.take_changed()]
        waiting = [(queue, offset) for queue, offset in offsets if offset > queue.flushed_offset]
        last = max((q.entry(offset - 1)[0] for q, offset in waiting if offset > 0), default=-1)
        self._queue_round = QueueRound(self._log.committed, offsets, waiting, last)
        self._next_queues()

    def on_readable(self) -> None:
        """Take completions, release the requests they cover, begin the next round if one waits."""
        for token, error in self._backend.completed():
            if token == CHECKPOINT:
                self._checkpoint_written(error)
                continue
            self.fsyncs += 1
            if token == LOG_ROUND:
                self.log_fsyncs += 1
                self._log_synced(error)
            elif token == QUEUE_ROUND:
                self._queue_synced(error)

    def drain(self, timeout_s: float) -> bool:
        """Wait here until nothing is under way; False if it takes too long."""
        limit = time.monotonic() + timeout_s
        while self.busy:
            left = limit - time.monotonic()
            if left <= 0:
                return False
            wait_readable([self.fileno()], left)
            self.on_readable()
        return True

    def flush_all(self, timeout_s: float) -> bool:
        """Sync all that is committed and wait here; False if it fails or takes too long."""
        limit = time.monotonic() + timeout_s
        for _ in range(2):  # a sync that was under way has begun without what came after it
            self.flush_log()
            self.flush_queues()
            if not self.drain(limit - time.monotonic()):
                return False
        return self._log.flushed_position >= self._log.committed

    def close(self) -> None:
        """Answer whoever still waits and release the backend."""
        while self._waiting:
            position, _, done = self._waiting.popleft()
            done(position <= self._log.flushed_position)
        self._backend.close()
        if self._queue_round is not None:
            self._close_files(self._queue_round)

    def forget(self, queues: Collection[ConsumeQueue]) -> None:
        """Note nothing more of queues that are gone, and note again what is there."""
        if (round_ := self._queue_round) is not None:
            gone = {id(queue) for queue in queues}
            round_.offsets = [item for item in round_.offsets if id(item[0]) not in gone]
            round_.waiting = [item for item in round_.waiting if id(item[0]) not in gone]
        self._checkpointed = -1

    def _log_synced(self, error: int) -> None:
        self._log_under_way -= 1
        if error:
            self._fail(error)
        if self._log_under_way or self._log_failed:
            return
        self._log.flushed_position = max(self._log.flushed_position, self._log_target)
        while self._waiting and self._waiting[0][0] <= self._log.flushed_position:
            self._waiting.popleft()[2](True)
        if self._waiting:
            self.flush_log()
        self._finish_queues()

    def _fail(self, error: int) -> None:
        """After a failed sync nobody knows what the disk has: take no more messages, for good."""
        if not self._log_failed:
            log.error("log_sync_failed errno=%d position=%d", error, self._log.flushed_position)
            self._log_failed = error
            self._log.refuse(f"a sync of the log failed (errno {error}); restart the broker")
        while self._waiting:
            self._waiting.popleft()[2](False)

    def _next_queues(self) -> None:
        """Submit the next few files of the round, or end it."""
        round_ = self._queue_round
        assert round_ is not None
        fds: list[int] = []
        while round_.waiting and not fds:
            batch = round_.waiting[:QUEUES_PER_SUBMIT]
            del round_.waiting[:QUEUES_PER_SUBMIT]
            fds = self._open_files(batch, round_)
        if not fds:
            self._finish_queues()
            return
        round_.to_close += fds
        round_.under_way = len(fds)
        self._backend.submit([(fd, QUEUE_ROUND) for fd in fds])

    def _open_files(self, batch: Offsets, round_: QueueRound) -> list[int]:
        """Open the files of some queues; where that fails the round has failed."""
        fds: list[int] = []
        for queue, offset in batch:
            try:
                fds += queue.open_for_sync()
            except OSError as error:
                log.error("queue_sync_failed queue=%s error=%s", queue.directory, error)
                round_.failed = True
                round_.waiting.clear()
                break
            queue.flushed_offset = offset  # taken back if the sync fails: see _finish_queues
        return fds

    def _queue_synced(self, error: int) -> None:
        round_ = self._queue_round
        if round_ is None:
            return
        round_.under_way -= 1
        if error:  # queues are derived data: no harm but that the checkpoint stays where it is
            log.error("queue_sync_failed errno=%d", error)
            round_.failed = True
        if round_.under_way:
            return
        self._close_files(round_)
        self._next_queues()

    def _close_files(self, round_: QueueRound) -> None:
        while round_.to_close:
            self._files.close(round_.to_close.pop())

    def _finish_queues(self) -> None:
        """End a round whose files are synced as soon as the log is, too."""
        round_ = self._queue_round
        if round_ is None or round_.waiting or round_.under_way or round_.writing:
            return
        if round_.failed:
            self._queue_round = None
            for queue, _ in round_.offsets:
                queue.distrust(0)
                queue.note_change()
            return
        if self._log_failed:
            self._queue_round = None
            return
        if self._log.flushed_position < round_.position:
            self.flush_log()
            return  # comes back from _log_synced
        self._checkpointed = round_.position
        round_.writing = True
        job = self.on_checkpoint(round_.position, round_.offsets, round_.last_position)
        self._backend.run(job, CHECKPOINT)

    def _checkpoint_written(self, error: int) -> None:
        self._queue_round = None
        if error:  # the older ones stay true
            log.error("checkpoint_failed errno=%d", error)
