"""Which files of a store are copied when: the order in which a copy of a moving store is one.

A store survives the loss of power with any part of what was written since its notes were. So notes
are copied before what they speak of: what is copied later has at least that. The log comes behind
the queues, which so lead nowhere that it does not reach, and what says which topics there are,
and were deleted, comes last: it decides about files of topics that went meanwhile.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aerobee.storage.errors import StoreError
from aerobee.storage.layout import (
    BATCH_ENTRIES,
    BATCH_UNITS,
    BOOT_NOTE,
    COMMIT_LOG,
    COMPACTED,
    COMPACTING,
    COMPACTION,
    CONFIG,
    CONSUME_QUEUE,
    COPIED,
    DELETED,
    INDEX_SUMS,
    LOCK,
    RESTORING,
    SWAP,
    TIMER_CHECK,
    TIMER_WHEEL,
    TIMERS,
    TOPICS,
)

TIMER_FILES: Final = (TIMERS, TIMER_CHECK, "config/timermetrics", TIMER_WHEEL)
"""The note of timers, and what has to be of the same moment."""
_GROUPS: Final = "config/subscriptionGroup.json"
_MAPPINGS: Final = "config/topicQueueMapping.json"
LATE_NOTES: Final = (TOPICS, _GROUPS, _MAPPINGS, DELETED)
LATE_FILES: Final = (
    *LATE_NOTES,
    *(f"{name}.bak" for name in (TOPICS, _GROUPS, _MAPPINGS)),
    f"{_GROUPS}.changes",
)
"""What says which topics there are, and were, and what has to be of the same moment: a file's
backup, for it takes the file's place for a moment, and the changes that belong to one of them."""
_LEFT: Final = frozenset({LOCK, BOOT_NOTE})
"""Who has the store, and what its memory holds: both are of one process, or boot, alone."""
_EARLY_FOLDERS: Final = (CONFIG, INDEX_SUMS)
_EARLY_FILES: Final = (COMPACTED, COPIED)
_UNSAFE: Final = ("rocksdb", "consumequeue_r")
"""Folders of RocketMQ's stores in RocksDB, which are no copy unless their broker has stopped."""


def walk(root: Path, folder: str = "") -> Iterator[str]:
    """Yield the regular files below a folder of the store, by their paths within it.

    Files of a step that has not ended (`.tmp`) are none; what goes meanwhile is passed over. Raises
    StoreError for a link that leads nowhere: what it stands for would be missing.
    """
    try:
        with os.scandir(root / folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_dir():
            if path != RESTORING:
                yield from walk(root, path)
        elif entry.is_file():
            if not path.endswith(".tmp") and path not in _LEFT:
                yield path
        elif entry.is_symlink():
            raise StoreError(
                f"{root / path} leads to {(root / path).readlink()}, which is not there"
            )


def early(root: Path) -> list[str]:
    """Name the notes and tables: what speaks of the rest."""
    names = [path for path in _files(root) if path not in _LEFT]
    for folder in _EARLY_FOLDERS:
        names += walk(root, folder)
    names += [path for path in _EARLY_FILES if (root / path).is_file()]
    apart = {*TIMER_FILES, *LATE_FILES}
    return [path for path in names if path not in apart]


def queues(root: Path) -> list[str]:
    """Name the files of queues, of the index, of timers, and all else but those of compaction."""
    done = {*_EARLY_FOLDERS, COMMIT_LOG, COMPACTION, RESTORING}
    found: list[str] = []
    for folder in _folders(root):
        if folder not in done:
            found += walk(root, folder)
    return found


def compaction(root: Path, *, served: bool) -> list[str] | None:
    """Name the copies of compaction topics, which rounds replace; None while one does.

    What a round of a broker that runs has written so far is not yet anything, and left out.
    """
    names = [path for path in walk(root, COMPACTION) if path not in _EARLY_FILES]
    if not served:
        return names
    if any(path.endswith(f"/{SWAP}") for path in names):
        return None
    return [path for path in names if f"/{COMPACTING}/" not in path]


def has_queues(root: Path) -> bool:
    """Whether there are entries of messages, which a log has, or had."""
    return any(
        True for each in (CONSUME_QUEUE, BATCH_ENTRIES, BATCH_UNITS) for _ in walk(root, each)
    )


def unsafe(root: Path) -> str | None:
    """Name a folder that cannot be copied while its broker runs, None where there is none."""
    names = {*_folders(root), *(f"{CONFIG}/{name}" for name in _folders(root / CONFIG))}
    return next((name for name in sorted(names) if name.rpartition("/")[2] in _UNSAFE), None)


def _files(folder: Path) -> list[str]:
    return sorted(
        path.name for path in folder.iterdir() if path.is_file() and path.suffix != ".tmp"
    )


def _folders(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
