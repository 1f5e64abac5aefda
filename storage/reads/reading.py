"""Reads messages for consumers: one queue, from an offset on, within limits, perhaps filtered."""

import mmap
import struct
from collections.abc import Iterable
from contextlib import suppress
from operator import add
from typing import Final, Protocol, TypeAlias

from aerobee.remoting.message.layout import BLANK_SIZE, ENTRY_FIELDS
from aerobee.storage.disk.residency import Copied, Resident, copied_bytes, everything_is
from aerobee.storage.layout import ENTRY_BYTES
from aerobee.storage.log.commit_log import CommitLog
from aerobee.storage.log.heads import are_records
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.reads.batched import gather_batched
from aerobee.storage.reads.cold.fetching import Fetched, NotFetchedError
from aerobee.storage.reads.cold.request import ColdRead, ColdRequest
from aerobee.storage.reads.cold.warm_log import WarmLog
from aerobee.storage.reads.gathered import Gathered, Log
from aerobee.storage.reads.misreads import Misreads
from aerobee.storage.reads.results import Accept, ReadResult, ReadStatus
from aerobee.storage.settings import StoreSettings

TagHashes: TypeAlias = frozenset[int]
_Run: TypeAlias = tuple[mmap.mmap | bytearray | bytes, int, int]  # entries, place, how many


class Gather(Protocol):
    """Copies the wanted records of a run of entries: a faster way to do what is done here.

    Entry 0 is at byte `at` of `entries`; `file` is the log from position `base` on, of which what
    is before position `end` may be read. Limits and `wanted` are those of Reader.read. Returns the
    records, how many they are, and how many entries need not be looked at again; None where any of
    them is not wholly within the file, or not what its entry says, or for no reason at all. The
    records end before one that lies below position `hot` and is not in memory.
    """

    def __call__(
        self,
        entries: mmap.mmap | bytearray | bytes,
        at: int,
        count: int,
        file: memoryview,
        base: int,
        end: int,
        messages_max: int,
        bytes_max: int,
        wanted: TagHashes | None,
        hot: int,
        /,
    ) -> tuple[bytes, int, int] | None:
        """Copy; see the class."""


READ_BYTES_LEAST: Final = 100  # a smaller request counts as this
READ_BYTES_MAX: Final = 128 << 20
LOOK_BYTES: Final = 64 * 1024  # that are to be in memory where one record is looked at
SCAN_BY_HAND: Final = 64  # entries that are filtered without numpy

_STRUCTS: Final[dict[int, struct.Struct]] = {}


_FOUND: Final = ReadStatus.FOUND  # to look at the enumeration takes a quarter of a microsecond


class Reader:
    """Reads committed records; the caller commits first, so that queue entries never run ahead."""

    def __init__(self, commit_log: CommitLog, settings: StoreSettings, memory_bytes: int) -> None:
        self._log = commit_log
        self._settings = settings
        self._memory_bytes = memory_bytes
        self._cached_bytes = int(memory_bytes * settings.memory_ratio)
        self.misreads = Misreads()
        self.use(everything_is)

    def use(self, resident: Resident, copied: Copied = copied_bytes) -> None:
        """Touch only memory that `resident` speaks of; without, reads wait for the disk.

        What has been synced is taken out of it with `copied` alone.
        """
        self._resident = resident
        self._copied = copied
        self._warm = WarmLog(self._log, resident, copied)

    def apply(self, settings: StoreSettings) -> None:
        """Take limits that were changed while the store is open."""
        self._settings = settings
        self._cached_bytes = int(self._memory_bytes * settings.memory_ratio)

    def read(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        messages_max: int,
        bytes_max: int,
        wanted: TagHashes | None = None,
        accept: Accept | None = None,
        gather: Gather | None = None,
        fetched: Fetched | None = None,
    ) -> ReadResult:
        """Read at least one message if there is one; see DefaultMessageStore.getMessage.

        `wanted` are the tags codes to look for, None for all; `accept` decides by the record. The
        result never spans two queue files, and scans at most `filter_scan_bytes` of entries.
        `gather` is asked first, unless `accept` is given; it changes nothing but the speed.

        A read ends before bytes that are not in memory, and raises ColdRead if that is where it
        begins. Done again with what was `fetched` for that, it finds what it would have found;
        FileNotFoundError says that a file is lost which nobody has removed.
        """
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high, messages_max = queue.min_offset, queue.max_offset, max(1, messages_max)
        if low < high and low <= offset < high:
            bytes_max = min(max(bytes_max, READ_BYTES_LEAST), READ_BYTES_MAX)
            everything = wanted is None and accept is None
            scan = max(self._settings.filter_scan_bytes // ENTRY_BYTES, messages_max)
            count_max = min(messages_max, 256) if everything else scan
            log: Log = fetched or self._warm
            run = fetched.run(offset, count_max) if fetched else self._run(queue, offset, count_max)
            if fetched is not None:
                fetched.check_files(queue.directory, offset, self._log.begin)
            if not run[2]:
                limits = self._limits(self._log.position, messages_max, bytes_max)
                raise ColdRead(self._request(queue, offset, count_max, limits, wanted, accept))
            if queue.batched:
                limits = messages_max, bytes_max
                return self._read_batched(log, queue, offset, run, limits, wanted, accept)
            first = _POSITION.unpack_from(*run[:2])[0]
            limits = self._limits(first, messages_max, bytes_max)
            if gather is not None and accept is None:
                file = log.file_at(first)
                found = gather(*run, *file, *limits, wanted, log.hot) if file is not None else None
                if found is not None:
                    records, count, looked = found
                    if not looked:
                        raise ColdRead(self._request(queue, offset, run[2], limits, wanted, accept))
                    return ReadResult(
                        _FOUND if count else ReadStatus.NO_MATCHED_MESSAGE, offset + looked, low,
                        high, [records] if count else [], count, len(records),
                    )  # fmt: skip
            if everything:
                result = self._read_all(log, queue, offset, run, limits)
            else:
                result = self._read_some(log, queue, offset, run, limits, wanted, accept)
            if result is None:  # its first record is not in memory
                raise ColdRead(self._request(queue, offset, run[2], limits, wanted, accept))
            return result
        return _outside(offset, low, high)

    def in_memory(self, position: int) -> bool:
        """Whether a record is so recent that it counts as cached."""
        return self._log.position - position <= self._cached_bytes

    def position_of(self, queue: ConsumeQueue, offset: int) -> int | None:
        """Return where the message of an offset is; None where the disk does not say so.

        It may wait for the disk, for one page.
        """
        data = self._copied(*queue.run(offset, 1)[:2], _POSITION.size)
        return None if data is None else int.from_bytes(data, "big", signed=True)

    def position_in_memory(self, queue: ConsumeQueue, offset: int) -> int | None:
        """Return where the message of an offset is, without the disk; None: only that would know.

        OSError or ValueError for a file that is lost or cut.
        """
        run = self._run(queue, offset, 1)
        return _POSITION.unpack_from(*run[:2])[0] if run[2] else None

    def is_warm(self, position: int) -> bool:
        """Whether the record at a position, if there is one, is in memory."""
        file = self._log.file_at(position)
        if file is None or position >= file[2]:
            return True  # there is nothing to read
        view, at, most = file[0], position - file[1], file[2] - position
        if not self._warm.is_warm(view, at, min(LOOK_BYTES, most), position):
            return False
        head = self._copied(view, at, min(4, most)) or b""
        size = min(int.from_bytes(head, "big"), most, self._settings.message_bytes_max + LOOK_BYTES)
        return size <= LOOK_BYTES or self._warm.is_warm(view, at, size, position)

    def cold_request(self, queue: ConsumeQueue, offset: int, *, record: bool) -> ColdRequest | None:
        """Return what to fetch before an entry, or also its record, is looked at; None: nothing."""
        buffer, at, count = self._run(queue, offset, 1)
        if count and record:
            try:
                self._warm.record(*_PLACE.unpack_from(buffer, at))
            except NotFetchedError:
                count = 0
        if count:
            return None
        limits = self._limits(self._log.position, SCAN_BY_HAND, READ_BYTES_MAX)
        return self._request(queue, offset, SCAN_BY_HAND, limits, None, None)

    def _limits(self, position: int, messages_max: int, bytes_max: int) -> tuple[int, int]:
        """Cut the wishes down to what memory, or the disk, may give in one reply."""
        settings = self._settings
        if self.in_memory(position):
            return (
                min(messages_max, settings.transfer_count_memory),
                min(bytes_max, settings.transfer_bytes_memory),
            )
        return (
            min(messages_max, settings.transfer_count_disk),
            min(bytes_max, settings.transfer_bytes_disk),
        )

    def _run(self, queue: ConsumeQueue, offset: int, count: int) -> _Run:
        """Return entries as far as they are in memory; the newest, not synced yet, always are."""
        buffer, at, count = queue.run(offset, count)
        if offset < queue.base and (offset < queue.flushed_offset or not self._log.writable):
            count = self._resident(buffer, at, count * ENTRY_BYTES) // ENTRY_BYTES
            copied = self._copied(buffer, at, count * ENTRY_BYTES)
            return (b"", 0, 0) if copied is None else (copied, 0, count)
        return buffer, at, count

    def _request(
        self,
        queue: ConsumeQueue,
        offset: int,
        count: int,
        limits: tuple[int, int],
        wanted: TagHashes | None,
        accept: Accept | None,
    ) -> ColdRequest:
        log, files = self._log.snapshot(), queue.snapshot()
        count = min(count, queue.max_offset - offset)
        return ColdRequest(log, files, offset, count, *limits, wanted, accept is not None)

    def _read_all(
        self, log: Log, queue: ConsumeQueue, offset: int, run: _Run, limits: tuple[int, int]
    ) -> ReadResult | None:
        buffer, at, count = run
        messages_max, bytes_max = limits
        count = min(count, messages_max)
        entries = (_STRUCTS.get(count) or _struct(count)).unpack_from(buffer, at)
        places, sizes = entries[::3], entries[1::3]
        ends = tuple(map(add, places, sizes))
        total, first = sum(sizes), places[0]
        if total <= bytes_max and min(sizes) > 0 and ends[:-1] == places[1:]:
            with suppress(NotFetchedError):  # side by side, in this order
                view = log.view(first, total)
                if view is not None and are_records(view, places, sizes):
                    return ReadResult(
                        _FOUND, offset + count, queue.min_offset, queue.max_offset, [view],
                        count, total,
                    )  # fmt: skip
        gathered = Gathered(log, messages_max, bytes_max)
        for index in range(count):
            if not gathered.add(places[index], sizes[index], None):
                if not index and gathered.cold:
                    return None
                count = index
                break
        return self._result(gathered, queue, offset, count, run)

    def _read_some(
        self,
        log: Log,
        queue: ConsumeQueue,
        offset: int,
        run: _Run,
        limits: tuple[int, int],
        wanted: TagHashes | None,
        accept: Accept | None,
    ) -> ReadResult | None:
        buffer, at, count = run
        gathered = Gathered(log, *limits)
        done = 0
        while done < count:
            block = min(count - done, SCAN_BY_HAND if done == 0 else count)
            hits: Iterable[int] = range(block)
            if wanted is None:
                pass
            elif done == 0:
                tags = (_STRUCTS.get(block) or _struct(block)).unpack_from(buffer, at)[2::3]
                hits = [i for i, tag in enumerate(tags) if tag in wanted]
            else:
                from aerobee.storage.queues.bulk_check import matching  # numpy costs 100 ms

                hits = matching(buffer, at + done * ENTRY_BYTES, block, wanted)
            for index in hits:
                place = at + (done + index) * ENTRY_BYTES
                position, size = _PLACE.unpack_from(buffer, place)
                if not gathered.add(position, size, accept):
                    if gathered.cold and not done + index:
                        return None
                    return self._result(gathered, queue, offset, done + index, run)
            done += block
        return self._result(gathered, queue, offset, count, run)

    def _read_batched(
        self,
        log: Log,
        queue: ConsumeQueue,
        offset: int,
        run: _Run,
        limits: tuple[int, int],
        wanted: TagHashes | None,
        accept: Accept | None,
    ) -> ReadResult:
        """Read from a queue whose messages may share a record; each record comes once."""
        limits = self._limits(_POSITION.unpack_from(*run[:2])[0], *limits)
        gathered = Gathered(log, *limits)
        found = gather_batched(gathered, queue, offset, run, wanted, accept)
        if found is None:
            raise ColdRead(self._request(queue, offset, run[2], limits, wanted, accept))
        result = self._result(gathered, queue, offset, found[0], run)
        result.next_offset = found[1]
        return result

    def _result(
        self, gathered: Gathered, queue: ConsumeQueue, offset: int, looked: int, run: _Run
    ) -> ReadResult:
        """Return what was found behind so many entries; what the log should have had is noted."""
        if missed := gathered.missed:
            begin, damage, places, seen = self._log.begin, self._log.damage, [], False
            for index in range(looked):
                position, size = _PLACE.unpack_from(run[0], run[1] + index * ENTRY_BYTES)
                removed = 0 <= position < begin and not seen  # what was before it was, too
                seen = not removed
                known = damage is not None and damage.touches(position, position + max(1, size))
                if position in missed and not removed and not known and size != BLANK_SIZE:
                    places.append((offset + index, position))
            self.misreads.note(queue, places)
        return gathered.result(queue, offset + looked)


def _outside(offset: int, low: int, high: int) -> ReadResult:
    """Say where a queue has messages, to who asks for an offset at which it has none."""
    if high == 0:
        return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if offset < low:
        return ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high)
    if offset == high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
    return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, high, low, high)


_POSITION: Final = struct.Struct(">q")
_PLACE: Final = ENTRY_FIELDS.run("position", "size")


def _struct(count: int) -> struct.Struct:
    """Return the struct that unpacks `count` entries at once; at most a few hundred exist."""
    found = _STRUCTS[count] = struct.Struct(">" + ENTRY_FIELDS.run().format[1:] * count)
    return found
