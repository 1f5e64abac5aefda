"""Where the log's files are, for readers that have no map of them."""

from pathlib import Path

import msgspec

from aerobee.storage.layout import file_name
from aerobee.storage.log.damage import DamageTable


class LogSnapshot(msgspec.Struct, frozen=True):
    """Where the log's files are and how far they may be read; a thread may keep it."""

    folder: Path
    begin: int  # the position of the first file
    end: int  # one past the last committed byte
    file_bytes: int
    damage: DamageTable | None = None  # what of it is no records; None for a log that is whole

    def file(self, position: int) -> tuple[Path, int]:
        """Return the file that holds a position, and the position it begins with."""
        base = self.begin + (position - self.begin) // self.file_bytes * self.file_bytes
        return self.folder / file_name(base), base

    def holds(self, position: int, count: int) -> bool:
        """Whether so many bytes from there on lie in one file, are committed, and undamaged."""
        if not self.begin <= position <= self.end - count:
            return False
        if self.damage is not None and self.damage.touches(position, position + count):
            return False
        return (position - self.begin) % self.file_bytes + count <= self.file_bytes
