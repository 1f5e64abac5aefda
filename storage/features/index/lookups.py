"""A key to messages: the chains of index files followed, and what they lead to held against it."""

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import RECORD_BYTES_MIN
from aerobee.remoting.message.record import BLANK, decode_record
from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.choice import loops
from aerobee.storage.features.index.files import IndexFile, IndexHeader, IndexShape
from aerobee.storage.features.index.growing import GrowingFile
from aerobee.storage.features.index.keys import IndexType, has_key, index_hash, key_text
from aerobee.storage.features.index.slices import SLOP_MS, SLOT
from aerobee.storage.layout import INDEX_HEADER_FIELDS

ENTRIES_AT_ONCE: Final = 4096
POSITIONS_AT_ONCE: Final = 64

IndexFiles = Sequence[GrowingFile | IndexFile]


class Question(msgspec.Struct, frozen=True):
    """Messages of a topic with a key, stored between two times (ms), the newest so many."""

    topic: str
    key: str
    kind: IndexType = "K"
    earliest_ms: int = 0
    latest_ms: int = (1 << 63) - 1
    messages_max: int = 32


class LookupBudget:
    """What one question may cost: chains and collisions are made by whoever sends messages."""

    def __init__(
        self,
        entries_max: int = 1 << 20,
        bytes_max: int = 64 << 20,
        seconds_max: float = 2.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.entries = entries_max
        self.bytes = bytes_max
        self._clock_s = clock_s
        self._until_s = clock_s() + seconds_max
        self.spent = False  # something was left out

    def left(self) -> bool:
        """Whether more may be looked at; once it is not, the answer may lack something."""
        if self.entries <= 0 or self.bytes <= 0 or self._clock_s() > self._until_s:
            self.spent = True
        return not self.spent


def find_records(
    files: Files,
    shape: IndexShape,
    index: IndexFiles,
    read: Callable[[int, int], bytes],
    question: Question,
    budget: LookupBudget,
    reply_bytes_max: int,
) -> list[bytes]:
    """Return the records that a question is about, in the order of the log.

    The newest come first where there are more than it asks for, or than the reply may have bytes.
    Each is held against the key, so that one of equal hash takes nobody's place.
    """
    found: dict[int, bytes] = {}
    total = 0
    for position in positions(files, shape, index, question, budget):
        if position in found:
            continue
        record = _record(read, position, question, budget)
        if record is None:
            continue
        if found and total + len(record) > reply_bytes_max:
            break
        found[position] = record
        total += len(record)
        if len(found) >= question.messages_max:
            break
    return [found[position] for position in sorted(found)]


def positions(
    files: Files, shape: IndexShape, index: IndexFiles, question: Question, budget: LookupBudget
) -> Iterator[int]:
    """Yield the positions that the index has for a key's hash and the times, the newest first.

    Others of equal hash are among them, and what the log has lost; some may come twice. Files that
    were removed meanwhile are passed over. Raises OSError where the disk refuses.
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
                number, header = file.newest(key_hash)
            else:
                number, header = _slot(files, fd, shape, key_hash), file.header
            if _meets(header, question):
                yield from _chain(fd, shape, number, header, key_hash, question, budget)
        finally:
            files.close(fd)


def _meets(header: IndexHeader, question: Question) -> bool:
    """Whether a file's time meets that of a question."""
    return (
        not header.empty
        and header.end_ms >= question.earliest_ms - SLOP_MS
        and header.begin_ms <= question.latest_ms
    )


def _slot(files: Files, fd: int, shape: IndexShape, key_hash: int) -> int:
    at = INDEX_HEADER_FIELDS.size + key_hash % shape.slots * SLOT.size
    data = files.read(fd, SLOT.size, at)
    return int(SLOT.unpack(data)[0]) if len(data) == SLOT.size else 0


def _chain(
    fd: int,
    shape: IndexShape,
    number: int,
    header: IndexHeader,
    key_hash: int,
    question: Question,
    budget: LookupBudget,
) -> Iterator[int]:
    noted = array("q", [0] * min(POSITIONS_AT_ONCE, max(1, question.messages_max)))
    while number > 0 and budget.left():
        count, number, walked, readable = loops().follow_chain(
            fd, shape.entries_at, number, header.count, key_hash, header.begin_ms,
            max(-(1 << 62), question.earliest_ms), min(1 << 62, question.latest_ms),
            min(ENTRIES_AT_ONCE, budget.entries), noted,
        )  # fmt: skip
        budget.entries -= max(1, walked)
        yield from noted[:count]
        if not readable or not walked:
            return


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
