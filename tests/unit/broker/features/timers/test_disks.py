"""Disks under messages that wait: syncs that fail, sectors that are gone, files that are lost."""

import errno
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from support.disks.bad_sectors import BadSectors
from support.disks.caching_disk import CachingFiles
from support.disks.logs import NOW_MS, bodies, settle
from support.features.timers import Timers

from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.disk.files import Files
from aerobee.storage.features.timers.codecs import SLOT_BYTES, UNIT_BYTES, slot_index
from aerobee.storage.layout import TIMER_CHECK, TIMER_LOG, TIMER_WHEEL, TIMERS, file_name
from aerobee.storage.queues.consume_queue import ConsumeQueue

FILES = (TIMERS, TIMER_WHEEL, TIMER_LOG, TIMER_CHECK)
PAGE = 4096


def wait_for_some(timers: Timers, name: str, count: int = 20) -> None:
    """Send messages that are due one after the other, from 20 s on."""
    for number in range(count):
        timers.send(b"%s%d" % (name.encode(), number), 20_100 + 700 * number)


def all_once(timers: Timers, *names: str, count: int = 20) -> None:
    """See that each has come, once, and none too early."""
    timers.clock.advance(60_000)
    expected = {b"%s%d" % (name.encode(), number) for name in names for number in range(count)}
    assert Counter(bodies(timers.store, "T")) == Counter(expected)


def lose(timers: Timers, name: str, at: int, count: int = PAGE) -> None:
    """Put zeros where a file had something, as a sector that was never written has them."""
    path = timers.root / name
    with (path / file_name(0) if path.is_dir() else path).open("r+b") as file:
        file.seek(at)
        file.write(bytes(count))


@pytest.mark.parametrize(
    ("word", "crashes"), [*((word, False) for word in FILES), (TIMER_LOG, True)]
)
async def test_a_sync_that_fails_is_made_good_by_the_next(
    tmp_path: Path, word: str, crashes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk may have dropped what it was given, and say nothing of it the next time."""
    files = CachingFiles()
    timers = Timers(tmp_path, files)
    wait_for_some(timers, "a")
    settle(timers.store)
    await timers.save()
    wait_for_some(timers, "b")
    settle(timers.store)
    files.word = word
    await timers.save()
    assert timers.service.index.changed
    files.word = ""
    if not crashes:
        await timers.save()
        assert not timers.service.index.changed
    timers.die()
    after = files.crash(tmp_path, random.Random(1))
    caplog.set_level("INFO")
    timers.begin(after)
    assert crashes or "behind=0" in caplog.text, "all of it is in the files"
    all_once(timers, "a", "b")
    timers.die()


async def test_a_disk_that_takes_nothing_more(tmp_path: Path) -> None:
    """Nothing of the note can be written, for good; deliveries go on, and a kill costs nothing."""

    class ReadOnly(Files):
        refused = "\n"

        def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
            if write and self.refused in str(path):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return super().open(path, create=create, write=write)

    files = ReadOnly()
    timers = Timers(tmp_path, files)
    wait_for_some(timers, "a")
    settle(timers.store)
    await timers.save()
    for word in (TIMERS, TIMER_CHECK, TIMER_LOG):
        files.refused = word
        wait_for_some(timers, word)
        await timers.save()
    timers.clock.advance(23_000)
    assert b"a0" in bodies(timers.store, "T")
    timers.die()
    files.refused = "\n"
    timers.begin(files)
    all_once(timers, "a", TIMERS, TIMER_CHECK, TIMER_LOG)
    timers.die()


@pytest.mark.parametrize("word", FILES)
async def test_a_sector_that_cannot_be_read(tmp_path: Path, word: str) -> None:
    """At a start, and while it runs; what comes later is written there all the same."""
    files = BadSectors()
    timers = Timers(tmp_path, files)
    wait_for_some(timers, "a")
    await timers.save()
    timers.clock.advance(10)
    timers.send(b"b0", 20_100)
    await timers.save()  # whose note has not all slots
    path = tmp_path / word
    path = path / file_name(0) if path.is_dir() else path
    at = slot_index(NOW_MS // 1000 + 20) * SLOT_BYTES if word == TIMER_WHEEL else 0
    files.spoil(path, at)
    timers.send(b"c0", 20_100)
    await timers.save()
    timers.die()
    files.spoil(path, at)
    timers.begin(files)
    timers.send(b"d0", 20_100)
    await timers.save()
    assert not timers.service.index.changed, "the note could be written"
    timers.clock.advance(60_000)
    found = Counter(bodies(timers.store, "T"))
    assert found == Counter([b"%s%d" % (b"a", number) for number in range(20)]
                            + [b"b0", b"c0", b"d0"])  # fmt: skip
    timers.stop()


@pytest.mark.parametrize("lost", ["file", "page"])
@pytest.mark.parametrize("also", ["", TIMERS, TIMER_LOG])
async def test_a_wheel_that_has_lost_slots(tmp_path: Path, lost: str, also: str) -> None:
    """Which the last note does not have: they are made anew from the units, else from the log."""
    timers = Timers(tmp_path)
    wait_for_some(timers, "a")
    timers.send(b"gone", 21_500)
    out = (NOW_MS + 21_499) // 1000 * 1000
    timers.send(b"x", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY="gone")
    await timers.save()
    timers.send(b"z0", 400)
    await timers.save()
    timers.clock.advance(2000)
    await timers.save()
    timers.die()
    if lost == "file":
        (tmp_path / TIMER_WHEEL).unlink()
    else:
        at = slot_index(NOW_MS // 1000 + 20) * SLOT_BYTES // PAGE * PAGE
        lose(timers, TIMER_WHEEL, at)
    if also == TIMERS:
        (tmp_path / TIMERS).unlink()
    elif also:
        lose(timers, TIMER_LOG, 5 * UNIT_BYTES, 2 * UNIT_BYTES)
    timers.begin()
    timers.clock.advance(60_000)
    expected = [b"z0"] + [b"a%d" % number for number in range(20)]
    assert Counter(bodies(timers.store, "T")) == Counter(expected)
    assert timers.service.index.waiting == 0
    timers.stop()


async def test_a_slot_that_is_damaged_while_the_broker_runs(tmp_path: Path) -> None:
    """More comes for its second: what was there before is not forgotten for that."""
    timers = Timers(tmp_path)
    for number in range(3):
        timers.send(b"a%d" % number, 20_100)
    await timers.save()
    lose(timers, TIMER_WHEEL, slot_index(NOW_MS // 1000 + 20) * SLOT_BYTES, SLOT_BYTES)
    timers.send(b"a3", 20_100)
    all_once(timers, "a", count=4)
    timers.stop()


@pytest.mark.parametrize("damaged", range(4))
async def test_a_stop_in_a_second_of_which_units_are_damaged(tmp_path: Path, damaged: int) -> None:
    """What of it is left is delivered after the start, each once."""
    timers = Timers(tmp_path)
    for number in range(4):
        timers.send(b"a%d" % number, 20_100 + 100 * number)
    await timers.save()
    timers.die()
    lose(timers, TIMER_LOG, damaged * UNIT_BYTES + 20, 1)
    timers.begin()
    timers.clock.advance(20_250)
    assert bodies(timers.store, "T") == [b"a0", b"a1"]
    timers.stop()
    timers.begin()
    all_once(timers, "a", count=4)
    timers.stop()


async def test_a_stop_leaves_the_right_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a stop within a second the wheel has what the note says."""
    timers = Timers(tmp_path)
    for number in range(6):
        timers.send(b"a%d" % number, 20_100 + 100 * number)
    timers.clock.advance(20_250)
    timers.stop()
    timers.begin()
    assert timers.service.index.waiting == 4
    timers.stop()
    timers.begin()
    assert "timer_wheel_damaged" not in caplog.text
    all_once(timers, "a", count=6)
    timers.stop()


async def test_a_damaged_unit_does_not_keep_files(tmp_path: Path) -> None:
    """The last one of its file, which says whether the log still has what it leads to."""
    timers = Timers(tmp_path)
    wait_for_some(timers, "a", 200)
    await timers.save()
    lose(timers, TIMER_LOG, 77 * UNIT_BYTES + 30, 4)
    timers.service.index.log.trim(1 << 40)
    names = [path.name for path in sorted((tmp_path / TIMER_LOG).iterdir())]
    assert names == [file_name(8192)]
    timers.die()


async def test_a_file_without_a_sound_unit_goes_with_the_next(tmp_path: Path) -> None:
    """Its messages lie before those of the next one: not until these are gone, nor ever after."""
    timers = Timers(tmp_path)
    wait_for_some(timers, "a", 200)
    await timers.save()
    lose(timers, TIMER_LOG, 0, PAGE)
    units = timers.service.index.log
    last = units.stored(units.before(2 * PAGE))
    assert last is not None
    units.trim(last.position)
    assert len(units.spans()) == 3
    units.trim(last.position + 1)
    assert [span.path.name for span in units.spans()] == [file_name(2 * PAGE)]
    timers.die()


async def test_a_name_that_a_killed_process_left_is_synced(tmp_path: Path) -> None:
    """A file of the timer log may be there without its name being on the disk."""

    class Names(Files):
        def __init__(self) -> None:
            self.synced: list[Path] = []

        def sync_directory(self, path: Path) -> None:
            self.synced.append(path)
            super().sync_directory(path)

    files = Names()
    folder = tmp_path / TIMER_LOG
    folder.mkdir(parents=True)
    (folder / file_name(0)).write_bytes(bytes(PAGE))
    timers = Timers(tmp_path, files)
    wait_for_some(timers, "a")
    await timers.save()
    assert folder in files.synced
    timers.die()


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS])
async def test_a_log_that_cannot_be_written_keeps_all_that_is_due(
    tmp_path: Path, error: int
) -> None:
    """In the midst of a delivery: nothing is dropped, and after a restart each comes once."""

    class Refusing(Files):
        refuses = False

        def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
            if self.refuses:
                raise OSError(error, os.strerror(error))
            super().write(fd, data, at)

    files = Refusing()
    timers = Timers(tmp_path, files)
    wait_for_some(timers, "a")
    await timers.save()
    timers.clock.advance(22_000)
    files.refuses = True
    timers.clock.advance(5_000)
    assert len(bodies(timers.store, "T")) == 3
    await timers.save()
    timers.die()
    files.refuses = False
    timers.begin(files)
    all_once(timers, "a")
    timers.stop()


@pytest.mark.parametrize("recalled", ["before", "behind"])
async def test_a_recall_beside_a_damaged_unit_hides_nothing(tmp_path: Path, recalled: str) -> None:
    """It counts -1: as many units as its slot says are no proof that there are no others."""
    for damaged in range(4):
        timers = Timers(tmp_path / str(damaged))
        timers.send(b"a0", 20_100)
        if recalled == "before":
            timers.send(b"x", 20_150)
        out = (NOW_MS + 20_149) // 1000 * 1000
        timers.send(b"y", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY="x")
        if recalled == "behind":  # without what the damage hides there are as many as it counts
            timers.send(b"x", 20_150)
        timers.send(b"a1", 20_200)
        await timers.save()
        timers.die()
        lose(timers, TIMER_LOG, damaged * UNIT_BYTES + 20, 1)
        timers.begin()
        all_once(timers, "a", count=2)
        timers.stop()


async def test_a_sweep_that_fails_midway_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file number, say, for the timers' queue: what it has not seen is seen later."""
    timers = Timers(tmp_path)
    wait_for_some(timers, "a")
    for number in range(20, 700):
        timers.send(b"a%d" % number, 20_100)
    await timers.save()
    timers.die()
    lose(timers, TIMER_LOG, 5 * UNIT_BYTES, 2 * UNIT_BYTES)
    timers.begin()
    entry, calls = ConsumeQueue.entry, 0

    def failing(queue: ConsumeQueue, offset: int) -> tuple[int, int, int]:
        nonlocal calls
        calls += 1
        if calls % 97 == 0 and queue.topic == TIMER_TOPIC:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return entry(queue, offset)

    monkeypatch.setattr(ConsumeQueue, "entry", failing)
    timers.clock.advance(60_000)
    monkeypatch.undo()
    all_once(timers, "a", count=700)
    assert calls > 97
    timers.stop()
