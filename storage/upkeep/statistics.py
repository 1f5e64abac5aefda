"""What an open store tells of itself."""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from aerobee.storage.log.allocator import Allocator
    from aerobee.storage.log.commit_log import CommitLog
    from aerobee.storage.parts import StoreParts
    from aerobee.storage.upkeep.flush import Flusher
    from aerobee.storage.upkeep.retention import Retention


class StoreStatistics(msgspec.Struct, frozen=True):
    """Counters and sizes at one moment; bytes and counts, times in milliseconds."""

    position: int
    committed: int
    flushed_position: int
    log_begin: int
    log_files: int
    queues: int
    fsyncs: int
    log_fsyncs: int
    sync_timeouts: int
    space_lacks: int  # times that a message found no prepared space in the log
    disk_used_ratio: float
    removed_log_files: int  # since the start, by retention
    writable: bool
    refusal: str | None
    earliest_store_timestamp: int | None
    disk_used_bytes: int = 0  # of the log's disk, by whomever

    @property
    def unflushed_bytes(self) -> int:
        """How much of the log the disk does not have yet, as far as we know."""
        return max(0, self.position - self.flushed_position)


def taken(
    parts: "StoreParts",
    commit_log: "CommitLog",
    flusher: "Flusher",
    retention: "Retention",
    allocator: "Allocator",
    earliest_ms: int | None,
) -> StoreStatistics:
    """Return what the parts of a store say at this moment; `earliest_ms` is its oldest message."""
    return StoreStatistics(
        position=commit_log.position,
        committed=commit_log.committed,
        flushed_position=commit_log.flushed_position,
        log_begin=commit_log.begin,
        log_files=len(parts.segments.items),
        queues=len(parts.queues),
        fsyncs=flusher.fsyncs,
        log_fsyncs=flusher.log_fsyncs,
        sync_timeouts=flusher.timeouts,
        space_lacks=allocator.lacks,
        disk_used_ratio=retention.disk.use.ratio,
        removed_log_files=retention.removed_files,
        writable=commit_log.writable,
        refusal=commit_log.refusal,
        earliest_store_timestamp=earliest_ms,
        disk_used_bytes=retention.disk.use.used_bytes,
    )
