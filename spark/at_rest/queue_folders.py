"""Where the files of each topic's queues are: those of batch queues have a folder of their own.

Topics with `queue.type=BatchCQ` have one entry for each message too, and those of a batch all lead
to its one record (FORMAT.md). Only our broker writes these; RocketMQ's has units of records alone.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from pathlib import Path
from typing import Final

from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.queue_entries import ConsumeQueueFiles
from aerobee.storage.layout import (
    BATCH_ENTRIES,
    BATCH_UNITS,
    TOPICS,
    UNIT_FIELDS,
    is_file_name,
)

_UNIT: Final = UNIT_FIELDS.run()
_SIZE, _FIRST, _COUNT = 1, 4, 5  # of a unit's fields
_TYPE, _BATCHED = "queue.type", "BatchCQ"


def batches_dir(queues_dir: str) -> str:
    """The folder of the batch queues beside that of the others."""
    return f"{queues_dir.rpartition('/')[0]}/{BATCH_ENTRIES}"


def is_batched(queue_dir: str) -> bool:
    """Whether that is the folder of a queue whose messages may share a record."""
    return queue_dir.rsplit("/", 3)[1] == BATCH_ENTRIES


def topic_dirs(queues_dir: str | None) -> dict[str, str]:
    """The folder of each topic's queues. Raises StoreUnreadable."""
    if queues_dir is None:
        return {}
    found = {name: f"{queues_dir}/{name}" for name in disk.folders_if_there(queues_dir) or ()}
    beside = batches_dir(queues_dir)
    names = disk.folders_if_there(beside) or ()
    listed = _listed_batches(queues_dir) if any(name in found for name in names) else ()
    for name in names:
        if name not in found or name in listed:
            found[name] = f"{beside}/{name}"
    return found


def topic_dir(queues_dir: str | None, topic: str) -> str:
    """The folder of one topic's queues, whether it is there or not. Raises StoreUnreadable."""
    plain = f"{queues_dir}/{topic}"
    if queues_dir is None:
        return plain
    beside = f"{batches_dir(queues_dir)}/{topic}"
    if not disk.is_folder(beside):
        return plain
    is_both = disk.is_folder(plain)
    return plain if is_both and topic not in _listed_batches(queues_dir) else beside


def batch_topics(queues_dir: str | None) -> frozenset[str]:
    """Topics some of whose records may hold several messages. Raises StoreUnreadable."""
    if queues_dir is None:
        return frozenset()
    units = f"{queues_dir.rpartition('/')[0]}/{BATCH_UNITS}"
    folders = (batches_dir(queues_dir), units)
    return frozenset(name for each in folders for name in disk.folders_if_there(each) or ())


def entries_are_whole(queues_dir: str) -> bool:
    """Whether each message of the batch queues has its entry: none has where RocketMQ went on."""
    units = f"{queues_dir.rpartition('/')[0]}/{BATCH_UNITS}"
    listed: frozenset[str] | None = None
    for topic in disk.folders_if_there(units) or ():
        for name in disk.folders_if_there(f"{units}/{topic}") or ():
            end = _units_end(f"{units}/{topic}/{name}")
            if not end:
                continue
            with ConsumeQueueFiles(f"{batches_dir(queues_dir)}/{topic}/{name}") as entries:
                there = entries.end > entries.first
                behind = not there or not _has(entries, end - 1)
            if behind and listed is None:
                listed = _listed_batches(queues_dir)
            if behind and (there or topic in (listed or ())):
                return False
    return True


def _has(entries: ConsumeQueueFiles, at: int) -> bool:
    return entries.first <= at < entries.end and bool((entries.read(at, at + 1)["size"] > 0).any())


def _units_end(folder: str) -> int:
    """The offset behind the last message that units know; 0 without any."""
    try:
        names = [name for name in disk.names(folder) if is_file_name(name)]
    except OSError as error:
        disk.check_absent(error, folder)
        return 0
    for name in reversed(names):
        try:
            fd = disk.open_file(f"{folder}/{name}")
        except OSError as error:
            disk.check_absent(error, f"{folder}/{name}")  # deleted meanwhile
            continue
        try:
            count = disk.size(fd) // _UNIT.size

            def empty(number: int, fd: int = fd) -> bool:
                return _unit(fd, number) is None

            written = bisect_left(range(count), True, key=empty)
            if written and (last := _unit(fd, written - 1)) is not None:
                return last
        finally:
            disk.close(fd)
    return 0


def _unit(fd: int, number: int) -> int | None:
    """The offset behind a unit's last message; None for one that names no record."""
    try:
        unit = _UNIT.unpack(disk.read(fd, _UNIT.size, number * _UNIT.size))
    except struct.error:
        return None
    sound = unit[_SIZE] > 0 and unit[_COUNT] > 0
    return int(unit[_FIRST] + unit[_COUNT]) if sound else None


def _listed_batches(queues_dir: str) -> frozenset[str]:
    """The topics that have batch queues by the broker's table."""
    try:
        table = json.loads((Path(queues_dir).parent / TOPICS).read_bytes())["topicConfigTable"]
        found = {name: topic.get("attributes") or {} for name, topic in table.items()}
        return frozenset(name for name, each in found.items() if each.get(_TYPE) == _BATCHED)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return frozenset()
