"""`verify` names what is damaged of the files of timers, `repair` makes it anew from the log."""

from collections import Counter
from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, bodies
from support.features.timers import Timers

from aerobee.storage import repair, verify
from aerobee.storage.features.timers.codecs import SLOT_BYTES, UNIT_BYTES, slot_index
from aerobee.storage.layout import TIMER_CHECK, TIMER_LOG, TIMER_WHEEL, TIMERS, file_name

COUNT = 200  # units of three files
SLOT_AT = slot_index(NOW_MS // 1000 + 25) * SLOT_BYTES


def flip(path: Path, at: int, count: int = 1) -> None:
    """Let some bytes of a file be others."""
    data = bytearray(path.read_bytes())
    data[at : at + count] = bytes(each ^ 0x41 for each in data[at : at + count])
    path.write_bytes(data)


def damage(root: Path, what: str) -> None:
    """Do to a store at rest what is said."""
    first = root / TIMER_LOG / file_name(0)
    match what:
        case "unit":
            flip(first, 30 * UNIT_BYTES + 20)
        case "first and last units":
            flip(first, 3)
            flip(root / TIMER_LOG / file_name(8192), (COUNT + 2) % 77 * UNIT_BYTES - 9)
        case "page of units":
            flip(first, 512, 2048)
        case "slot":
            flip(root / TIMER_WHEEL, SLOT_AT + 27)
        case "time of a slot":
            flip(root / TIMER_WHEEL, SLOT_AT + 7)
        case "wheel":
            (root / TIMER_WHEEL).unlink()
        case "note":
            flip(root / TIMERS, 20)
        case "note and slot":
            flip(root / TIMERS, 20)
            flip(root / TIMER_WHEEL, SLOT_AT + 7)
        case "check":
            path = root / TIMER_CHECK
            data = bytearray(path.read_bytes())
            data[5] ^= 1
            path.write_bytes(data)
        case "file":
            (root / TIMER_LOG / file_name(4096)).unlink()
        case "short file":
            path = root / TIMER_LOG / file_name(4096)
            path.write_bytes(path.read_bytes()[:1000])


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("unit", "timerlog/00000000000000000000: the unit at 1560 is damaged"),
        ("first and last units", "the unit at 0 is damaged"),
        ("page of units", "the unit at 520 is damaged"),
        ("slot", "timerwheel: the slot of second 1700000025"),
        ("time of a slot", "timerwheel: the slot of second 1700000025"),
        ("wheel", "timerwheel: missing"),
        ("note", "aerobee.timers: wrong length or checksum"),
        ("note and slot", "timerwheel: slot"),
        ("check", "config/timercheck: one bit"),
        ("file", "timerlog/00000000000000004096: missing"),
        ("short file", "timerlog/00000000000000004096: 1000 bytes"),
    ],
)
async def test_what_is_damaged_is_named_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str, named: str
) -> None:
    """And each message comes once, at its time, unless it was taken back, or came before."""
    timers = Timers(tmp_path, timer_roll_window_slot=30)
    timers.send(b"soon", 1500)
    for number in range(COUNT):
        timers.send(b"%d" % number, 20_000 + 97 * number)  # some of them are rolled
    out = (NOW_MS + 20_000 + 97 * 7 - 1) // 1000 * 1000
    timers.send(b"x", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY="7")
    await timers.save()
    timers.clock.advance(3000)
    timers.stop()
    where = [str(tmp_path), "--log-file-bytes", str(1 << 20)]
    assert verify.main(where) == 0, capsys.readouterr().out
    damage(tmp_path, what)
    assert verify.main(where) == 1
    assert named in capsys.readouterr().out
    assert repair.main(["--write", *where]) == 0, capsys.readouterr().out
    assert verify.main(where) == 0, capsys.readouterr().out
    timers.begin()
    timers.clock.advance(16_999)
    assert bodies(timers.store, "T") == [b"soon"]
    timers.clock.advance(60_000)
    expected = [b"soon", *(b"%d" % number for number in range(COUNT) if number != 7)]
    assert Counter(bodies(timers.store, "T")) == Counter(expected)
    assert timers.service.index.waiting == 0
    timers.stop()
    assert verify.main(where) == 0, capsys.readouterr().out


async def test_a_killed_store_is_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever its files lack of what the note says, and of what came since."""
    timers = Timers(tmp_path)
    for number in range(COUNT):
        timers.send(b"%d" % number, 2000 + 97 * number)
        if number % 50 == 49:
            await timers.save()
            timers.clock.advance(900)
    timers.send(b"late", 90_000)
    timers.die()
    assert verify.main([str(tmp_path), "--log-file-bytes", str(1 << 20)]) == 0, (
        capsys.readouterr().out
    )
