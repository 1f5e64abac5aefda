"""What may go and when: log files by age, by the log's size, or any when the disk fills."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from aerobee.storage.errors import StoreReadOnly
from aerobee.storage.log.allocator import Allocator
from aerobee.storage.log.commit_log import CommitLog
from aerobee.storage.log.segment import Segment
from aerobee.storage.parts import StoreParts
from aerobee.storage.settings import StoreSettings
from aerobee.storage.upkeep.disk_space import DiskSpace
from aerobee.storage.upkeep.shortening import Shortening
from aerobee.storage.upkeep.wall_time import WallTime

log = logging.getLogger(__name__)

START_DELAY_S: Final = 60.0  # as in RocketMQ: groups may fetch what a full disk will cost
ORDERED_LOOKS: Final = 20  # that remove expired files at any hour, as in RocketMQ

AGE: Final = "age"
SIZE: Final = "size"
DISK: Final = "disk"


class Retention:
    """Removes whole log files, oldest first (CleanCommitLogService).

    Never removed: the file that is written, those behind it, what the disk does not have yet, and
    what `kept_from` says that others have still to copy. The files of one look go one by one,
    remove_interval_ms apart, since each may hold the loop for some milliseconds. Queues are
    shortened in the ticks that follow; until then who reads what is gone is told so.
    """

    def __init__(self, parts: StoreParts, commit_log: CommitLog, allocator: Allocator) -> None:
        self.disk = DiskSpace(parts, commit_log, allocator)
        self.shortening = Shortening(parts)
        self._queues = parts.queues
        self._files = parts.files
        self._log = commit_log
        self._segments = parts.segments
        self._queues_writable = parts.write
        self._settings = parts.settings
        self.time = WallTime()
        self.removed_files = 0
        self.kept_from: Callable[[], int | None] = lambda: None  # a position; behind it all stays
        self._ordered = 0  # looks that are still to remove expired files at any hour
        self._to_go = 0  # files that may still go after the last look
        self._first_s = self._next_s = 0.0
        self._looked_s = float("-inf")

    def apply(self, settings: StoreSettings) -> None:
        """Take limits that were changed while the store is open."""
        self._settings = settings
        self.disk.apply(settings)

    def start(self) -> None:
        """Look at the disk, and let nothing go within the first minute."""
        self.disk.check()
        self._first_s = time.monotonic() + START_DELAY_S

    def tick(self, now_s: float, needed_from: int | None) -> int:
        """Look at the disk, shorten queues, remove what is due; return how many files that were."""
        self.disk.check()
        self.shortening.go_on()
        due_s = self._looked_s + self._settings.clean_interval_ms / 1000  # as it is by now
        if now_s < max(self._first_s, due_s):
            return self.go_on(needed_from)
        self._looked_s = now_s
        return self.clean(needed_from)

    def hide_before(self, positions: Mapping[str, int]) -> None:
        """Let the queues of some topics begin at a position of the log, now and after any stop.

        The records stay in the log until its files go. What the disk does not have yet is shown.
        Queues follow in the ticks to come. Errors: StoreReadOnly; OSError of the disk: nothing has
        changed.
        """
        if not self._queues_writable:
            raise StoreReadOnly("the store is open for reading only")
        expired, flushed = self._queues.expired, self._log.flushed_position
        later = {topic: min(at, flushed) for topic, at in positions.items()}
        later = {topic: at for topic, at in later.items() if at > expired.before(topic)}
        if later:
            expired.add(later, self._segments.begin)
        self.shortening.begin(self._queues.of_topics(positions))

    def remove_expired_soon(self) -> None:
        """Have the next twenty looks remove expired files at any hour."""
        self._ordered = ORDERED_LOOKS

    def clean(self, needed_from: int | None = None) -> int:
        """Look what may go, and begin to remove it; return how many log files went at once.

        For want of disk space, or of room in the log, alone nothing from `needed_from` on (None:
        what the disk lacks).
        """
        self._to_go, self._next_s = self._settings.clean_files_max, 0.0
        removed = self.go_on(needed_from)
        self._ordered = max(0, self._ordered - 1)
        return removed

    def go_on(self, needed_from: int | None = None) -> int:
        """Remove what may still go after the last look, if it is time; return how many files."""
        removed, kept_from = 0, self.kept_from()
        while self._to_go and time.monotonic() >= self._next_s:
            segment, why = self._oldest_removable(), ""
            if segment is not None and (kept_from is None or segment.end <= kept_from):
                why = self._why(segment, needed_from)
            if segment is None or not why or not self._remove(segment, why):
                self._to_go = 0
                break
            self._to_go -= 1
            removed += 1
            if self._settings.remove_interval_ms:
                self._next_s = time.monotonic() + self._settings.remove_interval_ms / 1000
        if removed:
            self.removed_files += removed
            self.shortening.begin()
        return removed

    def _remove(self, segment: Segment, why: str) -> bool:
        try:
            path = self._segments.drop_first()
        except OSError as error:  # tried again at the next look
            log.error("log_file_not_removed file=%s error=%s", segment.path, error)
            return False
        log.warning("log_file_removed file=%s because_of=%s", path, why)
        return True

    def _oldest_removable(self) -> Segment | None:
        items = self._segments.items
        if items and items[0].end <= self._log.flushed_position:
            return items[0]
        return None

    def _why(self, segment: Segment, needed_from: int | None) -> str:
        """Say why the oldest file may go now, "" where it stays."""
        settings, used = self._settings, self.disk.use.counted
        forced = settings.cleans_forcibly and used > settings.disk_ratio_force
        now_s = self.time.now()
        at_any_hour = used > settings.disk_ratio_clean or forced or self._ordered
        if (
            now_s is not None
            and (at_any_hour or time.localtime(now_s).tm_hour in settings.delete_hours)
            and self._expired(segment, now_s)
        ):
            return AGE
        if needed_from is not None and segment.end > needed_from:
            return ""
        if forced:
            return DISK
        bytes_max = settings.log_bytes_max
        return SIZE if bytes_max and self._log.position - segment.base > bytes_max else ""

    def _expired(self, segment: Segment, now_s: float) -> bool:
        """Whether a file was written last before the time of retention.

        One that was written in the future, by a clock that has been set back since, is as old as
        the first one behind it that was not; so is one that somebody has removed by hand, which is
        served from memory until then.
        """
        keep_from_s = now_s - self._settings.retention_hours * 3600
        for each in self._segments.items[self._segments.items.index(segment) :]:
            try:
                written_s = self._files.modified(each.path)
            except FileNotFoundError:
                continue
            except OSError:
                return False
            if written_s <= now_s or each.end > self._log.flushed_position:
                return written_s < keep_from_s
        return False
