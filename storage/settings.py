"""What a store has to know: where its files are, how large, and how safely they are written."""

from pathlib import Path
from typing import Final

import msgspec

from aerobee.storage.layout import COMMIT_LOG, CONSUME_QUEUE

ASYNC_FLUSH: Final = "ASYNC_FLUSH"
SYNC_FLUSH: Final = "SYNC_FLUSH"

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

SEGMENT_BYTES_MIN: Final = 4 * KIB

DELAY_LEVELS_MS: Final = tuple(
    seconds * 1000
    for seconds in (
        *(1, 5, 10, 30),
        *(minute * 60 for minute in (*range(1, 11), 20, 30)),
        3600,
        7200,
    )
)
"""RocketMQ's 18 levels, `1s 5s 10s 30s 1m ... 10m 20m 30m 1h 2h`, in milliseconds."""


class StoreSettings(msgspec.Struct, frozen=True):
    """Frozen values, RocketMQ's key in brackets (MessageStoreConfig.java); checked when built."""

    root: Path  # [storePathRootDir]
    commit_log_dir: Path | None = None  # [storePathCommitLog]; by default root/commitlog
    segment_bytes: int = GIB  # [mappedFileSizeCommitLog] of one commit log file
    queue_file_entries: int = 300_000  # [mappedFileSizeConsumeQueue] / 20
    flush_mode: str = ASYNC_FLUSH  # [flushDiskType]
    flush_interval_ms: int = 500  # [flushIntervalCommitLog], so old may be what power loss takes
    queue_flush_interval_ms: int = 1000  # [flushIntervalConsumeQueue], or later: queues_due
    sync_flush_timeout_ms: int = 5000  # [syncFlushTimeout]
    message_bytes_max: int = 4 * MIB  # [maxMessageSize] of one body
    window_bytes: int = 64 * MIB  # prepared ahead of the last record
    first_window_bytes: int = 8 * MIB  # prepared before the store opens
    log_cache_bytes: int = 1536 * MIB  # of the log stay in memory, and what readers want; 0: all
    helper_process: bool = True  # whether a process of its own prepares the windows
    transfer_count_memory: int = 32  # [maxTransferCountOnMessageInMemory] per read
    transfer_bytes_memory: int = 256 * KIB  # [maxTransferBytesOnMessageInMemory]
    transfer_count_disk: int = 8  # [maxTransferCountOnMessageInDisk]
    transfer_bytes_disk: int = 64 * KIB  # [maxTransferBytesOnMessageInDisk]
    memory_ratio: float = 0.40  # [accessMessageInMemoryMaxRatio] of the RAM counts as cached
    filter_scan_bytes: int = 16_000  # [maxFilterMessageSize] of queue entries looked at per read
    disk_ratio_max: float = 0.90  # [diskSpaceWarningLevelRatio]: fuller: writes are refused
    # [diskSpaceCleanForciblyRatio]: fuller: the oldest files go; refused writes come back below
    disk_ratio_force: float = 0.85
    disk_ratio_clean: float = 0.75  # [diskMaxUsedSpaceRatio]: expired files go at any hour
    cleans_forcibly: bool = True  # [cleanFileForciblyEnable] whether files go before their time
    retention_hours: int = 72  # [fileReservedTime]
    delete_hours: tuple[int, ...] = (4,)  # [deleteWhen] local hours in which expired files go
    log_bytes_max: int = 0  # of the whole log; above, the oldest files go; 0: no limit
    clean_interval_ms: int = 10_000  # [cleanResourceInterval] between two looks
    clean_files_max: int = 10  # [deleteFileBatchMax] files that go after one look
    remove_interval_ms: int = 100  # [deleteCommitLogFilesInterval] between two files
    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS  # [messageDelayLevel]
    light_queues: bool = False  # [enableLmq, enableMultiDispatch] whether they may be filled
    open_files_wanted: int = 65_536  # the soft limit is raised to it, as far as is allowed
    spare_files_max: int = 1024  # or an eighth, is left to connections where maps are open files

    def __post_init__(self) -> None:
        """Refuse values with which no store can work."""
        if self.flush_mode not in (ASYNC_FLUSH, SYNC_FLUSH):
            raise ValueError(f"flush_mode is {self.flush_mode!r}, allowed: ASYNC_FLUSH, SYNC_FLUSH")
        for name, least in (
            ("segment_bytes", SEGMENT_BYTES_MIN),
            ("queue_file_entries", 1),
            ("flush_interval_ms", 1),
            ("queue_flush_interval_ms", 1),
            ("sync_flush_timeout_ms", 1),
            ("message_bytes_max", 1),
            ("log_cache_bytes", 0),
            ("window_bytes", 4 * KIB),
            ("first_window_bytes", 4 * KIB),
            ("transfer_count_memory", 1),
            ("transfer_count_disk", 1),
            ("log_bytes_max", 0),
            ("clean_interval_ms", 1),
            ("clean_files_max", 1),
            ("remove_interval_ms", 0),
        ):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name} is {value}, allowed: {least} and more")
        for name in ("disk_ratio_max", "disk_ratio_force", "disk_ratio_clean", "memory_ratio"):
            if not 0 < (ratio := getattr(self, name)) <= 1:
                raise ValueError(f"{name} is {ratio}, allowed: more than 0, at most 1")

    @property
    def log_dir(self) -> Path:
        """Where the commit log files are."""
        return self.commit_log_dir or self.root / COMMIT_LOG

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of a store in the order in which they are made, the log's last.

        Who finds a log without queues beside it takes the store for one that has none.
        """
        return self.root, self.root / CONSUME_QUEUE, self.log_dir

    @property
    def sync_flush(self) -> bool:
        """Whether a message is acknowledged only when the disk has it."""
        return self.flush_mode == SYNC_FLUSH
