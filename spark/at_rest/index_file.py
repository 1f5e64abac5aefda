"""One index file, held against its check sums and the log before anything in it is believed."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from isal.isal_zlib import crc32

from aerobee.spark.at_rest import disk
from aerobee.spark.at_rest.key_sums import IndexDoubtfulError, KeySums
from aerobee.spark.at_rest.keyed_records import KeyedRecord, read_keyed
from aerobee.spark.at_rest.open_segment import OpenLog
from aerobee.storage.layout import (
    INDEX_ENTRY_FIELDS,
    INDEX_HEADER_FIELDS,
    INDEX_SUM_ENTRIES,
    INDEX_SUM_SLOTS,
)

_HEADER: Final = INDEX_HEADER_FIELDS.run()
_SLOT: Final = struct.Struct(">i")
_ENTRY: Final = INDEX_ENTRY_FIELDS.run()
_COLUMNS: Final = np.dtype(INDEX_ENTRY_FIELDS.columns())


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
    """An open index file, of which nothing is looked at that does not have its check sum.

    `noted_count` is of the newest file, which a broker may write: its entries before that number
    are on the disk, in the log's order, and stay; its slots are not looked at.
    """

    def __init__(self, fd: int, sums: KeySums, noted_count: int | None) -> None:
        self._fd = fd
        self._sums = sums
        self._block: tuple[int, bytes] = -1, b""
        self._grows = noted_count is not None
        self.bytes = disk.size(fd)
        self.count = sums.entries if noted_count is None else noted_count
        if self.bytes != _HEADER.size + _SLOT.size * sums.slots + _ENTRY.size * sums.entries:
            raise IndexDoubtfulError("a file of another shape than was noted")
        if not 0 < self.count <= sums.count:
            raise IndexDoubtfulError("a file has check sums for less than was noted")
        self.begin_position = self.end_position = 0
        if not self.empty:
            self.begin_position = self._entry(1)[1]
            self.end_position = self._entry(self.count - 1)[1]
            if self.begin_position > self.end_position:
                raise IndexDoubtfulError("entries are not in the log's order")
        self.first: Edge | None = None
        self.last: Edge | None = None

    @property
    def empty(self) -> bool:
        """Whether the file has no entry."""
        return self.count <= 1

    def hold_against(self, log: OpenLog, log_begin: int) -> None:
        """Compare what it begins and ends with with the log, as far as that is still there."""
        self.last = self._edge(log, self.end_position, range(self.count - 1, 0, -1))
        if self.begin_position >= log_begin:
            self.first = self._edge(log, self.begin_position, range(1, self.count))

    def _edge(self, log: OpenLog, position: int, numbers: range) -> Edge:
        record, entries = read_keyed(log, position), 0
        for number in numbers[: record.keys + 1]:
            key, where, _ = self._entry(number)
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

    def positions(
        self, keys: Collection[int], log_begin: int, budget: WalkBudget
    ) -> Iterator[tuple[int, int]]:
        """Where messages of keys' hashes are, and which hash that is."""
        if self._grows:
            yield from self._scan(keys, log_begin, budget)
            return
        for key in keys:
            yield from self._walk(key, log_begin, budget)

    def _walk(self, key: int, log_begin: int, budget: WalkBudget) -> Iterator[tuple[int, int]]:
        """Follow the chain of a slot; each entry leads to an older one of the same slot."""
        slots = self._sums.slots
        slot, newer = key % slots, self.count
        first = slot - slot % INDEX_SUM_SLOTS
        count = min(INDEX_SUM_SLOTS, slots - first)
        data = self._summed(
            _HEADER.size + _SLOT.size * first, _SLOT.size * count,
            self._sums.of_slots[first // INDEX_SUM_SLOTS],
        )  # fmt: skip
        (number,) = _SLOT.unpack_from(data, _SLOT.size * (slot - first))
        while number != 0:
            budget.step()
            if not 0 < number < newer:
                raise IndexDoubtfulError("a slot or an entry leads nowhere")
            its_key, position, previous = self._entry(number)
            if its_key < 0 or its_key % slots != slot:
                raise IndexDoubtfulError("an entry is in the chain of another slot")
            if position < log_begin:
                return
            if its_key == key:
                budget.note()
                yield position, key
            newer, number = number, previous

    def _scan(
        self, keys: Collection[int], log_begin: int, budget: WalkBudget
    ) -> Iterator[tuple[int, int]]:
        """Look at all entries."""
        wanted = np.array(sorted(keys), np.int64)
        for which in range(-(-self.count // INDEX_SUM_ENTRIES)):
            begin, block = self._entries(which)
            entries = np.frombuffer(block, _COLUMNS)[: max(0, self.count - begin)]
            found = np.isin(entries["key_hash"], wanted) & (entries["position"] >= log_begin)
            for each in entries[found]:
                budget.note()
                yield int(each["position"]), int(each["key_hash"])

    def _entry(self, number: int) -> tuple[int, int, int]:
        """Hash, position, and the number of the entry before it of its slot."""
        begin, block = self._entries(number // INDEX_SUM_ENTRIES)
        key, position, _, previous = _ENTRY.unpack_from(block, _ENTRY.size * (number - begin))
        return key, position, previous

    def _entries(self, which: int) -> tuple[int, bytes]:
        """The entries that have one check sum, and the number of the first of them."""
        begin = max(1, which * INDEX_SUM_ENTRIES)
        if self._block[0] != begin:
            end = min(self._sums.count, (which + 1) * INDEX_SUM_ENTRIES)
            at = _HEADER.size + _SLOT.size * self._sums.slots + _ENTRY.size * begin
            data = self._summed(at, _ENTRY.size * (end - begin), self._sums.of_entries[which])
            self._block = begin, data
        return self._block

    def _summed(self, at: int, count: int, wanted: int) -> bytes:
        data = disk.read(self._fd, count, at)
        if len(data) < count or crc32(data) != wanted:
            raise IndexDoubtfulError("a part of a file does not have its check sum")
        return data
