"""A key to messages: the chains of index files followed, and what they lead to held against it."""

import time
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from isal.isal_zlib import crc32

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import RECORD_BYTES_MIN
from aerobee.remoting.message.record import BLANK, decode_record
from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.choice import loops
from aerobee.storage.features.index.files import (
    IndexFile,
    IndexHeader,
    IndexShape,
    encode_header,
)
from aerobee.storage.features.index.growing import GrowingFile
from aerobee.storage.features.index.keys import IndexType, has_key, index_hash, key_text
from aerobee.storage.features.index.slices import SLOP_MS, SLOT
from aerobee.storage.features.index.sums import (
    DamagedIndexError,
    IndexSums,
    Numbers,
    read_sums,
)
from aerobee.storage.layout import INDEX_HEADER_FIELDS, INDEX_SUM_SLOTS

ENTRIES_AT_ONCE: Final = 4096
POSITIONS_AT_ONCE: Final = 64

_NO_SUMS: Final = array("I")

IndexFiles = Sequence[GrowingFile | IndexFile]


class Question(msgspec.Struct, frozen=True):
    """Messages of a topic with a key, stored between two times (ms), the newest so many.

    What lies before `begin_position` in the log is not shown any more.
    """

    topic: str
    key: str
    kind: IndexType = "K"
    earliest_ms: int = 0
    latest_ms: int = (1 << 63) - 1
    messages_max: int = 32
    begin_position: int = 0


class LookupBudget:
    """What one question may cost: chains and collisions are made by whoever sends messages.

    Its seconds are those of its slices; it has as many as it needs.
    """

    def __init__(
        self,
        entries_max: int = 1 << 20,
        bytes_max: int = 64 << 20,
        seconds_max: float = 2.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.entries = entries_max
        self.bytes = bytes_max
        self._seconds = seconds_max
        self._clock_s = clock_s
        self._began_s = clock_s()
        self.spent = False  # something was left out

    def begin_slice(self) -> None:
        """Begin to count time."""
        self._began_s = self._clock_s()

    def end_slice(self) -> None:
        """Count no time until the next slice."""
        self._seconds -= self._clock_s() - self._began_s

    def is_over(self, slice_s: float) -> bool:
        """Whether a slice has lasted so long."""
        return self._clock_s() - self._began_s >= slice_s

    def left(self) -> bool:
        """Whether more may be looked at; once it is not, the answer may lack something."""
        if self.entries <= 0 or self.bytes <= 0 or self.is_over(self._seconds):
            self.spent = True
        return not self.spent


class KeyLookup:
    """One question, looked up in slices, so that others have their turns between them.

    The newest come first where there are more than it asks for, or than the reply may have bytes.
    Each is held against the key, so that one of equal hash takes nobody's place. Between slices it
    holds no record. `found` is what `positions` yields.
    """

    def __init__(
        self,
        found: Iterator[int | None],
        question: Question,
        budget: LookupBudget,
        reply_bytes_max: int,
    ) -> None:
        self._positions = found
        self._question = question
        self._budget = budget
        self._reply_bytes_max = reply_bytes_max
        self._sizes: dict[int, int] = {}
        self._held: dict[int, bytes] = {}
        self._total = 0

    def go_on(self, read: Callable[[int, int], bytes], slice_s: float) -> list[bytes] | None:
        """Look for some time; return the records in the order of the log, None for not yet.

        `read` copies so many bytes of the log from a position on. Raises OSError where the disk
        refuses.
        """
        self._budget.begin_slice()
        try:
            for position in self._positions:
                if position is not None and self._take(read, position):
                    break
                if self._budget.is_over(slice_s):
                    self._held.clear()
                    return None
        finally:
            self._budget.end_slice()
        return list(self._read_all(read))

    def _take(self, read: Callable[[int, int], bytes], position: int) -> bool:
        """Look at one record; return whether that was the last one that is wanted."""
        if position in self._sizes or position < self._question.begin_position:
            return False
        record = _record(read, position, self._question, self._budget)
        if record is None:
            return False
        if self._sizes and self._total + len(record) > self._reply_bytes_max:
            return True
        self._sizes[position], self._held[position] = len(record), record
        self._total += len(record)
        return len(self._sizes) >= self._question.messages_max

    def _read_all(self, read: Callable[[int, int], bytes]) -> Iterator[bytes]:
        for position, size in sorted(self._sizes.items()):
            record = self._held.get(position) or read(position, size)
            if len(record) == size:  # else retention was quicker
                yield record


def positions(
    files: Files, shape: IndexShape, index: IndexFiles, question: Question, budget: LookupBudget
) -> Iterator[int | None]:
    """Yield the positions that the index has for a key's hash and the times, the newest first.

    None comes between them, where much was looked at for nothing. Others of equal hash are among
    them, and what the log has lost; some may come twice. Files that were removed meanwhile are
    passed over. Raises OSError where the disk refuses, and DamagedIndexError where some may be
    missing: what was looked at is not what was written. A file without check sums is believed.
    """
    key_hash = index_hash(key_text(question.topic, question.key, question.kind))
    for file in index:
        if not budget.left():
            return
        if file.path is None:
            continue
        try:
            fd = files.open(file.path, write=False)
        except FileNotFoundError:
            continue
        try:
            if isinstance(file, GrowingFile):
                number, header, sums = file.newest(key_hash)
            else:
                header, of_file = file.header, _sums(files, file, shape)
                number = _slot(files, fd, file.path, shape, key_hash, of_file)
                sums = of_file.entries if of_file is not None else _NO_SUMS
            if _meets(header, question):
                chain = _chain(fd, shape, number, header, key_hash, question, budget, sums)
                if not (yield from chain):
                    raise DamagedIndexError(_damaged(file.path))
        finally:
            files.close(fd)


def _meets(header: IndexHeader, question: Question) -> bool:
    """Whether a file's time meets that of a question."""
    return (
        not header.empty
        and header.end_ms >= question.earliest_ms - SLOP_MS
        and header.begin_ms <= question.latest_ms
    )


def _sums(files: Files, file: IndexFile, shape: IndexShape) -> IndexSums | None:
    """Return the sums of a file that is not written any more, and hold its head against them.

    Of a file that was not full when its writer was killed they may be older than the file.
    """
    sums = read_sums(files, file.path, shape)
    if sums is None or (sums.count < shape.entries and sums.count != file.header.count):
        return None
    if sums.head != crc32(encode_header(file.header)):
        raise DamagedIndexError(_damaged(file.path))
    return sums


def _slot(
    files: Files, fd: int, path: Path, shape: IndexShape, key_hash: int, sums: IndexSums | None
) -> int:
    """Return the number that the slot of a hash has."""
    number = key_hash % shape.slots
    first = number - number % INDEX_SUM_SLOTS
    count = min(INDEX_SUM_SLOTS, shape.slots - first)
    data = files.read(fd, count * SLOT.size, INDEX_HEADER_FIELDS.size + first * SLOT.size)
    if sums is not None and sums.slots[first // INDEX_SUM_SLOTS] != crc32(data):
        raise DamagedIndexError(_damaged(path))
    at = (number - first) * SLOT.size
    return int(SLOT.unpack_from(data, at)[0]) if len(data) >= at + SLOT.size else 0


def _damaged(path: Path) -> str:
    return (
        f"the index of keys is damaged: {path} does not agree with its check sums, and messages"
        " may be missing; stop the broker and have `repair` make it anew"
    )


def _chain(
    fd: int,
    shape: IndexShape,
    number: int,
    header: IndexHeader,
    key_hash: int,
    question: Question,
    budget: LookupBudget,
    sums: Numbers,
) -> Generator[int | None, None, bool]:
    """Yield what a chain has; return whether all of it is sound."""
    noted = array("q", [0] * min(POSITIONS_AT_ONCE, max(1, question.messages_max)))
    while number > 0 and budget.left():
        count, number, walked, sound = loops().follow_chain(
            fd, shape.entries_at, number, header.count, key_hash, header.begin_ms,
            max(-(1 << 62), question.earliest_ms), min(1 << 62, question.latest_ms),
            min(ENTRIES_AT_ONCE, budget.entries), noted, sums,
        )  # fmt: skip
        budget.entries -= max(1, walked)
        yield from noted[:count]
        yield None
        if not sound:
            return False
        if not walked:
            return not len(sums)  # else a slot leads to what is no entry
    return True


def _record(
    read: Callable[[int, int], bytes], position: int, question: Question, budget: LookupBudget
) -> bytes | None:
    """Return the record at a position if it is sound and has the key."""
    head = read(position, RECORD_BYTES_MIN)
    if len(head) < RECORD_BYTES_MIN:
        return None
    size, _ = BLANK.unpack_from(head)
    if size < RECORD_BYTES_MIN or size > budget.bytes:
        budget.bytes -= len(head)
        return None
    data = read(position, size)
    budget.bytes -= size
    try:
        record = decode_record(data)
    except CorruptRecord:
        return None
    if record.position != position or record.topic != question.topic:
        return None
    return data if has_key(record.properties, question.key, question.kind) else None
