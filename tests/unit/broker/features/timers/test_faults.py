"""What goes wrong around messages that wait: clocks, flipped bits, doubled recalls, new limits."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from support.disks.logs import NOW_MS, bodies
from support.features.timers import Timers

from aerobee.broker.features.timers.service import TAKEN_IN
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.features.timers.codecs import CHECK_BYTES, SLOT_BYTES, UNIT_BYTES, slot_index
from aerobee.storage.layout import TIMER_CHECK, TIMER_LOG, TIMER_WHEEL, file_name

DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("back_ms", [DAY_MS, 3 * DAY_MS, 40 * DAY_MS, 400 * DAY_MS])
@pytest.mark.parametrize("killed", [False, True])
async def test_a_clock_set_far_back(tmp_path: Path, back_ms: int, killed: bool) -> None:
    """What is sent by the new time comes at its moment, after a restart, too."""
    timers = Timers(tmp_path)
    timers.send(b"a", 2000)
    timers.clock.advance(3000)
    await timers.save()
    timers.clock.wall_ms -= back_ms
    timers.send(b"b", 2000)
    timers.send(b"c", 7000)
    timers.send(b"d", int(2.9 * DAY_MS))
    timers.clock.advance(1999)
    assert bodies(timers.store, "T") == [b"a"]
    timers.clock.advance(1)
    assert bodies(timers.store, "T") == [b"a", b"b"]
    if killed:
        await timers.save()
        timers.die()
        timers.begin()
    timers.clock.advance(5000)
    assert bodies(timers.store, "T") == [b"a", b"b", b"c"]
    timers.clock.wall_ms += int(2.9 * DAY_MS) - 10_000
    timers.clock.advance(2999)
    assert bodies(timers.store, "T") == [b"a", b"b", b"c"]
    timers.clock.advance(10_000)
    assert bodies(timers.store, "T") == [b"a", b"b", b"c", b"d"]
    timers.stop()


async def test_what_was_taken_back_before_a_kill_stays_away(tmp_path: Path) -> None:
    """However many messages the last note does not know, and though all are due at the start."""
    timers = Timers(tmp_path)
    timers.send(b"a", 1500)
    await timers.save()
    for number in range(5 * TAKEN_IN):
        timers.send(b"%d" % number, 2500)
    out = (NOW_MS + 1499) // 1000 * 1000
    timers.send(b"a", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY="a")
    timers.die()
    timers.clock.wall_ms += 60_000
    timers.begin()
    timers.clock.advance(5000)
    found = bodies(timers.store, "T")
    assert b"a" not in found and len(found) == len(set(found)) == 5 * TAKEN_IN
    timers.stop()


@pytest.mark.parametrize("wrong", [1 << 62, -1, 1 << 40, 5, 1 << 32, 0x65 << 32])
async def test_a_time_that_is_damaged_is_taken_from_the_record(tmp_path: Path, wrong: int) -> None:
    """Another one, within its second, too, would hold all others back, or be early."""
    timers = Timers(tmp_path)
    for number in range(3):
        timers.send(b"%d" % number, 20_100 + 1000 * number)
    await timers.save()
    timers.die()
    (path,) = (tmp_path / TIMER_LOG).iterdir()
    data = bytearray(path.read_bytes())
    after_at = UNIT_BYTES - 8
    data[after_at : after_at + 8] = wrong.to_bytes(8, "big", signed=True)
    path.write_bytes(data)
    timers.begin()
    timers.clock.advance(20_099)
    assert bodies(timers.store, "T") == []
    timers.clock.advance(1)
    assert bodies(timers.store, "T") == [b"0"]
    timers.clock.advance(5000)
    assert bodies(timers.store, "T") == [b"0", b"1", b"2"]
    timers.stop()


async def test_counts_are_right_whatever_is_taken_back(tmp_path: Path) -> None:
    """Twice, what was never there, and what is put aside once more on its way."""
    timers = Timers(tmp_path, timer_roll_window_slot=6)
    timers.send(b"a", 3500)
    timers.send(b"b", 3600)
    out = (NOW_MS + 3499) // 1000 * 1000
    for key in ("a", "a", "never"):
        timers.send(b"x", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY=key)
    timers.send(b"far", 20_345)
    out = (NOW_MS + 20_344) // 1000 * 1000
    timers.send(b"y", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY="far")
    timers.clock.advance(10_000)
    timers.die()
    timers.begin()
    timers.clock.advance(30_000)
    assert bodies(timers.store, "T") == [b"b"]
    assert timers.service.counts.current() == {"T": 0} and timers.service.index.waiting == 0
    timers.stop()


async def test_a_smaller_limit_drops_nothing_that_waits(tmp_path: Path) -> None:
    """`maxMessageSize` is for what is sent; what was acknowledged before comes."""
    timers = Timers(tmp_path)
    timers.send(b"a" * 2000, 1500)
    timers.stop()
    timers.settings = msgspec.structs.replace(timers.settings, message_bytes_max=1000)
    timers.begin()
    timers.clock.advance(5000)
    assert bodies(timers.store, "T") == [b"a" * 2000]
    timers.stop()


@pytest.mark.parametrize("bit", range(0, 64, 3))
async def test_a_time_that_is_flipped_within_its_second(tmp_path: Path, bit: int) -> None:
    """Nobody sees by the time alone that it is another one: none is early, and none is late."""
    timers = Timers(tmp_path)
    for number in range(3):
        timers.send(b"%d" % number, 20_345 + number)
    await timers.save()
    timers.die()
    at = 2 * UNIT_BYTES - 8 + bit // 8
    _flip(tmp_path / TIMER_LOG / file_name(0), at, 1 << bit % 8)
    timers.begin()
    timers.clock.advance(20_345)
    assert bodies(timers.store, "T") == [b"0"]
    timers.clock.advance(1)
    assert bodies(timers.store, "T") == [b"0", b"1"]
    timers.clock.advance(1)
    assert bodies(timers.store, "T") == [b"0", b"1", b"2"]
    timers.stop()


@pytest.mark.parametrize("first", [0, 3])
async def test_a_unit_that_is_damaged_loses_nothing(tmp_path: Path, first: int) -> None:
    """Each field of a unit, flipped: the timers' queue has the messages all the same."""
    for at in range(first, UNIT_BYTES, 4):
        timers = Timers(tmp_path / str(at))
        for number in range(4):
            timers.send(b"%d" % number, 20_100 + number)
        timers.send(b"gone", 20_900)
        out = (NOW_MS + 20_899) // 1000 * 1000
        timers.send(b"x", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY="gone")
        timers.send(b"later", 30_000)
        await timers.save()
        timers.die()
        _flip(tmp_path / str(at) / TIMER_LOG / file_name(0), 2 * UNIT_BYTES + at, 1 << at % 7)
        timers.begin()
        timers.clock.advance(20_099)
        assert bodies(timers.store, "T") == []
        timers.clock.advance(40_000)
        found = Counter(bodies(timers.store, "T"))
        assert found == Counter([b"0", b"1", b"2", b"3", b"later"]), (at, found)
        timers.stop()


@pytest.mark.parametrize("first", [0, 3])
async def test_a_slot_that_is_damaged_loses_nothing(tmp_path: Path, first: int) -> None:
    """Each of its bytes, also when more comes for its second after a start, and another start."""
    out_s = (NOW_MS + 20_100) // 1000
    for at in range(first, SLOT_BYTES, 4):
        timers = Timers(tmp_path / str(at))
        for number in range(4):
            timers.send(b"%d" % number, 20_100 + number)
        timers.send(b"later", 30_000)
        await timers.save()
        timers.send(b"last", 31_000)
        await timers.save()
        timers.die()
        _flip(tmp_path / str(at) / TIMER_WHEEL, slot_index(out_s) * SLOT_BYTES + at, 1 << at % 7)
        timers.begin()
        timers.send(b"4", 20_104)
        await timers.save()
        timers.send(b"5", 20_105)
        await timers.save()
        timers.die()
        timers.begin()
        timers.clock.advance(60_000)
        found = bodies(timers.store, "T")
        assert sorted(found) == [b"0", b"1", b"2", b"3", b"4", b"5", b"last", b"later"], at
        timers.stop()


async def test_a_check_with_a_flipped_bit_loses_nothing(tmp_path: Path) -> None:
    """In whichever of its numbers: the note says how it was."""
    for at in range(1, CHECK_BYTES, 5):
        timers = Timers(tmp_path / str(at))
        timers.send(b"a", 2000)
        timers.send(b"b", 20_000)
        await timers.save()
        timers.clock.advance(3000)
        await timers.save()
        timers.die()
        _flip(tmp_path / str(at) / TIMER_CHECK, at, 0x10)
        timers.begin()
        timers.clock.advance(60_000)
        assert bodies(timers.store, "T") == [b"a", b"b"], at
        timers.stop()


def _flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ bit]))


async def test_a_damaged_unit_and_a_damaged_log(tmp_path: Path) -> None:
    """What the log has lost of the timers' queue hides nothing that lies before it."""
    timers = Timers(tmp_path)
    for number in range(8):
        timers.send(b"%d" % number, 20_100 + number)
    await timers.save()
    timers.die()
    _flip(tmp_path / TIMER_LOG / file_name(0), 3 * UNIT_BYTES + 4, 1)
    timers.begin()
    queue = timers.store.find_queue(TIMER_TOPIC, 0)
    assert queue is not None
    queue.put(5, 0, BLANK_SIZE, 0)  # as recovery does for records that are damaged
    timers.clock.advance(60_000)
    assert sorted(bodies(timers.store, "T")) == [b"%d" % number for number in range(8)]
    timers.stop()


@pytest.mark.parametrize("size", [0, 10, 91])
async def test_a_record_whose_size_is_damaged_keeps_no_other_back(
    tmp_path: Path, size: int
) -> None:
    """What is shorter than any record is none, and the rest comes."""
    timers = Timers(tmp_path)
    positions = [timers.send(b"%d" % number, 1500 + number) for number in range(3)]
    with (timers.store.segments.directory / file_name(0)).open("r+b") as file:
        file.seek(positions[1])
        file.write(size.to_bytes(4, "big"))
    timers.clock.advance(5000)
    assert bodies(timers.store, "T") == [b"0", b"2"]
    timers.stop()
