"""Where everything of a store lies; needs no open store, so readers of files at rest use it too."""

import os
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from aerobee.remoting.message.layout import ENTRY_FIELDS, Layout

COMMIT_LOG: Final = "commitlog"
CONSUME_QUEUE: Final = "consumequeue"
BATCH_UNITS: Final = "batchconsumequeue"  # RocketMQ's units of topics with queue.type=BatchCQ
BATCH_ENTRIES: Final = "aerobee.batches"  # ours: entries of those topics, one for each message
CONFIG: Final = "config"
TOPICS: Final = "config/topics.json"  # the broker's table; a topic that was deleted is not there
CHECKPOINT: Final = "checkpoint"  # RocketMQ's times
PROGRESS: Final = "aerobee.progress"  # ours: a position proven flushed and dispatched
BOOT_NOTE: Final = "aerobee.written"  # ours: a position proven written in this boot
DOUBT: Final = "aerobee.doubt"  # ours: a sync has failed, and from where on that matters
DELAYED: Final = "aerobee.delayed"  # ours: how far delayed messages have been delivered
TIMERS: Final = "aerobee.timers"  # ours: wheel and timer log as they were at one moment
TIMER_WHEEL: Final = "timerwheel"
TIMER_LOG: Final = "timerlog"
TIMER_CHECK: Final = "config/timercheck"
DEDUP: Final = "aerobee.dedup"  # ours: unique keys that topics have
DAMAGE: Final = "aerobee.damage"  # ours: spans of the log that cannot be read
MENDING: Final = "aerobee.mending"  # ours: queues that are being written again
CUT: Final = "aerobee.cut"  # ours: queues that a start cuts, until the disk has forgotten
DELETED: Final = "aerobee.deleted"  # ours: where the log ended when topics were deleted
INDEX: Final = "index"  # files of keys, named by the time at which they were made
INDEX_NOTE: Final = "aerobee.index"  # ours: up to where the index is on the disk
INDEX_SUMS: Final = "aerobee.sums"  # ours: check sums of index files, in files of their names
EXPIRED: Final = "aerobee.expired"  # ours: where topics begin whose messages go before the log
LIGHT: Final = "aerobee.light"  # ours: there once light queues have been filled
COMPACTION: Final = "compaction"  # all of compaction topics
COMPACTION_LOG: Final = "compaction/compactionLog"  # RocketMQ's copies of compaction topics
COMPACTION_QUEUE: Final = "compaction/compactionCq"  # ... and where in them their records are
COMPACTED: Final = "compaction/position-checkpoint"  # up to which offsets rounds have come
COPIED: Final = "compaction/aerobee.copied"  # ours: up to which offsets copies are on the disk
REMOVED: Final = "compaction/aerobee.removed"  # ours: copies of deleted topics, on their way out
COMPACTING: Final = "compacting"  # within a queue's folder: what a round writes
SWAP: Final = "aerobee.swap"  # ours, in there: the round is written, and takes the others' place
RESTORING: Final = "aerobee.restoring"  # ours: a snapshot's files, while it is restored here
ABORT: Final = "abort"
LOCK: Final = "lock"

ENTRY_BYTES: Final = ENTRY_FIELDS.size  # of a ConsumeQueue file

UNIT_FIELDS: Final = Layout(
    position="q",
    size="i",
    tags_code="q",
    store_timestamp="q",
    first_offset="q",
    messages="h",
    compacted_offset="i",
    reserved="i",
)
"""A unit of a compaction topic's or a batch queue: one record, and its first message's offset."""

BOOT_NOTE_FIELDS: Final = Layout(
    boot_id="36s",
    gap="12x",
    device="Q",
    mount="Q",
    first_position="q",
    first_complement="q",
    second_position="q",
    second_complement="q",
    doubt="8s",
    doubt_position="q",
    said="8s",
    log="q",
    queues="q",
)
"""The page of the boot note: two notes in turn, the doubt, and the words of the syncs under way."""

CHECKPOINT_FIELDS: Final = Layout(
    log_timestamp="q",
    queue_timestamp="q",
    index_timestamp="q",
    master_flushed_position="q",
    confirm_position="q",
    queue_position="q",
)
"""The numbers of `checkpoint`."""

INDEX_HEADER_FIELDS: Final = Layout(
    begin_ms="q",
    end_ms="q",
    begin_position="q",
    end_position="q",
    slots_used="i",
    count="i",
)
"""The head of an index file; slots follow it, an i32 each, and then the entries."""

INDEX_ENTRY_FIELDS: Final = Layout(key_hash="i", position="q", seconds="i", previous="i")
"""An entry of an index file: a key of the message at a position, and the entry before it of its
slot."""

INDEX_NOTE_MAGIC: Final = b"AEROIDX1"
INDEX_NOTE_FIELDS: Final = Layout(
    magic="8s",
    begin="q",
    position="q",
    count="i",
    slots="i",
    file_name="17s",
    gap="3x",
    crc="I",
)
"""Our note of what the index has: all keys of records from `begin` to `position`; in files of so
many slots, and of the newest one the entries before `count`."""

INDEX_SUMS_MAGIC: Final = b"AEROSUM1"
INDEX_SUMS_FIELDS: Final = Layout(magic="8s", slots="i", entries="i", count="i")
"""The head of the check sums of an index file, which has so many slots, room for so many entries,
and those before `count`. A u32 each follows: of the file's head, of its slots, of its entries."""
INDEX_SUM_SLOTS: Final = 1024
INDEX_SUM_ENTRIES: Final = 1024
"""So many have one sum, by their numbers; entry 0 has none."""

_BEGIN: Final = attrgetter("begin")
_NAMED: Final = attrgetter("name")
_NAME: Final = re.compile(r"[0-9]{20}")


class FileSpan(NamedTuple):
    """One file of a segmented sequence: it holds the bytes `begin` to `begin + size`."""

    name: str  # with its directory; a Path takes as long as to open the file, and they may be many
    begin: int
    size: int

    @property
    def path(self) -> Path:
        """Where the file is."""
        return Path(self.name)


class QueuePath(NamedTuple):
    """The directory of one ConsumeQueue."""

    topic: str
    queue_id: int
    path: Path


def file_name(begin: int) -> str:
    """Return the name of the file that starts at `begin` bytes: 20 digits."""
    return f"{begin:020d}"


def is_file_name(name: str) -> bool:
    """Whether a name is one that `file_name` makes."""
    return _NAME.fullmatch(name) is not None


def file_spans(directory: Path | str) -> list[FileSpan]:
    """List the numbered files of a directory in order; none if it does not exist."""
    spans = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not _NAME.fullmatch(name := entry.name):
                    continue
                try:
                    spans.append(FileSpan(entry.path, int(name), entry.stat().st_size))
                except FileNotFoundError:  # deleted while we look: the store may be in use
                    continue
    except (FileNotFoundError, NotADirectoryError):
        return []
    if len(spans) > 1:
        spans.sort(key=_BEGIN)
    return spans


def log_files(root: Path, commit_log_dir: Path | None = None) -> list[FileSpan]:
    """List the commit log files of a store, oldest first."""
    return file_spans(commit_log_dir or root / COMMIT_LOG)


def queue_paths(root: Path) -> Iterator[QueuePath]:
    """Walk the folders of entries of a store, by topic and then by queue number."""
    for folder in (CONSUME_QUEUE, BATCH_ENTRIES):
        for topic, queue_id in queue_names(root, folder):
            yield QueuePath(topic, queue_id, root / folder / topic / str(queue_id))


def queue_names(root: Path, folder: str = CONSUME_QUEUE) -> Iterator[tuple[str, int]]:
    """Walk the topics and numbers of queues in one folder of a store in that order."""
    directory = root / folder
    if not directory.is_dir():
        return
    for topic in _folders(str(directory)):
        with os.scandir(topic.path) as queues:
            numbers = [int(each.name) for each in queues if each.name.isdecimal()]
        for number in sorted(numbers):
            yield topic.name, number


def _folders(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        return sorted((each for each in entries if each.is_dir()), key=_NAMED)
