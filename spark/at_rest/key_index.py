"""The index of message keys beside a log: where messages with a key are, and how far that is all.

Only our broker's note (`aerobee.index`) says from where to where the index has no gap. Without it,
and wherever the files do not agree with it, with their check sums (`aerobee.sums`) or with the log,
nothing is said, and the log is read instead. Each file vouches for the log from its first to its
last message; what lies between two files is not vouched for, and is read, and so is that of a file
without check sums: one bit could hide a message.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.index_file import KeyFile, WalkBudget
from aerobee.spark.at_rest.key_sums import IndexDoubtfulError, read_sums
from aerobee.spark.at_rest.keyed_records import KeyedRecord, NoRecordError, key_hash, read_keyed
from aerobee.spark.at_rest.open_segment import OpenLog
from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.errors import DataLost, StoreUnreadable
from aerobee.storage.layout import (
    INDEX,
    INDEX_NOTE,
    INDEX_NOTE_FIELDS,
    INDEX_NOTE_MAGIC,
    INDEX_SUMS,
)

LOOKUPS_MAX: Final = 10_000  # keys, times topics, times files: more are looked for in the log
ENTRIES_MAX: Final = 1 << 16  # that a look-up walks, of keys whose slots many share
RECORDS_MAX: Final = 1 << 13  # whose heads a look-up reads

_NOTE: Final = INDEX_NOTE_FIELDS.run()
_CRC_AT: Final = INDEX_NOTE_FIELDS.at("crc")
_NAME_DIGITS: Final = 17

Span = tuple[int, int]
"""Log positions from one on, and before another."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """Within the spans `covered`, which ascend, the records are all that have one of some keys.

    Others of equal hash may be among them.
    """

    covered: list[Span]
    records: list[KeyedRecord]


def find_keyed(
    state: StoreState, end: int, topics: Collection[str], keys: Collection[str]
) -> Keyed | None:
    """Messages of the topics with one of the keys, before log position `end`, as the index says.

    None where it does not: there is none, it is stale or damaged, or it would cost too much.
    """
    try:
        with ExitStack() as stack:
            log = stack.enter_context(OpenLog(state.segments))
            begin, files = _vouching(state, log, stack)
            covered = _covered(files, max(begin, state.start), end)
            if not covered:
                return None
            if covered[0][0] == begin:
                read_keyed(log, begin)  # pieces end where a record begins
            if len(topics) * len(keys) * len(files) > LOOKUPS_MAX:
                return None
            hashes = {key_hash(topic, key) for topic in topics for key in keys}
            budget = WalkBudget(ENTRIES_MAX, RECORDS_MAX)
            found = {each for file in files for each in file.positions(hashes, state.start, budget)}
            records = _records(log, [each for each in sorted(found) if _within(covered, each[0])])
            return Keyed(covered, [each for each in records if each.topic in topics])
    except (IndexDoubtfulError, NoRecordError, OSError, DataLost, StoreUnreadable):
        return None


def _records(log: OpenLog, found: Sequence[tuple[int, int]]) -> list[KeyedRecord]:
    """The records at positions, each of which has to have a key of its hash."""
    records: dict[int, KeyedRecord] = {}
    for position, key in found:
        if position not in records:
            records[position] = read_keyed(log, position)
        if key not in records[position].hashes:
            raise IndexDoubtfulError(f"the message at {position} has no such key")
    return list(records.values())


def _vouching(state: StoreState, log: OpenLog, stack: ExitStack) -> tuple[int, list[KeyFile]]:
    """From where on the index has no gap, and the files that have it, each held against the log."""
    root = Path(state.store.queues_dir or state.store.log_dir).parent
    begin, count, slots, noted = _note(root)
    names = [name for name in disk.names(f"{root}/{INDEX}") if _is_index(name)]
    if noted not in names:
        raise IndexDoubtfulError("the file that was noted is not there")
    files: list[KeyFile] = []
    for name in names[: names.index(noted) + 1]:
        sums = read_sums(f"{root}/{INDEX_SUMS}/{name}")
        if sums is None or (name != noted and sums.count < sums.entries):
            continue  # RocketMQ has written it, or written on
        if sums.slots != slots:
            raise IndexDoubtfulError("a file of another shape than was noted")
        fd = disk.open_file(f"{root}/{INDEX}/{name}")
        stack.callback(disk.close, fd)
        file = KeyFile(fd, sums, count if name == noted else None)
        if file.empty or file.end_position < max(begin, state.start):
            continue
        file.hold_against(log, state.start)
        files.append(file)
    for earlier, later in pairwise(files):
        if later.begin_position < earlier.end_position or later.bytes != earlier.bytes:
            raise IndexDoubtfulError("files are not in the log's order, or of two shapes")
    return begin, files


def _note(root: Path) -> tuple[int, int, int, str]:
    """From where on, how many entries of the newest file, how many slots, and its name."""
    fd = disk.open_file(f"{root}/{INDEX_NOTE}")
    try:
        data = disk.read(fd, _NOTE.size + 1, 0)
    finally:
        disk.close(fd)
    if len(data) != _NOTE.size:
        raise IndexDoubtfulError("the note has another size")
    magic, begin, _, count, slots, name, crc = _NOTE.unpack(data)
    if magic != INDEX_NOTE_MAGIC or crc != zlib.crc32(data[:_CRC_AT]):
        raise IndexDoubtfulError("the note is damaged")
    return begin, count, slots, name.rstrip(b"\0").decode("ascii", "replace")


def _is_index(name: str) -> bool:
    return len(name) == _NAME_DIGITS and name.isascii() and name.isdigit()


def _covered(files: Sequence[KeyFile], begin: int, end: int) -> list[Span]:
    """The parts of the log of which the files have all keys, joined where they meet."""
    spans = [file.span for file in files]
    for earlier, later in pairwise(files):
        last, first = earlier.last, later.first
        assert last is not None, "it was held against the log"
        shared = first is not None and first.record.position == last.record.position
        if first is not None and shared and last.entries + first.entries == last.record.keys:
            spans.append((last.record.position, last.record.end))
    joined: list[Span] = []
    for low, high in sorted((max(low, begin), min(high, end)) for low, high in spans):
        if low >= high:
            continue
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


def _within(spans: Sequence[Span], position: int) -> bool:
    return any(low <= position < high for low, high in spans)
