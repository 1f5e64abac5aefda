"""What an index file is: its size, its name, its head; which there are, in the log's order."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import astuple

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import INDEX, INDEX_ENTRY_FIELDS, INDEX_HEADER_FIELDS

SLOTS_DEFAULT: Final = 5_000_000
ENTRIES_DEFAULT: Final = 20_000_000
SLOT_BYTES: Final = 4
_NUMBERS: Final = INDEX_HEADER_FIELDS.run()
_NAME: Final = re.compile(r"[0-9]{17}")
_MILLISECOND: Final = timedelta(milliseconds=1)


class IndexShape(msgspec.Struct, frozen=True):
    """How large index files are: `maxHashSlotNum` and `maxIndexNum`; entry 0 is never used."""

    slots: int = SLOTS_DEFAULT
    entries: int = ENTRIES_DEFAULT

    @property
    def entries_at(self) -> int:
        """Where entry 0 would stand."""
        return INDEX_HEADER_FIELDS.size + SLOT_BYTES * self.slots

    @property
    def file_bytes(self) -> int:
        """The size of a file, 420,000,040 bytes with the defaults."""
        return self.entries_at + INDEX_ENTRY_FIELDS.size * self.entries


class IndexHeader(msgspec.Struct, frozen=True):
    """The head of an index file: times (ms) and positions of its first and its last message.

    `count` is the number of the next entry, from 1 on. Before its first entry a file has the times
    and positions with which the one before it ends.
    """

    begin_ms: int = 0
    end_ms: int = 0
    begin_position: int = 0
    end_position: int = 0
    slots_used: int = 0
    count: int = 1

    @property
    def empty(self) -> bool:
        """Whether the file has no entry."""
        return self.count <= 1


class IndexFile(msgspec.Struct, frozen=True):
    """An index file that is there, and what its head says."""

    path: Path
    header: IndexHeader


class WrongIndexSizeError(ValueError):
    """An index file has another size than the settings say; the text names file and settings."""


def encode_header(header: IndexHeader) -> bytes:
    """Pack the 40 bytes at the start of a file."""
    return _NUMBERS.pack(*astuple(header))


def decode_header(data: bytes) -> IndexHeader:
    """Unpack them; like RocketMQ, a count below 1 is taken for 1."""
    header = IndexHeader(*_NUMBERS.unpack_from(data.ljust(_NUMBERS.size, b"\0")))
    return header if header.count >= 1 else msgspec.structs.replace(header, count=1)


def index_names(files: Files, root: Path) -> list[Path]:
    """List the index files of a store by their names, the oldest first."""
    folder = root / INDEX
    return [folder / name for name in files.names(folder) if _NAME.fullmatch(name)]


def read_header(files: Files, path: Path) -> IndexHeader:
    """Read the head of a file."""
    return decode_header(files.read_all(path, _NUMBERS.size) or b"")


def index_files(files: Files, root: Path, shape: IndexShape) -> list[IndexFile]:
    """List the index files of a store in the order of the log; the last one is written on.

    Their names are local times, which clocks and summers disorder; only the last one's name counts,
    as for RocketMQ. Raises WrongIndexSizeError for one of another size.
    """
    found = []
    for path in index_names(files, root):
        size = files.size(path)
        if size != shape.file_bytes:
            raise WrongIndexSizeError(
                f"{path} has {size} bytes, maxHashSlotNum={shape.slots} and"
                f" maxIndexNum={shape.entries} make {shape.file_bytes}: set them to what they were,"
                " or move the file away"
            )
        found.append(IndexFile(path, read_header(files, path)))
    return found


def next_name(now: datetime, names: Sequence[str]) -> str:
    """Return the name of a file made now, local time; behind all names that there are."""
    name = _name(now)
    if not names or name > names[-1]:
        return name
    try:  # the clock was set back
        last = datetime.strptime(names[-1] + "000", "%Y%m%d%H%M%S%f")
        return _name(last + _MILLISECOND)
    except (ValueError, OverflowError):  # a name that is no time, or the last that there is
        return f"{int(names[-1]) + 1:017}"


def _name(moment: datetime) -> str:
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03}"
