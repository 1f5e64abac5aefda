"""The bytes of wheel, timer log and check, as RocketMQ 5.5.0 has written them."""

import struct

import pytest
from msgspec.structs import replace

from aerobee.storage.features.timers.codecs import (
    CHECK_BYTES,
    DEFAULT,
    UNIT_BYTES,
    WHEEL_BYTES,
    Slot,
    TimerCheck,
    Unit,
    decode_check,
    decode_slot,
    decode_unit,
    encode_blank_unit,
    encode_check,
    encode_slot,
    encode_unit,
    is_blank_unit,
    slot_index,
)

SLOT = "000000006553f100 0000000000000000 0000000000000034 00000002 00000000"
UNIT = (
    "00000034 ffffffffffffffff 00000001 0000018bcfe540f0 00002710"
    " 0000000000001000 0000012c c3df62e5 0000000000000000"
)


def test_a_slot_is_as_rocketmq_has_it() -> None:
    """Two units of 22:13:20 UTC, at bytes 0 and 52; and where its slot is."""
    slot = Slot(1_700_000_000, 0, 52, 2)
    assert encode_slot(slot) == bytes.fromhex(SLOT)
    assert decode_slot(bytes.fromhex(SLOT)) == slot
    assert slot_index(1_700_000_000) == 512_000
    assert WHEEL_BYTES == 38_707_200


def test_a_unit_is_as_rocketmq_has_it() -> None:
    """A record of topic orders that was put there ten seconds before its slot's time."""
    topic_hash = struct.unpack(">i", bytes.fromhex("c3df62e5"))[0]
    unit = Unit(-1, DEFAULT, 1_699_999_990_000, 10_000, 4096, 300, topic_hash)
    assert decode_unit(bytes.fromhex(UNIT)) == unit
    assert (unit.time_s, unit.due_ms) == (1_700_000_000, 0)
    ours = encode_unit(replace(unit, after_ms=345))
    assert ours == bytes.fromhex(UNIT)[:44] + bytes.fromhex("00000159 9a9938ef")


def test_a_unit_with_a_wrong_bit_is_none() -> None:
    """Each bit of one of ours, that of the time within the second as well; of RocketMQ's alone
    those that make it none of its own."""
    unit = Unit(52, DEFAULT, 1_699_999_990_000, 10_000, 4096, 300, 7, 345)
    data = encode_unit(unit)
    assert decode_unit(data) == unit and unit.due_ms == 1_700_000_000_345
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_unit(flipped) is None
        flipped = bytearray.fromhex(UNIT)
        flipped[bit // 8] ^= 1 << bit % 8
        assert bit < 44 * 8 or decode_unit(flipped) is None


@pytest.mark.parametrize("change", [(3, 0x35), (12, 0x80), (15, 0), (15, 16)])
def test_what_is_no_unit_is_none(change: tuple[int, int]) -> None:
    """Another size, a magic of no bits, of too many, or negative; zeros, and what is too short."""
    data = bytearray.fromhex(UNIT)
    data[change[0]] = change[1]
    assert decode_unit(data) is None
    assert decode_unit(bytes(UNIT_BYTES)) is None
    assert decode_unit(bytes.fromhex(UNIT)[:-1]) is None


def test_a_blank_closes_a_file() -> None:
    """Sixteen bytes, which are no unit."""
    blank = encode_blank_unit(16)
    assert blank == bytes.fromhex("00000010 0000000000000000 cbd43194")
    assert is_blank_unit(blank, 0) and not is_blank_unit(blank, 1)
    assert decode_unit(blank.ljust(UNIT_BYTES, b"\0")) is None


def test_a_check_has_seven_numbers() -> None:
    """A file of an older RocketMQ has four of them."""
    check = TimerCheck(1, 2, 3, 4, 5, 6, 7)
    data = encode_check(check)
    assert len(data) == CHECK_BYTES == 56
    assert struct.unpack(">7q", data) == (1, 2, 3, 4, 5, 6, 7)
    assert decode_check(data) == check
    assert decode_check(data[:32]) == TimerCheck(1, 2, 3, 4)
    assert decode_check(b"") == TimerCheck()
