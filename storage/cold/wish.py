"""What a read needs that is not in memory."""

from dataclasses import dataclass
from pathlib import Path

from aerobee.storage.damage.spans import DamageTable
from aerobee.storage.layout import ENTRY_BYTES, file_name


@dataclass(frozen=True, slots=True)
class LogPlace:
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


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where the files of one queue are, with the entries that they have; a thread may keep it."""

    folder: Path
    file_entries: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class Wish:
    """Entries of one queue from `offset` on, and those of their records that a read would take.

    `count` entries are looked at. With `every` record (a filter decides by what is in it) they are
    read as far as `bytes_max` goes, else those that are `wanted`, up to `messages_max` of them.
    """

    log: LogPlace
    queue: QueuePlace
    offset: int
    count: int
    messages_max: int
    bytes_max: int
    wanted: frozenset[int] | None = None
    every: bool = False

    @property
    def memory_bytes(self) -> int:
        """How much is read for it at most, but for a single record larger than `bytes_max`."""
        return self.count * ENTRY_BYTES + 2 * self.bytes_max


class ColdRead(Exception):
    """The first bytes that a read needs are not in memory: fetch `wish`, then read from that."""

    def __init__(self, wish: Wish) -> None:
        super().__init__(f"{wish.queue.folder} from {wish.offset} on is not in memory")
        self.wish = wish
