"""How full the disks of log and queues are, and whether the log may take messages."""

import logging
from pathlib import Path

import msgspec

from aerobee.storage.log.allocator import Allocator
from aerobee.storage.log.commit_log import CommitLog
from aerobee.storage.parts import StoreParts
from aerobee.storage.settings import StoreSettings

log = logging.getLogger(__name__)


class DiskUse(msgspec.Struct, frozen=True):
    """How full the fuller of two disks is, 0 to 1."""

    ratio: float  # of the log's disk as it is, for who watches it
    counted: float  # of the fuller one, without what is prepared for the log and not used yet
    path: Path  # where that is
    used_bytes: int = 0  # of the log's disk


class DiskSpace:
    """Measures both disks; above disk_ratio_max the log takes no messages.

    It takes them again when neither disk is fuller than disk_ratio_force, so that a disk at the
    limit does not open and close with each file that goes. Space that is prepared and not used yet
    is ours to fill, so it counts as free; and no more of it is prepared than up to disk_ratio_max,
    or queues would find no space for their files.
    """

    def __init__(self, parts: StoreParts, commit_log: CommitLog, allocator: Allocator) -> None:
        self._files = parts.files
        self._log = commit_log
        self._segments = parts.segments
        self._queue_dir = parts.queues.root
        self._allocator = allocator
        self._settings = parts.settings
        self._full = self._unmeasured = False  # what was told last
        self._elsewhere: bool | None = None
        self.use = DiskUse(0.0, 0.0, parts.settings.log_dir)

    def apply(self, settings: StoreSettings) -> None:
        """Take limits that were changed while the store is open."""
        self._settings = settings

    def check(self) -> None:
        """Measure, and close or open the log; where that fails what was known last counts."""
        settings = self._settings
        try:
            need_bytes = self._measure()
        except OSError as error:
            if not self._unmeasured:
                log.error("disk_check_failed path=%s error=%s", settings.log_dir, error)
            self._unmeasured = True
            return
        if self._unmeasured:
            log.info("disk_checked_again path=%s", settings.log_dir)
        self._unmeasured = False
        used = self.use.counted
        full = used > settings.disk_ratio_max or (self._full and used > settings.disk_ratio_force)
        if full != self._full:
            say, what = (log.error, "disk_full") if full else (log.info, "disk_has_room")
            say(
                "%s used=%.3f allowed=%.3f opens_at=%.3f need_bytes=%d path=%s",
                what, used, settings.disk_ratio_max,
                min(settings.disk_ratio_max, settings.disk_ratio_force),
                need_bytes if full else 0, self.use.path,
            )  # fmt: skip
            self._full = full
        self._log.set_disk_full(full)

    def _measure(self) -> int:
        """Take the present use of both disks; return how much has to go until the log opens."""
        _files, settings = self._files, self._settings
        ratio, disk_bytes = self._look(settings.log_dir)
        prepared = self._segments.prepared_bytes(self._log.position)
        self._allocator.limit_window(prepared + int((settings.disk_ratio_max - ratio) * disk_bytes))
        used_bytes = round(ratio * disk_bytes)
        counted = ratio - (prepared / disk_bytes if disk_bytes else 0.0)
        use = DiskUse(ratio, counted, settings.log_dir, used_bytes)
        if self._queues_elsewhere():
            queue_ratio, queue_disk_bytes = self._look(settings.root)
            if queue_ratio > use.counted:
                use = DiskUse(ratio, queue_ratio, self._queue_dir, used_bytes)
                disk_bytes = queue_disk_bytes
        self.use = use
        opens_at = min(settings.disk_ratio_max, settings.disk_ratio_force)
        return max(0, int((use.counted - opens_at) * disk_bytes))

    def _queues_elsewhere(self) -> bool:
        """Whether the queues have a disk of their own; looked at once."""
        if self._elsewhere is None:
            devices = [
                self._files.mount(path)[0] for path in (self._settings.root, self._settings.log_dir)
            ]
            self._elsewhere = devices[0] != devices[1]
        return self._elsewhere

    def _look(self, path: Path) -> tuple[float, int]:
        return self._files.disk_used_ratio(path), self._files.disk_bytes(path)
