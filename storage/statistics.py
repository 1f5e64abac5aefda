"""What an open store tells of itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreStatistics:
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
    disk_used_ratio: float
    writable: bool
    refusal: str | None
    earliest_store_timestamp: int | None

    @property
    def unflushed_bytes(self) -> int:
        """How much of the log the disk does not have yet, as far as we know."""
        return max(0, self.position - self.flushed_position)
