"""A damaged slot is read by the whole timers' queue, for seconds: what is sound is on time."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, read_all
from support.features.timers import Timers

from aerobee.broker.features.timers.waiting import WaitingRecord
from aerobee.remoting.message.properties import parse_properties
from aerobee.storage.features.timers.codecs import SLOT_BYTES, UNIT_BYTES, slot_index
from aerobee.storage.layout import TIMER_LOG, TIMER_WHEEL, file_name
from aerobee.storage.verify import verify

LATE_MS_MAX = 20
LOG_FILE_BYTES = 64 * 1024
OTHERS = 9_000
LOOKS_PER_MS = 3  # a machine on which that many take three seconds
OLD = {b"old 0": 20_100, b"old 1": 20_200}
SWEPT_S = (NOW_MS + 20_100) // 1000
KNOWN = {b"known 0": 20_150, b"known 1": 20_600, b"known 2": 20_950}
NEXT = {b"next %d" % number: 21_050 + 130 * number for number in range(25)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the store is that all of them take a copy of; the first one makes it."""
    return tmp_path_factory.mktemp("sweeps") / "filled"


def is_made(store: Path) -> bool:
    """Whether a test before made it."""
    return store.exists()


async def filled(store: Path, root: Path) -> Timers:
    """Messages of a few seconds, between those of one of them thousands of a later time.

    One that is known is taken back. Nobody has the store open.
    """
    if not is_made(store):
        await fill(store)
    shutil.copytree(store, root, dirs_exist_ok=True)
    return Timers(root, running=False, log_file_bytes=LOG_FILE_BYTES)


async def fill(root: Path) -> None:
    """Make that store."""
    timers = Timers(root, log_file_bytes=LOG_FILE_BYTES)
    for body, after_ms in OLD.items():
        timers.send(body, after_ms)
    for number in range(OTHERS):
        timers.send(b"%d" % number, 3_600_000)
    for body, after_ms in (KNOWN | {b"gone": 20_700} | NEXT).items():
        timers.send(body, after_ms)
    out = (NOW_MS + 20_699) // 1000 * 1000
    timers.send(b"x", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY="gone")
    await timers.save()
    timers.die()


def flip(path: Path, at: int) -> None:
    """Let a bit be another one."""
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def slowly(timers: Timers) -> None:
    """Open the store again, on a machine that takes its time for each record."""
    timers.begin()
    records, looks = timers.service._records, [0]
    get = records.get

    def slow(position: int) -> WaitingRecord | None:
        looks[0] += 1
        if looks[0] % LOOKS_PER_MS == 0:
            timers.clock._to(timers.clock.passed_ms + 1)
        return get(position)

    records.get = slow  # type: ignore[method-assign]


def lateness(timers: Timers) -> dict[bytes, int]:
    """How late each message was, in ms."""
    late = {}
    for record in read_all(timers.store, "T"):
        due_ms = NOW_MS + (OLD | KNOWN | NEXT)[record.body]
        late[record.body] = int(parse_properties(record.properties)["TIMER_DEQUEUE_MS"]) - due_ms
    return late


def count(timers: Timers) -> Counter[bytes]:
    """How often each was delivered."""
    return Counter(record.body for record in read_all(timers.store, "T"))


async def test_what_is_sound_does_not_wait_for_a_sweep(store: Path, tmp_path: Path) -> None:
    """Of the second itself what its chain leads to, and all of the seconds behind it."""
    timers = await filled(store, tmp_path)
    flip(timers.root / TIMER_LOG / file_name(0), UNIT_BYTES + 20)  # of old 1
    slowly(timers)
    timers.clock.advance(30_000)
    assert count(timers) == Counter([*OLD, *KNOWN, *NEXT])
    late = lateness(timers)
    assert min(late.values()) >= 0
    assert min(late[body] for body in OLD) > 50 * LATE_MS_MAX, "the sweep was no long one"
    assert max(late[body] for body in (*KNOWN, *NEXT)) <= LATE_MS_MAX, late
    assert timers.service.index.read_s >= (NOW_MS + 25_000) // 1000
    timers.stop()


async def test_a_slot_that_may_begin_too_early_holds_its_own_second(
    store: Path, tmp_path: Path
) -> None:
    """What takes a message back may be among what is missing: the seconds behind are on time."""
    timers = await filled(store, tmp_path)
    slowly(timers)
    timers.send(b"more", 3_600_000)
    await timers.save()  # from here on the slot is in the file alone
    at = slot_index(SWEPT_S) * SLOT_BYTES
    flip(timers.root / TIMER_WHEEL, at + 27)  # how many there are
    timers.clock.advance(30_000)
    assert count(timers) == Counter([*OLD, *KNOWN, *NEXT])
    late = lateness(timers)
    assert min(late[body] for body in (*OLD, *KNOWN)) > LATE_MS_MAX, "it is not held"
    assert max(late[body] for body in NEXT) <= LATE_MS_MAX, late
    timers.stop()


@pytest.mark.parametrize(
    ("end", "noted"), [("killed", False), ("killed", True), ("stopped", False)]
)
@pytest.mark.parametrize("after_ms", [20_700, 22_700])
async def test_an_end_amid_a_sweep(
    store: Path, tmp_path: Path, after_ms: int, end: str, noted: bool
) -> None:
    """Nothing is delivered twice, though a second was before the one in front of it."""
    timers = await filled(store, tmp_path)
    flip(timers.root / TIMER_LOG / file_name(0), UNIT_BYTES + 20)
    slowly(timers)
    timers.clock.advance(after_ms)
    if noted:
        await timers.save()
        timers.clock.advance(100)
    if end == "killed":
        timers.die()
    else:
        timers.stop()
        found = [each for each in verify(timers.settings).problems if "slot" in each]
        assert all(f"second {SWEPT_S} " in each for each in found), found
    slowly(timers)
    timers.clock.advance(30_000)
    assert count(timers) == Counter([*OLD, *KNOWN, *NEXT])
    timers.stop()
    assert not [each for each in verify(timers.settings).problems if "slot" in each]


async def test_a_kill_at_the_end_of_a_sweep(store: Path, tmp_path: Path) -> None:
    """The note of that moment knows of what was delivered of the second that has begun."""
    timers = await filled(store, tmp_path)
    flip(timers.root / TIMER_LOG / file_name(0), UNIT_BYTES + 20)
    slowly(timers)
    while timers.service.index.read_s <= SWEPT_S:
        timers.clock.advance(10)
    (half,) = timers.service.half_delivered()
    assert half.time_s == timers.service.index.read_s > SWEPT_S and half.pending
    await timers.save()
    timers.die()
    slowly(timers)
    timers.clock.advance(30_000)
    assert count(timers) == Counter([*OLD, *KNOWN, *NEXT])
    timers.stop()
