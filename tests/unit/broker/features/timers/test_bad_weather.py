"""Power cuts, disks that refuse, files that are gone: what waits comes, and comes once."""

import errno
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.logs import ForgetfulFiles, bodies, settle
from support.features.timers import Timers

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import TIMER_CHECK, TIMER_LOG, TIMER_WHEEL, TIMERS

DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("seed", range(3))
async def test_power_cuts_lose_nothing_that_was_synced(tmp_path: Path, seed: int) -> None:
    """Three lives on a disk that forgets and tears: what was synced is delivered in the end.

    A delivery that the disk forgot happens again; one that it kept does not.
    """
    print(f"seed {seed}")
    chance = random.Random(seed)
    files = ForgetfulFiles()
    timers = Timers(tmp_path, files)
    synced: set[bytes] = set()
    number = 0
    for _ in range(3):
        fresh: set[bytes] = set()
        for _ in range(chance.randint(1, 40)):
            timers.send(b"%d" % number, chance.choice((300, 900, 5000)))
            fresh.add(b"%d" % number)
            number += 1
            timers.clock.advance(chance.choice((1, 100, 400)))
            if chance.random() < 0.2:
                settle(timers.store)
                synced |= fresh
                if chance.random() < 0.7:
                    await timers.save()
        timers.die()
        files = files.crash(tmp_path, chance)
        timers.begin(files)
    timers.clock.advance(10_000)
    delivered = Counter(bodies(timers.store, "T"))
    assert synced <= delivered.keys()
    assert set(delivered.values()) <= {1}
    timers.die()


@pytest.mark.parametrize("word", ["aerobee.timers", "timerwheel", "timerlog", "timercheck"])
async def test_a_disk_that_refuses_a_note_costs_nothing(tmp_path: Path, word: str) -> None:
    """Whichever file it is of, the next note has it all, and a kill before that loses nothing."""
    files = Files()
    refused = True

    def write(fd: int, data: bytes | memoryview, at: int) -> None:
        if refused and word in str(Path(f"/proc/self/fd/{fd}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        Files.write(files, fd, data, at)

    files.write = write  # type: ignore[method-assign]
    timers = Timers(tmp_path, files)
    for life in range(3):
        for number in range(20):
            timers.send(b"%d-%d" % (life, number), 500 + 100 * number)
        timers.clock.advance(1000)
        await timers.save()
        if life == 1:
            refused = False
            await timers.save()
            refused = True
        timers.die()
        timers.begin(files)
    timers.clock.advance(10_000)
    found = Counter(bodies(timers.store, "T"))
    assert len(found) == 60 and set(found.values()) == {1}
    refused = False
    timers.stop()


@pytest.mark.parametrize(
    "lost",
    [(TIMERS,), (TIMER_WHEEL,), (TIMERS, TIMER_WHEEL), (TIMERS, TIMER_LOG, TIMER_WHEEL),
     (TIMERS, TIMER_LOG, TIMER_WHEEL, TIMER_CHECK)],
)  # fmt: skip
async def test_files_that_are_gone_are_made_again(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """From the timer log, or from the timers' queue and the marks of what was delivered."""
    timers = Timers(tmp_path)
    for number in range(60):
        timers.send(b"%d" % number, 500 + 100 * number)
        if number == 30:
            timers.clock.advance(1000)
            await timers.save()
    timers.clock.advance(1234)
    timers.die()
    for name in lost:
        path = tmp_path / name
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            file.unlink()
    timers.begin()
    timers.clock.advance(20_000)
    found = Counter(bodies(timers.store, "T"))
    assert len(found) == 60 and set(found.values()) == {1}
    timers.stop()


@pytest.mark.parametrize(
    "lost", [(TIMERS,), (TIMERS, TIMER_LOG, TIMER_WHEEL),
             (TIMERS, TIMER_LOG, TIMER_WHEEL, TIMER_CHECK)],
)  # fmt: skip
async def test_what_was_rolled_comes_once_without_files(
    tmp_path: Path, lost: tuple[str, ...]
) -> None:
    """Though it was put aside once more where the log has been written for long since."""
    timers = Timers(tmp_path, timer_roll_window_slot=6)
    timers.send(b"a", 60_000)
    for _ in range(20):
        timers.clock.advance(2000)
        timers.send(b"f" * 200_000, 0, UNIQ_KEY="f")
        await timers.save()
    timers.die()
    for name in lost:
        path = tmp_path / name
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            file.unlink()
    timers.begin()
    timers.clock.advance(30_000)
    assert [body for body in bodies(timers.store, "T") if len(body) == 1] == [b"a"]
    timers.stop()


async def test_what_is_held_back_for_weeks_costs_nothing(tmp_path: Path) -> None:
    """A message whose slot is not free yet waits for that without a spinning loop."""
    timers = Timers(tmp_path)
    timers.send(b"a", 1000)
    timers.keys = timers.keys.model_copy(update={"timer_stop_dequeue": True})
    timers.clock.wall_ms += 20 * DAY_MS
    timers.clock.advance(2000)
    timers.send(b"b", 2 * DAY_MS)
    steps = 0

    def counted(step: Callable[[], int | None] = timers.service._step) -> int | None:
        nonlocal steps
        steps += 1
        assert steps < 20
        return step()

    timers.service._step = counted  # type: ignore[method-assign]
    timers.clock.advance(5000)
    timers.keys = timers.keys.model_copy(update={"timer_stop_dequeue": False})
    timers.clock.advance(2000)
    assert bodies(timers.store, "T") == [b"a"]
    timers.clock.wall_ms += 2 * DAY_MS
    timers.clock.advance(2000)
    assert bodies(timers.store, "T") == [b"a", b"b"]
    timers.stop()
