"""The bytes of `timerwheel`, `timerlog` and `timercheck`, as RocketMQ 5.5 has them.

Source: TimerWheel, Slot, TimerLog, TimerMessageStore.doEnqueue, TimerCheckpoint.
"""

import zlib
from typing import Final

import msgspec
from msgspec.structs import astuple

from aerobee.remoting.message.layout import BLANK_MAGIC, Layout

PRECISION_MS: Final = 1000
"""How long a slot is: a time in seconds is the name of one."""

SLOTS: Final = 2 * 7 * 24 * 3600
"""Of the wheel; a slot of a time is had again after so many seconds."""

SLOT_FIELDS: Final = Layout(time_s="q", first="q", last="q", count="i", magic="i")
UNIT_FIELDS: Final = Layout(
    size="i",
    previous="q",
    magic="i",
    written_ms="q",
    delay_ms="i",
    position="q",
    record_bytes="i",
    topic_hash="i",
    after_ms="i",
    check="I",
)
BLANK_UNIT_FIELDS: Final = Layout(rest_bytes="i", previous="q", magic="I")
CHECK_FIELDS: Final = Layout(
    read_ms="q",
    log_position="q",
    queue_offset="q",
    master_queue_offset="q",
    state_version="q",
    timestamp="q",
    counter="q",
)

SLOT_BYTES: Final = SLOT_FIELDS.size
WHEEL_BYTES: Final = SLOTS * SLOT_BYTES
UNIT_BYTES: Final = UNIT_FIELDS.size
BLANK_UNIT_BYTES: Final = BLANK_UNIT_FIELDS.size
CHECK_BYTES: Final = CHECK_FIELDS.size
CHECK_FILE_BYTES: Final = 4096

DEFAULT: Final = 1
ROLL: Final = 2
"""Of a unit: due later than its slot, to be put aside once more when that comes."""
DELETE: Final = 4
"""Of a unit: its message takes another one back."""
MAGIC_BITS: Final = 0xF

MS_DIGITS_MAX: Final = 18  # as a 64-bit number has
CHECK_AT: Final = UNIT_FIELDS.at("check")
AFTER_AT: Final = UNIT_FIELDS.at("after_ms")

_UNCHECKED: Final = bytes(UNIT_BYTES - AFTER_AT)
_SLOT: Final = SLOT_FIELDS.run()
_UNIT: Final = UNIT_FIELDS.run()
_BLANK: Final = BLANK_UNIT_FIELDS.run()
_CHECK: Final = CHECK_FIELDS.run()


class Slot(msgspec.Struct, frozen=True, gc=False):
    """What waits for one second: the first and last unit, as places in the timer log, and how many.

    RocketMQ's delivery of second T begins when T has passed.
    """

    time_s: int
    first: int
    last: int
    count: int
    magic: int = 0


class Unit(msgspec.Struct, frozen=True, gc=False):
    """One message that waits: where its record is, and its slot's unit before it (-1 none).

    `written_ms` + `delay_ms` is the time of its slot. `after_ms` is ours, when it is due: 1 to 1000
    ms after that; 0: the record says it. It lies, with a checksum of the unit, in a place that
    RocketMQ fills with 0 and never reads.
    """

    previous: int
    magic: int
    written_ms: int
    delay_ms: int
    position: int
    record_bytes: int
    topic_hash: int = 0
    after_ms: int = 0

    @property
    def time_s(self) -> int:
        """The second of its slot."""
        return (self.written_ms + self.delay_ms) // PRECISION_MS

    @property
    def due_ms(self) -> int:
        """When its message is due; 0: the record says it."""
        return self.time_s * PRECISION_MS + self.after_ms if self.after_ms else 0


class TimerCheck(msgspec.Struct, frozen=True, gc=False):
    """How far a broker was.

    Every slot before `read_ms` is done, every message before `queue_offset` is in the timer log.
    """

    read_ms: int = 0
    log_position: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


def ms_of(text: str) -> int | None:
    """Return the milliseconds that a property says; None for what is none: users may write it."""
    sound = text.isascii() and text.isdecimal() and len(text) <= MS_DIGITS_MAX
    return int(text) if sound else None


def slot_index(time_s: int) -> int:
    """Return which slot of the wheel a second has."""
    return time_s % SLOTS


def encode_slot(slot: Slot) -> bytes:
    """Pack a slot."""
    return _SLOT.pack(*astuple(slot))


def decode_slot(data: bytes, at: int = 0) -> Slot:
    """Unpack a slot."""
    return Slot(*_SLOT.unpack_from(data, at))


def encode_unit(unit: Unit) -> bytes:
    """Pack a unit of the timer log, with its checksum."""
    data = _UNIT.pack(UNIT_BYTES, *astuple(unit), 0)
    return data[:CHECK_AT] + zlib.crc32(data[:CHECK_AT]).to_bytes(4, "big")


def decode_unit(data: bytes | bytearray, at: int = 0) -> Unit | None:
    """Unpack a unit; None for a blank, zeros or other bytes, and for one with a wrong bit.

    Those of RocketMQ have no checksum.
    """
    end = at + UNIT_BYTES
    if end > len(data):
        return None
    size, *values, check = _UNIT.unpack_from(data, at)
    unit = Unit(*values)
    if size != UNIT_BYTES or not 0 < unit.magic <= MAGIC_BITS:
        return None
    is_sound = check == zlib.crc32(data[at : at + CHECK_AT])
    return unit if is_sound or data[at + AFTER_AT : end] == _UNCHECKED else None


def is_blank_unit(data: bytes | bytearray, at: int) -> bool:
    """Whether bytes are those that close a file of the timer log."""
    if at + BLANK_UNIT_BYTES > len(data):
        return False
    magic: int = _BLANK.unpack_from(data, at)[2]
    return magic == BLANK_MAGIC


def encode_blank_unit(rest_bytes: int) -> bytes:
    """Pack what closes a file of the timer log that has so many bytes left."""
    return _BLANK.pack(rest_bytes, 0, BLANK_MAGIC)


def encode_check(check: TimerCheck) -> bytes:
    """Pack the 56 bytes that `timercheck` begins with, and that request 60 is answered with."""
    return _CHECK.pack(*astuple(check))


def decode_check(data: bytes) -> TimerCheck:
    """Unpack them; older files are shorter."""
    return TimerCheck(*_CHECK.unpack_from(data.ljust(CHECK_BYTES, b"\0")))
