"""Our note of the index, `aerobee.index`: what of it is on the disk, whatever ended the process."""

import zlib
from pathlib import Path
from typing import Final

import msgspec

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.layout import INDEX_NOTE, INDEX_NOTE_FIELDS, INDEX_NOTE_MAGIC

_ALL: Final = INDEX_NOTE_FIELDS.run()
_CRC_AT: Final = INDEX_NOTE_FIELDS.at("crc")


class IndexNote(msgspec.Struct, frozen=True):
    """All keys of the records from `begin` to `position` are in index files, on the disk.

    Of the file of that name those are its entries before `count`; "" where there is no file yet.
    Files have so many slots.
    """

    begin: int
    position: int
    file_name: str = ""
    count: int = 1
    slots: int = 0


def encode_index_note(note: IndexNote) -> bytes:
    """Pack it with its checksum."""
    data = _ALL.pack(
        INDEX_NOTE_MAGIC,
        note.begin,
        note.position,
        note.count,
        note.slots,
        note.file_name.encode(),
        0,
    )
    return data[:_CRC_AT] + zlib.crc32(data[:_CRC_AT]).to_bytes(4, "big")


def decode_index_note(data: bytes) -> IndexNote | None:
    """Unpack it; None if a single bit is wrong."""
    if len(data) != _ALL.size:
        return None
    magic, begin, position, count, slots, name, crc = _ALL.unpack(data)
    if magic != INDEX_NOTE_MAGIC or crc != zlib.crc32(data[:_CRC_AT]):
        return None
    return IndexNote(begin, position, name.rstrip(b"\0").decode("ascii", "replace"), count, slots)


def read_index_note(files: Files, root: Path) -> IndexNote | None:
    """Read what was noted last, None if there is nothing to trust."""
    try:
        data = files.read_all(root / INDEX_NOTE, _ALL.size + 1)
    except OSError:  # a page that the disk does not give: the index says what it can by itself
        return None
    return decode_index_note(data) if data else None


def write_index_note(files: Files, root: Path, note: IndexNote) -> None:
    """Replace it in one step, on the disk; a crash may bring the older one back: true, too."""
    replace_file(files, root / INDEX_NOTE, encode_index_note(note))
