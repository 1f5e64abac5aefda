"""One index file, held against the log before anything in it is believed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.keyed_records import KeyedRecord, read_keyed
from aerobee.spark.at_rest.open_segment import OpenLog
from aerobee.storage.layout import INDEX_ENTRY_FIELDS, INDEX_HEADER_FIELDS

_HEADER: Final = INDEX_HEADER_FIELDS.run()
_SLOT: Final = struct.Struct(">i")
_ENTRY: Final = INDEX_ENTRY_FIELDS.run()


class IndexDoubtfulError(Exception):
    """An index does not agree with itself or the log, or does not say what is asked."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The first or the last message of a file, and how many of its keys the file has."""

    record: KeyedRecord
    entries: int

    @property
    def whole(self) -> bool:
        """Whether those are all."""
        return self.entries == self.record.keys


class WalkBudget:
    """How many entries and messages one look-up may take: chains are made by whoever sends."""

    def __init__(self, entries_max: int, records_max: int) -> None:
        self._entries = entries_max
        self._records = records_max

    def step(self) -> None:
        """Take an entry. Raises IndexDoubtfulError."""
        self._entries -= 1
        if self._entries < 0:
            raise IndexDoubtfulError("too many keys share their slots")

    def note(self) -> None:
        """Take a message. Raises IndexDoubtfulError."""
        self._records -= 1
        if self._records < 0:
            raise IndexDoubtfulError("too many messages have the key")


class KeyFile:
    """An open index file; entries before `count` are all in the log's order, and on the disk."""

    def __init__(self, fd: int, slots: int, noted_count: int | None) -> None:
        self._fd = fd
        self._slots = slots
        self.count: int
        self.begin_position: int
        self.end_position: int
        self.bytes = disk.size(fd)
        self._room, rest = divmod(self.bytes - _HEADER.size - _SLOT.size * slots, _ENTRY.size)
        head = disk.read(fd, _HEADER.size, 0)
        if slots <= 0 or self._room <= 0 or rest or len(head) < _HEADER.size:
            raise IndexDoubtfulError("a file of another shape than was noted")
        _, _, self.begin_position, self.end_position, _, self.count = _HEADER.unpack(head)
        if not 0 < self.count <= self._room:
            raise IndexDoubtfulError("a file's head has no count")
        if noted_count is not None:  # what came later may be changed meanwhile
            if not 0 < noted_count <= self.count:
                raise IndexDoubtfulError("a file has less than was noted")
            self.count = noted_count
            if not self.empty:
                self.end_position = self._entry(noted_count - 1)[1]
        self.first: Edge | None = None
        self.last: Edge | None = None

    @property
    def empty(self) -> bool:
        """Whether the file has no entry."""
        return self.count <= 1

    def hold_against(self, log: OpenLog, log_begin: int) -> None:
        """Compare what it begins and ends with with the log, as far as that is still there."""
        if self._entry(1)[1] != self.begin_position or self.begin_position > self.end_position:
            raise IndexDoubtfulError("a file begins with another entry than its head says")
        if self._entry(self.count - 1)[1] != self.end_position:
            raise IndexDoubtfulError("a file ends with another entry than its head says")
        self.last = self._edge(log, self.end_position, range(self.count - 1, 0, -1))
        if self.begin_position >= log_begin:
            self.first = self._edge(log, self.begin_position, range(1, self.count))

    def _edge(self, log: OpenLog, position: int, numbers: range) -> Edge:
        record, entries = read_keyed(log, position), 0
        for number in numbers[: record.keys + 1]:
            key, where, _, _ = self._entry(number)
            if where != position:
                break
            if key not in record.hashes:
                raise IndexDoubtfulError(f"the message at {position} has no such key")
            entries += 1
        return Edge(record, entries)

    @property
    def span(self) -> tuple[int, int]:
        """From where to where all keys of the log's messages are in this file alone."""
        assert self.last is not None, "it was held against the log"
        low, last = self.begin_position, self.last
        if self.first is not None and not self.first.whole:
            low = self.first.record.end
        return low, last.record.end if last.whole else last.record.position

    def positions(self, key: int, log_begin: int, budget: WalkBudget) -> Iterator[int]:
        """Where messages of a key's hash are; each entry is held against those around it."""
        slot = key % self._slots
        data = disk.read(self._fd, _SLOT.size, _HEADER.size + _SLOT.size * slot)
        if len(data) < _SLOT.size:
            raise IndexDoubtfulError("a file ends before its slots do")
        (number,) = _SLOT.unpack(data)
        newer, above = self._room, (1 << 63) - 1
        while number != 0:
            budget.step()
            if not 0 < number < newer:
                raise IndexDoubtfulError("a slot or an entry leads nowhere")
            its_key, position, _, previous = self._entry(number)
            if its_key < 0 or its_key % self._slots != slot:
                raise IndexDoubtfulError("an entry is in the chain of another slot")
            low = self.end_position if number >= self.count else self.begin_position
            high = above if number >= self.count else min(above, self.end_position)
            if not low <= position <= high:
                raise IndexDoubtfulError("entries are not in the log's order")
            if position < log_begin:
                return
            if its_key == key:
                budget.note()
                yield position
            newer, above, number = number, position, previous

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        at = _HEADER.size + _SLOT.size * self._slots + _ENTRY.size * number
        data = disk.read(self._fd, _ENTRY.size, at)
        if len(data) < _ENTRY.size:
            raise IndexDoubtfulError("a file ends before its entries do")
        key, position, seconds, previous = _ENTRY.unpack(data)
        return key, position, seconds, previous
