"""A queue's entries, for readers that have neither its memory nor maps of its files."""

from pathlib import Path

import msgspec

from aerobee.storage.layout import ENTRY_BYTES


class QueueSnapshot(msgspec.Struct, frozen=True):
    """Where the files of one queue are, with the entries that they have; a thread may keep it."""

    folder: Path
    file_entries: int
    min_offset: int
    max_offset: int
    tail: bytes = b""  # the newest of them, which the files may not have yet

    @property
    def in_files(self) -> int:
        """Up to which offset the files have them."""
        return self.max_offset - len(self.tail) // ENTRY_BYTES
