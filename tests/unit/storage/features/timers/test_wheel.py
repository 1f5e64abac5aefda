"""The wheel's file as others leave it: RocketMQ's and copies have no holes."""

import time
from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.features.timers.codecs import (
    SLOT_BYTES,
    WHEEL_BYTES,
    Slot,
    encode_slot,
    slot_index,
)
from aerobee.storage.features.timers.wheel import Wheel

NOW_S = 1_700_000_000


def test_a_file_without_holes_is_read_as_fast_as_the_disk_gives_it(tmp_path: Path) -> None:
    """Its two weeks of seconds are 37 MB, nearly all zeros: no start looks at each byte."""
    seconds = (NOW_S, NOW_S + 5000, NOW_S + 1_000_000)
    data = bytearray(WHEEL_BYTES)
    for time_s in seconds:
        at = slot_index(time_s) * SLOT_BYTES
        data[at : at + SLOT_BYTES] = encode_slot(Slot(time_s, 0, 0, 3, 0))
    path = tmp_path / "timerwheel"
    path.write_bytes(data)
    wheel = Wheel(Files(), path)
    began_s = time.process_time()
    assert wheel.load(NOW_S, {}) == 9
    spent_s = time.process_time() - began_s
    assert [wheel.next_used(each) for each in seconds] == list(seconds)
    began_s = time.process_time()
    any(data)
    assert spent_s < (time.process_time() - began_s) / 2, "a look at each byte"
    wheel.close()


def test_what_ends_within_a_slot_is_read_up_to_there(tmp_path: Path) -> None:
    """Another broker may have been killed as it made the file."""
    path = tmp_path / "timerwheel"
    slot = encode_slot(Slot(NOW_S, 0, 0, 3, 0))
    path.write_bytes(bytes(slot_index(NOW_S) * SLOT_BYTES) + slot + b"\1" * 7)
    wheel = Wheel(Files(), path)
    assert wheel.load(NOW_S, {}) == 3
    wheel.close()
