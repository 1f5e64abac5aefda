"""The file `aerobee.timers`: wheel, timer log and log as they were at one moment, in one piece.

A head, the slots that the wheel's file may lack, the counts by topic as `timermetrics` has them,
and the CRC-32 of it all. The wheel is written after the note, so a start that finds it writes its
slots once more and has the wheel of that moment, whatever a loss of power took.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Final

import msgspec

from aerobee.remoting.message.layout import Layout
from aerobee.storage.features.timers.codecs import CHECK_BYTES, SLOT_BYTES, SLOTS

MAGIC: Final = b"AEROTMR2"
NOTE_BYTES_MAX: Final = 128 << 20

HEAD_FIELDS: Final = Layout(
    magic="8s",
    read_s="q",
    position="q",
    queue_offset="q",
    log_end="q",
    waiting="q",
    check=f"{CHECK_BYTES}s",
    check_before=f"{CHECK_BYTES}s",
    slots="i",
    counts_bytes="i",
)
NOTED_SLOT_FIELDS: Final = Layout(index="i", slot=f"{SLOT_BYTES}s")

_HEAD: Final = HEAD_FIELDS.run()
_SLOT: Final = NOTED_SLOT_FIELDS.run()
_CRC: Final = struct.Struct(">I")


class TimersNote(msgspec.Struct, frozen=True):
    """What was so at one moment.

    Every slot before `read_s` is done, and no delivery of a later one lies before `position` in the
    log. Messages before `queue_offset` have their units before `log_end`, and `waiting` is what the
    slots from `read_s` on count together: a wheel that has lost some does not. `check` are the
    bytes of `timercheck` that go with it, `check_before` those that were there until then.
    """

    read_s: int
    position: int
    queue_offset: int
    log_end: int
    waiting: int
    check: bytes
    check_before: bytes
    slots: Mapping[int, bytes] = msgspec.field(default_factory=dict)
    counts: bytes = b""

    def names(self, check: bytes) -> bool:
        """Whether a check is one of the two that go with it; a flipped bit is no other broker's.

        That would have changed the time, which is in whole seconds: in more than one bit.
        """
        found = int.from_bytes(check.ljust(CHECK_BYTES, b"\0"))
        both = self.check, self.check_before
        return any((found ^ int.from_bytes(each)).bit_count() <= 1 for each in both)


def encode_note(note: TimersNote) -> bytes:
    """Pack a note with its checksum."""
    data = b"".join(
        (
            _HEAD.pack(
                MAGIC, note.read_s, note.position, note.queue_offset, note.log_end, note.waiting,
                note.check, note.check_before, len(note.slots), len(note.counts),
            ),
            *(_SLOT.pack(index, slot) for index, slot in note.slots.items()),
            note.counts,
        )
    )  # fmt: skip
    return data + _CRC.pack(zlib.crc32(data))


def decode_note(data: bytes | None) -> TimersNote | None:
    """Unpack a note; None if a single bit is wrong, or for no file."""
    if data is None or len(data) < _HEAD.size + _CRC.size or not data.startswith(MAGIC):
        return None
    content = data[: -_CRC.size]
    if _CRC.unpack(data[-_CRC.size :])[0] != zlib.crc32(content):
        return None
    _, *values, slots, counts_bytes = _HEAD.unpack_from(content)
    end = _HEAD.size + slots * _SLOT.size
    if not 0 <= slots <= SLOTS or end + counts_bytes != len(content):
        return None
    noted = dict(_SLOT.iter_unpack(content[_HEAD.size : end]))
    read_s, position, queue_offset, log_end, waiting, check, before = values
    return TimersNote(
        read_s, position, queue_offset, log_end, waiting, check, before, noted, content[end:]
    )
