"""How a recovered store comes to take messages, and tries again as long as the disk refuses."""

import errno
import logging
import os
import time
from collections.abc import Callable

from aerobee.storage.layout import ABORT
from aerobee.storage.log.allocator import WINDOW_BYTES_MIN, Allocator
from aerobee.storage.log.commit_log import CommitLog
from aerobee.storage.parts import StoreParts
from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.proofs.progress import Progress
from aerobee.storage.recovery.quarantine import Quarantine
from aerobee.storage.recovery.recovery import FLUSHED, SYNCED, Recovered
from aerobee.storage.upkeep.checkpoints import Checkpoints

log = logging.getLogger(__name__)

RETRY_INTERVAL_S = 2.0
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class WritingStart:
    """The steps from a recovered store to one that is written; none is done twice.

    `trust` comes first and changes nothing on the disk; `attempt` does the rest, again and again
    until the disk lets it. Meanwhile the log refuses messages with the disk's reason.
    """

    def __init__(
        self,
        parts: StoreParts,
        allocator: Allocator,
        commit_log: CommitLog,
        checkpoints: Checkpoints,
        boot_note: BootNote,
    ) -> None:
        self._files = parts.files
        self._settings = parts.settings
        self._segments = parts.segments
        self._queues = parts.queues
        self._allocator = allocator
        self._log = commit_log
        self._checkpoints = checkpoints
        self._boot_note = boot_note
        self._quarantine = Quarantine(parts)
        self._torn = True  # what lies behind the end of the log may have been acknowledged
        self._aborted = False
        self._noted = False  # our files say what is so: progress is true or gone, `abort` is there
        self._refusal: str | None = None
        self._attempted_at = 0.0
        self._first_step: Callable[[], None] = lambda: None
        self.done = False

    def trust(
        self,
        recovered: Recovered,
        progress: Progress | None,
        describe: Callable[[int], Progress],
        *,
        aborted: bool,
    ) -> int:
        """Return up to where log and queues are on the disk; queues behind that get synced.

        What a killed process left in memory is synced by the first rounds of the flusher, not here:
        a gigabyte takes the disk seconds.
        """
        self._aborted = aborted
        self._torn = not recovered.noted
        if (
            progress is not None
            and recovered.proof in (SYNCED, FLUSHED)
            and recovered.position >= progress.position
        ):
            for queue in self._queues:
                key = (queue.topic, queue.queue_id)
                known = 0 if key in recovered.mended else progress.queues.get(key, 0)
                queue.distrust(known)
            trusted = progress.position
        elif not aborted and not recovered.entries:
            found = describe(recovered.position)  # a store that somebody else has stopped cleanly
            self._first_step = lambda: self._checkpoints.write_progress(found)
            trusted = recovered.position
        else:
            for queue in self._queues:
                queue.distrust(0)
            self._first_step = self._checkpoints.withdraw
            unsure = recovered.proof == SYNCED or recovered.mended
            trusted = self._segments.begin if unsure else recovered.begun_at
        self._checkpoints.trust(self._queues)
        return trusted

    def attempt(self) -> bool:
        """Begin to write, or have the log refuse messages with the disk's reason."""
        self._attempted_at = time.monotonic()
        root = self._settings.root
        try:
            self._begin()
        except OSError as error:
            refusal = f"the store {root} cannot be written: {error}"
            if refusal != self._refusal:
                need = WINDOW_BYTES_MIN if error.errno in NO_ROOM else 0
                log.error("store_not_writable path=%s need_bytes=%d error=%s", root, need, error)
            self._refusal = refusal
            self._log.refuse(refusal)
            return False
        if self._refusal is not None:
            log.info("store_writable_again path=%s", root)
        self.done = True
        return True

    def retry(self) -> bool:
        """Attempt again if that is due, and the log refuses for no other reason than ours."""
        due = time.monotonic() - self._attempted_at >= RETRY_INTERVAL_S
        return due and self._log.refusal == self._refusal and self.attempt()

    def _begin(self) -> None:
        """Note that we are at work, prepare the first window, begin to append."""
        position = self._log.position
        leftovers = self._quarantine.keep(position, torn=self._torn) or self._aborted
        if not self._noted:
            self._first_step()
            self._queues.deleted.settle(self._segments.begin, position)
            self._queues.expired.settle(self._segments.begin, position)
            self._segments.sync_names()  # of a file that was made, and its maker killed
            self._write_abort()
            self._noted = True
        self._queues.cut.sync()
        tail = self._segments.find(position)
        if leftovers and tail is not None:
            tail.clear(position)  # torn leftovers must not look like records again one day
        self._prepare(position, self._settings.first_window_bytes)
        self._boot_note.open(position)
        self._log.note = self._boot_note.note
        self._log.on_lost = self._cut_queues
        self._log.start(position)

    def _prepare(self, position: int, count: int) -> None:
        """Prepare the first window, a small one where the disk has no room for more."""
        try:
            self._allocator.prepare_now(position, count)
        except OSError as error:
            if error.errno not in NO_ROOM or count <= WINDOW_BYTES_MIN:
                raise
            self._allocator.prepare_now(position, WINDOW_BYTES_MIN)

    def _cut_queues(self, position: int) -> None:
        """Forget the queue entries of messages that did not make it into the log."""
        for queue in self._queues:
            queue.truncate(queue.first_behind(position))

    def _write_abort(self) -> None:
        """Leave the file that a clean stop removes; like RocketMQ's it holds our process id."""
        path = self._settings.root / ABORT
        fd = self._files.open(path, create=True)
        try:
            self._files.resize(fd, 0)
            self._files.write(fd, str(os.getpid()).encode(), 0)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.sync_directory(self._settings.root)
