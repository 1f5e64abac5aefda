"""The CommitLog's files as a reader finds them: where they are, and whether they are whole."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from aerobee.spark.at_rest import disk
from aerobee.spark.errors import StoreUnreadable
from aerobee.spark.options.places import store_path
from aerobee.storage.layout import BATCH_ENTRIES, COMMIT_LOG, CONSUME_QUEUE, is_file_name


@dataclass(frozen=True, slots=True)
class LogSegment:
    """One CommitLog file: `base` is the log position of its first byte."""

    path: str
    base: int
    bytes: int

    @property
    def end(self) -> int:
        """The log position behind its last byte."""
        return self.base + self.bytes


@dataclass(frozen=True, slots=True)
class StorePath:
    """A store's folders: the log, and the queues beside it if there are any."""

    log_dir: str
    queues_dir: str | None

    @classmethod
    def find(cls, path: str) -> StorePath:
        """The folders of the store at `path`: its root (`storePathRootDir`) or its log folder.

        Raises StoreUnreadable where neither is there.
        """
        root = Path(store_path(path))
        log_dir = root / COMMIT_LOG
        if not log_dir.is_dir():
            if not root.is_dir():
                raise StoreUnreadable(f"option path: there is no folder {root}")
            if not any(is_file_name(path.name) for path in root.iterdir()):
                raise StoreUnreadable(
                    f"option path: {root} is no RocketMQ store: it has neither a folder commitlog"
                    " nor log files (named by 20 digits) in it; name the broker's storePathRootDir"
                )
            log_dir, root = root, root.parent
        queues_dir = root / CONSUME_QUEUE  # or nothing but batch queues, beside it
        there = queues_dir.is_dir() or (root / BATCH_ENTRIES).is_dir()
        return cls(str(log_dir), str(queues_dir) if there else None)


def list_segments(log_dir: str) -> list[LogSegment]:
    """The log's files in order; empty files at the end do not count.

    Raises StoreUnreadable where a file is missing between others or has not the length that
    the next one's name asks for, or where the folder cannot be read.
    """
    segments = []
    for name in filter(is_file_name, _names(log_dir)):
        path = f"{log_dir}/{name}"
        try:
            segments.append(LogSegment(path, int(name), disk.size(path)))
        except OSError as error:
            disk.check_absent(error, path)  # deleted by the broker's retention while we listed
    while segments and segments[-1].bytes == 0:
        segments.pop()
    for earlier, later in pairwise(segments):
        if earlier.end != later.base:
            raise StoreUnreadable(
                f"the log is not whole: {earlier.path} ends at position {earlier.end}, but the"
                f" next file {later.path} starts at {later.base}"
            )
    return segments


def _names(log_dir: str) -> list[str]:
    try:
        return disk.names(log_dir)
    except OSError as error:
        disk.check_absent(error, log_dir)
        raise


def check_reachable(log_dir: str) -> None:
    """Refuse to read on a machine that does not have the driver's store. Raises StoreUnreadable.

    To a task everything would look as if retention had deleted it.
    """
    if not Path(log_dir).is_dir():
        raise StoreUnreadable(
            f"there is no folder {log_dir} on {socket.gethostname()}: every machine that runs tasks"
            " must reach the store under the same path as the driver (or read over the network,"
            " by the option namesrv)"
        )
