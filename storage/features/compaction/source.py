"""The queue that a copy is made of, as log and entries have it at one moment."""

from pathlib import Path

import msgspec

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.record import Record, decode_record
from aerobee.storage.disk.files import Files
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.queues.snapshot import QueueSnapshot
from aerobee.storage.reads.cold.file_lookup import FileLookup


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
