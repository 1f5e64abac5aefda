"""The queue that a copy is made of, as log and entries have it at one moment."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.record import Record, decode_record
from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.records import key_of
from aerobee.storage.features.compaction.writing import Copy
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.queues.snapshot import QueueSnapshot
from aerobee.storage.reads.cold.fetching import NotFetchedError, fetch
from aerobee.storage.reads.cold.file_lookup import FileLookup
from aerobee.storage.reads.cold.request import ColdRequest

ENTRIES_AT_ONCE: Final = 2048
BYTES_AT_ONCE: Final = 4 << 20


class CopySource(msgspec.Struct, frozen=True):
    """One queue at one moment; a thread may keep it."""

    files: Files
    log: LogSnapshot
    queue: QueueSnapshot

    def record(self, offset: int) -> Record | None:
        """Return the record of an offset, None where it is gone or damaged; OSError of the disk."""
        lookup = FileLookup(self.files, self.log, Path(), self.queue.file_entries)
        position, size, _ = lookup.entries(self.queue).entry(offset)
        if not 0 < size < BLANK_SIZE or not self.log.holds(position, size):
            return None
        try:
            record = decode_record(lookup.read(position, size))
        except CorruptRecord:
            return None
        return record if record.queue_offset == offset else None

    def copies(self, begin: int, end: int) -> Iterator[tuple[Copy, str, bool]]:
        """Yield each message of some offsets as a copy has it, its key, and whether it has a body.

        Those without a key, and what is gone or damaged, are left out; OSError of the disk.
        """
        offset, end = max(begin, self.queue.min_offset), min(end, self.queue.max_offset)
        while offset < end:
            count = min(ENTRIES_AT_ONCE, end - offset)
            request = ColdRequest(
                self.log, self.queue, offset, count, count, BYTES_AT_ONCE, every=True
            )
            fetched = fetch(self.files, request)
            entries, at, found = fetched.run(offset, count)
            reached = offset + (found or count)
            for number in range(found):
                position, size, code = ENTRY.unpack_from(entries, at + number * ENTRY.size)
                try:
                    data = fetched.record(position, size)
                    record = decode_record(data) if data is not None else None
                except NotFetchedError:
                    reached = offset + max(number, 1)
                    break
                except CorruptRecord:
                    continue
                key = key_of(record.properties) if record is not None else None
                if record is not None and data is not None and key is not None:
                    copy = Copy(offset + number, code, record.store_timestamp, bytes(data))
                    if record.queue_offset == copy.offset:
                        yield copy, key, bool(record.body)
            offset = reached
