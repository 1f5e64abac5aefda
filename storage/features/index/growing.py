"""The index file that is written: its slots in memory, its entries in the file as they come."""

import mmap
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from isal.isal_zlib import crc32
from msgspec.structs import astuple

from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.choice import loops
from aerobee.storage.features.index.files import (
    SLOT_BYTES,
    IndexFile,
    IndexHeader,
    IndexShape,
    encode_header,
)
from aerobee.storage.features.index.slices import (
    BEGIN_MS,
    COUNT,
    COUNT_MAX,
    ENTRY,
    SLOT,
    SLOT_PAGE_SHIFT,
    SLOTS_USED,
    STATE_NUMBERS,
)
from aerobee.storage.features.index.sums import (
    SLOTS_BYTES,
    EntrySums,
    IndexSums,
    Numbers,
    sums_of_none,
    sums_of_slots,
    sums_or_none,
    write_sums,
)
from aerobee.storage.layout import INDEX_HEADER_FIELDS

Taken = tuple[int, int, int]
"""Where a loop ended, how many keys of the record there are done, and why it took no more."""
Outcome = TypeVar("Outcome")

ENTRIES_AT_ONCE: Final = 1 << 16
LINKED_AT_ONCE: Final = 1 << 16
_PAGE_BYTES: Final = SLOT_BYTES << SLOT_PAGE_SHIFT
assert _PAGE_BYTES == SLOTS_BYTES, "what is written again gets another sum"
_COPIED_AT_ONCE: Final = 1 << 20
_FLUSHED_AT_ONCE: Final = 128  # pages: a thread that copies for long keeps the CPU from others
_FLUSH_REST_S: Final = 0.0005
_LARGE_BYTES: Final = 4 << 20


class GrowingFile:
    """Entries are added by one thread, and looked up by others.

    The file is sparse: it has disk space for what was written alone, by `write`, so that a full
    disk is an OSError and nothing else. Where one is raised nothing was added. Slots and head come
    into the file with `flush`, its check sums with `sync`.
    """

    def __init__(self, files: Files, shape: IndexShape, header: IndexHeader) -> None:
        self._files = files
        self._shape = shape
        self._fd = -1
        self._lock = threading.Lock()  # a slot and the entries behind it are looked at as one
        pages = -(-shape.slots * SLOT_BYTES // _PAGE_BYTES)
        self._slots = _zeros(shape.slots * SLOT_BYTES)
        self._dirty = bytearray(pages)
        self._sums = EntrySums()
        self._slot_sums = sums_of_none(len(self._slots))
        self._entries = bytearray(min(ENTRIES_AT_ONCE, shape.entries) * ENTRY.size)
        self._state = array("q", [0] * STATE_NUMBERS)
        self._set_header(header)
        self.path: Path | None = None

    @property
    def header(self) -> IndexHeader:
        """What the file's head says, or will with the next `flush`."""
        return IndexHeader(*self._state[:COUNT_MAX])

    @property
    def count(self) -> int:
        """The number of the next entry."""
        return self._state[COUNT]

    @property
    def full(self) -> bool:
        """Whether no key has room any more."""
        return self._state[COUNT] >= self._state[COUNT_MAX]

    def create(self, path: Path) -> None:
        """Make the file, which has its size and no disk space yet."""
        self._files.make_directory(path.parent)
        fd = self._files.open(path, create=True)
        try:
            self._files.resize(fd, self._shape.file_bytes)
            self._files.write(fd, encode_header(self.header), 0)
            self._files.sync_directory(path.parent)
            self._files.sync_directory(path.parent.parent)
        except BaseException:
            self._files.close(fd)
            self._files.remove(path)
            raise
        self._fd, self.path = fd, path

    def open(self, path: Path) -> None:
        """Go on with a file whose head this was made with; `load` or `link` gives it slots."""
        self._fd, self.path = self._files.open(path), path

    def load(self) -> bool:
        """Take the slots from the file, as a clean stop has left them; False where they are not.

        Then `link` finds out what of it is sound. Entries are believed as their sums are, but for
        those of the last block, which others will follow.
        """
        known, count = self._known(), self.count
        if known is None or known.count != count or known.head != self._head_sum:
            return False
        for at, data in self._stretches(INDEX_HEADER_FIELDS.size, len(self._slots)):
            self._slots[at : at + len(data)] = data
        self._slot_sums = sums_of_slots(self._slots)
        self._sums = EntrySums.of(known)
        self._add_last_block(count)
        return bool(self._slot_sums == known.slots and self._sums.all() == known.entries)

    def link(self, count: int, log_end: int) -> bool:
        """Have slots lead to the entries before `count`, as far as they are sound, and no others.

        An entry is sound if it lies in the log, the entries before it agree, and its block has its
        sum, if there is one. Returns whether all are. Changes nothing in the file; the next `flush`
        writes what differs.
        """
        loop, entries_at, known = loops(), self._shape.entries_at, self._known()
        self._slots, self._sums = _zeros(len(self._slots)), EntrySums()
        self._slot_sums = sums_of_none(len(self._slots))
        number, position, used = 1, 0, 0
        while number < count:
            wanted = min(count, number - number % LINKED_AT_ONCE + LINKED_AT_ONCE) - number
            data = self._read(entries_at + number * ENTRY.size, wanted * ENTRY.size)
            trusted = known.sound(data, number) if known is not None else wanted
            sound, position, filled = loop.link_entries(
                data[: trusted * ENTRY.size], number, log_end, position, self._slots
            )
            self._sums.add(data[: sound * ENTRY.size])
            number, used = number + sound, used + filled
            if sound < wanted:
                break
        self._state[COUNT], self._state[SLOTS_USED] = number, used
        self._set_ends()
        self._mark_what_differs()
        return number >= count

    def began(self, stored_ms: int | None) -> None:
        """Have the file begin at the time at which its first message was stored, where known."""
        if stored_ms is not None and self.count > 1:
            self._state[BEGIN_MS] = stored_ms

    def cut_message(self) -> int:
        """Take away all entries of the last message, to index it again; return its position."""
        at, position = self._shape.entries_at, self.header.end_position
        while (number := self._state[COUNT] - 1) > 0:
            data = self._read(at + number * ENTRY.size, ENTRY.size)
            if ENTRY.unpack(data)[1] != position:
                break
            self._state[SLOTS_USED] -= loops().unlink_entries(data, self._slots)
            self._state[COUNT] = number
        self._add_last_block(self.count)
        self._set_ends()
        return position

    def add(self, take: Callable[[Any, Any, Any, Any], Outcome]) -> Outcome:
        """Have `take` add entries, given slots, dirty pages, room for entries and the state.

        OSError: there is no room for them in the file; then it is as it was.
        """
        with self._lock:
            before = self._state[:]
            first = before[COUNT]
            taken = take(self._slots, self._dirty, self._entries, self._state)
            count = self._state[COUNT] - first
            if not count:
                return taken
            data = memoryview(self._entries)[: count * ENTRY.size]
            try:
                self._write(data, self._shape.entries_at + first * ENTRY.size)
            except BaseException:
                loops().unlink_entries(data, self._slots)
                self._state[:] = before
                raise
            self._sums.add(data)
            return taken

    def flush(self) -> None:
        """Write slots that have changed, and the head; the system has them then."""
        if self._fd < 0:
            return
        begin = self._dirty.find(1)
        while begin >= 0:
            end = self._dirty.find(0, begin)
            end = len(self._dirty) if end < 0 else end
            if end - begin > _FLUSHED_AT_ONCE:
                end = begin + _FLUSHED_AT_ONCE
                time.sleep(_FLUSH_REST_S)
            with memoryview(self._slots) as slots:
                data = slots[begin * _PAGE_BYTES : end * _PAGE_BYTES]
                self._write(data, INDEX_HEADER_FIELDS.size + begin * _PAGE_BYTES)
                self._slot_sums[begin:end] = sums_of_slots(data)
                data.release()
            self._dirty[begin:end] = bytes(end - begin)
            begin = self._dirty.find(1, end)
        self._write(encode_header(self.header), 0)

    def sync(self) -> None:
        """Return when the disk has all of it, and its sums."""
        self.flush()
        if self._fd >= 0:
            self._files.sync(self._fd)
            assert self.path is not None, "it is open"
            sums = IndexSums(self.count, self._head_sum, self._slot_sums, self._sums.all())
            write_sums(self._files, self.path, self._shape, sums)

    def newest(self, key_hash: int) -> tuple[int, IndexHeader, Numbers]:
        """Return the number of the newest entry of a hash's slot, 0 for none; head, and sums."""
        with self._lock:
            at = key_hash % self._shape.slots * SLOT.size
            return SLOT.unpack_from(self._slots, at)[0], self.header, self._sums.all()

    def sealed(self) -> IndexFile:
        """Return it as a file that is not written any more."""
        assert self.path is not None, "it has entries"
        return IndexFile(self.path, self.header)

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._files.close(fd)

    @property
    def _head_sum(self) -> int:
        return crc32(encode_header(self.header))

    def _known(self) -> IndexSums | None:
        """Return the sums that the last one who wrote the file has left."""
        return None if self.path is None else sums_or_none(self._files, self.path, self._shape)

    def _add_last_block(self, count: int) -> None:
        """Sum the entries of the block that others will follow."""
        begin = self._sums.cut(count)
        at, size = self._shape.entries_at + begin * ENTRY.size, (count - begin) * ENTRY.size
        self._sums.add(self._read(at, size))

    def _set_header(self, header: IndexHeader) -> None:
        entries = self._shape.entries
        numbers = *astuple(header)[:-1], min(header.count, entries), entries
        self._state[:] = array("q", numbers)

    def _set_ends(self) -> None:
        """Have times and position of the last message be those of the last entry."""
        header = self.header
        if header.empty:
            return
        at = self._shape.entries_at
        _, begin, _, _ = ENTRY.unpack(self._read(at + ENTRY.size, ENTRY.size))
        data = self._read(at + (header.count - 1) * ENTRY.size, ENTRY.size)
        _, end, seconds, _ = ENTRY.unpack(data)
        end_ms = header.end_ms
        if header.end_position != end:  # the exact time is in the log, and comes with the next key
            end_ms = self._state[BEGIN_MS] + max(0, seconds) * 1000
        self._set_header(
            IndexHeader(header.begin_ms, end_ms, begin, end, header.slots_used, header.count)
        )

    def _mark_what_differs(self) -> None:
        """Have all pages of slots written that are not empty, here or in the file."""
        for at, data in self._stretches(INDEX_HEADER_FIELDS.size, len(self._slots)):
            here = self._slots[at : at + len(data)]
            for page in range(0, len(data), _PAGE_BYTES):
                pair = here[page : page + _PAGE_BYTES], data[page : page + _PAGE_BYTES]
                used = any(each.count(0) != len(each) for each in pair)
                self._dirty[(at + page) // _PAGE_BYTES] = used

    def _stretches(self, begin: int, length: int) -> Iterator[tuple[int, bytes]]:
        """Yield what the file has from a place on, with where it stands from there."""
        for at in range(0, length, _COPIED_AT_ONCE):
            count = min(_COPIED_AT_ONCE, length - at)
            yield at, self._read(begin + at, count)

    def _read(self, at: int, count: int) -> bytes:
        return self._files.read(self._fd, count, at).ljust(count, b"\0")

    def _write(self, data: bytes | memoryview, at: int) -> None:
        assert self._fd >= 0, "the file was made before entries come"
        self._files.write(self._fd, data, at)


def _zeros(count: int) -> mmap.mmap:
    """Return memory that is taken by need, in large pages where the system has them.

    Each key's slot is somewhere else in it, and to find the page costs as much as to read it.
    """
    made = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE") and count >= _LARGE_BYTES:
        with suppress(OSError):  # a kernel without them
            made.madvise(mmap.MADV_HUGEPAGE)
    return made
