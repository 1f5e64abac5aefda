"""What goes wrong around messages that wait: clocks, flipped bits, doubled recalls, new limits."""

from pathlib import Path

import msgspec
import pytest
from support.disks.logs import bodies
from support.features.timers import Timers

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
