"""The file `aerobee.delayed`: how far the delayed messages of each level have been delivered.

One page that holds two notes, the latest and the latest that is known to be on the disk. A note is
a head, the fields of each level, and the CRC-32 of both. It says: every delivery before `position`
of the log is counted in these offsets.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Final

import msgspec

from aerobee.remoting.message.layout import Layout

MAGIC: Final = b"AERODLY1"
LEVELS_MAX: Final = 128

_PAGE: Final = Layout(magic="8s", latest="2040s", durable="2048s")
PAGE_BYTES: Final = _PAGE.size
LATEST_AT: Final = _PAGE.at("latest")
DURABLE_AT: Final = _PAGE.at("durable")

_HEAD: Final = Layout(position="q", levels="i").run()
_LEVEL: Final = Layout(level="i", next_offset="q").run()
_CRC: Final = struct.Struct(">I")


class Note(msgspec.Struct, frozen=True):
    """All deliveries before `position` are counted in `offsets`, by level the next to deliver."""

    position: int
    offsets: Mapping[int, int] = msgspec.field(default_factory=dict)


def encode_note(note: Note) -> bytes:
    """Pack a note with its checksum."""
    data = _HEAD.pack(note.position, len(note.offsets))
    data += b"".join(_LEVEL.pack(level, offset) for level, offset in note.offsets.items())
    return data + _CRC.pack(zlib.crc32(data))


def decode_note(page: bytes, at: int) -> Note | None:
    """Unpack the note at byte `at`; None if a single bit is wrong."""
    position, count = _HEAD.unpack_from(page, at)
    end = at + _HEAD.size + count * _LEVEL.size
    if not 0 <= count <= LEVELS_MAX or end + _CRC.size > len(page):
        return None
    content = page[at:end]
    if _CRC.unpack_from(page, end)[0] != zlib.crc32(content):
        return None
    return Note(position, dict(_LEVEL.iter_unpack(content[_HEAD.size :])))


def encode_page(latest: Note, durable: Note) -> bytes:
    """Return a whole page."""
    page = bytearray(PAGE_BYTES)
    page[: len(MAGIC)] = MAGIC
    for at, note in ((LATEST_AT, latest), (DURABLE_AT, durable)):
        data = encode_note(note)
        page[at : at + len(data)] = data
    return bytes(page)


def decode_page(page: bytes) -> list[Note]:
    """Return the notes of a page that are whole, the latest first; none of another file's bytes."""
    if len(page) != PAGE_BYTES or not page.startswith(MAGIC):
        return []
    notes = (decode_note(page, at) for at in (LATEST_AT, DURABLE_AT))
    return [note for note in notes if note is not None]
