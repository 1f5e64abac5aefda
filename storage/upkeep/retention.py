"""What may go and when: log files by age, or any when the disk fills, and their queue entries."""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from aerobee.storage.log.allocator import Allocator
from aerobee.storage.log.commit_log import CommitLog
from aerobee.storage.log.segment import Segment
from aerobee.storage.parts import StoreParts
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.settings import StoreSettings

log = logging.getLogger(__name__)

FILES_PER_CLEAN: Final = 10  # so that removing many gigabytes does not stop the loop
TRIM_S: Final = 0.005  # at a time: the first entries of ten thousand queues are in no memory


class Retention:
    """Checks the disk and removes whole log files, oldest first (CleanCommitLogService).

    Never removed: the file that is written, those behind it, and what the disk does not have yet.
    Queues are shortened in the ticks that follow; until then who reads what is gone is told so.
    """

    def __init__(
        self,
        parts: StoreParts,
        commit_log: CommitLog,
        allocator: Allocator,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._files = parts.files
        self._log = commit_log
        self._segments = parts.segments
        self._queues = parts.queues
        self._allocator = allocator
        self._settings = parts.settings
        self._clock = clock
        self.disk_used_ratio = 0.0
        self._prepared_ratio = 0.0  # of the disk is prepared for the log and not used yet
        self._full = self._unmeasured = False  # what was told last
        self.removed_files = 0
        self._trims: deque[ConsumeQueue] = deque()  # queues that may name removed messages

    def apply(self, settings: StoreSettings) -> None:
        """Take limits that were changed while the store is open."""
        self._settings = settings

    def check_disk(self) -> None:
        """Measure how full the disk is; above disk_ratio_max the log takes no messages.

        Space that is prepared and not used yet is ours to fill, so it counts as free; and no more
        of it is prepared than up to that ratio, or queues would find no space for their files.
        """
        settings = self._settings
        try:
            self.disk_used_ratio = ratio = self._files.disk_used_ratio(settings.log_dir)
            disk_bytes = self._files.disk_bytes(settings.log_dir)
            prepared = self._segments.prepared_bytes(self._log.position)
        except OSError as error:
            if not self._unmeasured:
                log.error("disk_check_failed path=%s error=%s", settings.log_dir, error)
            self._unmeasured = True
            return
        if self._unmeasured:
            log.info("disk_checked_again path=%s", settings.log_dir)
        self._unmeasured = False
        self._prepared_ratio = prepared / disk_bytes if disk_bytes else 0.0
        room = prepared + int((settings.disk_ratio_max - ratio) * disk_bytes)
        self._allocator.limit_window(room)
        full = ratio - self._prepared_ratio > settings.disk_ratio_max
        if full != self._full:
            say, what = (log.error, "disk_full") if full else (log.info, "disk_has_room")
            allowed, path = settings.disk_ratio_max, settings.log_dir
            say(
                "%s used=%.3f allowed=%.3f need_bytes=%d path=%s",
                what, ratio, allowed, max(0, -room) if full else 0, path,
            )  # fmt: skip
            self._full = full
        self._log.set_disk_full(full)

    def clean(self, needed_from: int | None = None) -> int:
        """Remove what may go now; return how many log files that were.

        For want of disk space alone nothing from `needed_from` on (None: what the disk lacks).
        """
        settings, now = self._settings, self._clock()
        used = self.disk_used_ratio - self._prepared_ratio
        forced = used > settings.disk_ratio_force
        by_age = (
            used > settings.disk_ratio_clean or time.localtime(now).tm_hour in settings.delete_hours
        )
        if not forced and not by_age:
            return 0
        removed = 0
        while removed < FILES_PER_CLEAN and (segment := self._oldest_removable()) is not None:
            needed = needed_from is not None and segment.end > needed_from
            if (needed or not forced) and not self._expired(segment, now):
                break
            try:
                path = self._segments.drop_first()
            except OSError as error:  # tried again at the next look
                log.error("log_file_not_removed file=%s error=%s", segment.path, error)
                break
            log.warning("log_file_removed file=%s forced=%s", path, forced)
            removed += 1
        if removed:
            self.removed_files += removed
            self._trims = deque(self._queues)
            self.trim_some()
        return removed

    def tick(self) -> None:
        """Look at the disk, and go on shortening queues."""
        self.check_disk()
        self.trim_some()

    def trim_some(self) -> bool:
        """Shorten queues for TRIM_S, at least one; return whether some are left."""
        until_s = time.monotonic() + TRIM_S
        while self._trims:
            queue = self._trims.popleft()
            if self._queues.find(queue.topic, queue.queue_id) is queue:  # it was not deleted since
                try:
                    queue.trim(self._segments.begin)
                except OSError as error:  # it goes on with the entries that it has
                    log.error("queue_not_trimmed queue=%s error=%s", queue.directory, error)
            if time.monotonic() >= until_s:
                break
        return bool(self._trims)

    def _oldest_removable(self) -> Segment | None:
        items = self._segments.items
        if items and items[0].end <= self._log.flushed_position:
            return items[0]
        return None

    def _expired(self, segment: Segment, now: float) -> bool:
        try:
            return self._files.modified(segment.path) < now - self._settings.retention_hours * 3600
        except OSError:
            return False
