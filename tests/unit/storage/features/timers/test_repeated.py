"""What RocketMQ delivered since it last said how far it was, and was killed, is not repeated."""

from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, bodies, send
from support.features.timers import Timers

from aerobee.storage.features.timers.codecs import CHECK_BYTES
from aerobee.storage.layout import TIMER_CHECK


def delivered_by_rocketmq(timers: Timers, body: bytes, after_ms: int) -> None:
    """Store what RocketMQ does when a message is due: all properties, and no mark."""
    out = (NOW_MS + after_ms - 1) // 1000 * 1000
    texts = {
        "UNIQ_KEY": body.decode(), "TIMER_DELAY_MS": str(after_ms), "REAL_TOPIC": "T",
        "REAL_QID": "0", "TIMER_OUT_MS": str(out), "TIMER_ENQUEUE_MS": str(NOW_MS),
        "TIMER_DEQUEUE_MS": str(NOW_MS + after_ms + 500),
    }  # fmt: skip
    properties = "".join(f"{name}\x01{value}\x02" for name, value in texts.items()).encode()
    send(timers.store, "T", body=body, properties=properties, now_ms=NOW_MS + after_ms + 500)


def had_by_another(root: Path) -> None:
    """Let the check be one that our note does not know."""
    path = root / TIMER_CHECK
    data = bytearray(path.read_bytes())
    data[CHECK_BYTES - 8 : CHECK_BYTES] = (9000).to_bytes(8, "big")
    data[CHECK_BYTES - 16 : CHECK_BYTES - 8] = (NOW_MS + 77).to_bytes(8, "big")
    path.write_bytes(data)


async def test_what_was_delivered_without_a_mark(tmp_path: Path) -> None:
    """Of a retry, stored twice, the second one is left; a foreign second, topic or key is none."""
    timers = Timers(tmp_path)
    for body, after_ms in ((b"a", 20_100), (b"a", 20_150), (b"b", 20_200), (b"c", 21_100)):
        timers.send(body, after_ms)
    await timers.save()
    timers.send(b"late", 20_300)  # of which no unit is on the disk
    timers.send(b"last", 20_400)
    delivered_by_rocketmq(timers, b"a", 20_100)
    delivered_by_rocketmq(timers, b"late", 20_300)
    delivered_by_rocketmq(timers, b"b", 28_200)  # another message of that key
    delivered_by_rocketmq(timers, b"never", 20_200)
    timers.die()
    had_by_another(tmp_path)
    before = [b"a", b"late", b"b", b"never"]
    timers.clock.wall_ms += 60_000
    timers.begin()
    timers.clock.advance(5000)
    assert sorted(bodies(timers.store, "T")) == sorted([*before, b"a", b"b", b"c", b"last"])
    timers.die()
    timers.begin()
    timers.clock.advance(5000)
    assert sorted(bodies(timers.store, "T")) == sorted([*before, b"a", b"b", b"c", b"last"])
    timers.stop()


async def test_without_another_broker_nothing_is_compared(tmp_path: Path) -> None:
    """A note that is believed says it all: what a client sends with such properties is its own."""
    timers = Timers(tmp_path)
    timers.send(b"a", 20_100)
    await timers.save()
    delivered_by_rocketmq(timers, b"a", 20_100)
    timers.die()
    timers.begin()
    timers.clock.advance(30_000)
    assert bodies(timers.store, "T") == [b"a", b"a"]
    timers.stop()


@pytest.mark.parametrize("out", ["9" * 5000, "9" * 19, "-1", "\u0663", "soon"])
async def test_what_a_producer_wrote_as_its_second_stops_no_start(tmp_path: Path, out: str) -> None:
    """Properties of a delivery are the user's to write; the timers that wait are delivered."""
    timers = Timers(tmp_path)
    timers.send(b"a", 20_100)
    await timers.save()
    texts = {"UNIQ_KEY": "a", "REAL_TOPIC": "T", "TIMER_OUT_MS": out, "TIMER_DEQUEUE_MS": "1"}
    properties = "".join(f"{name}\x01{value}\x02" for name, value in texts.items()).encode()
    send(timers.store, "T", body=b"odd", properties=properties, now_ms=NOW_MS + 1)
    timers.die()
    had_by_another(tmp_path)
    timers.begin()
    timers.clock.advance(30_000)
    assert bodies(timers.store, "T") == [b"odd", b"a"]
    timers.stop()
