"""What RocketMQ delivered since it last said how far it was, and was killed, is not repeated."""

from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, bodies, hosts, send
from support.features.delays import BORN
from support.features.timers import Timers

from aerobee.broker.features.timers.saving import COMPARED_WAIT_NOTES
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.features.timers.codecs import CHECK_BYTES
from aerobee.storage.layout import TIMER_CHECK


def stored_by_rocketmq(
    timers: Timers, topic: str, body: bytes, after_ms: int, at_ms: int, **more: str
) -> None:
    """Store what RocketMQ does of a message that waits: all properties, and no mark."""
    out = (NOW_MS + after_ms - 1) // 1000 * 1000
    texts = {
        "UNIQ_KEY": body.decode(), "TIMER_DELAY_MS": str(after_ms), "REAL_TOPIC": "T",
        "REAL_QID": "0", "TIMER_OUT_MS": str(out), "TIMER_ENQUEUE_MS": str(NOW_MS),
        "TIMER_DEQUEUE_MS": str(NOW_MS + at_ms), **more,
    }  # fmt: skip
    store_as(timers, topic, body, texts, at_ms)


def store_as(
    timers: Timers, topic: str, body: bytes, texts: dict[str, str], at_ms: int,
    born_ms: int = NOW_MS - 5, born: tuple[str, int] = BORN,
) -> None:  # fmt: skip
    """Store a message with these properties, of this birth."""
    properties = "".join(f"{name}\x01{value}\x02" for name, value in texts.items()).encode()
    stamp, log = hosts(NOW_MS + at_ms, born), timers.store.commit_log
    log.append(timers.store.queue(topic, 0), 0, 0, born_ms, stamp, body, properties, 0)
    log.commit()


def delivered_by_rocketmq(timers: Timers, body: bytes, after_ms: int, **more: str) -> None:
    """Store what RocketMQ does when a message is due."""
    stored_by_rocketmq(timers, "T", body, after_ms, after_ms + 500, **more)


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


@pytest.mark.parametrize("rolled", [1, 2])
async def test_what_was_put_aside_once_more_comes_once(tmp_path: Path, rolled: int) -> None:
    """RocketMQ was killed before it said that the slot is done which the message was in."""
    timers = Timers(tmp_path, timer_roll_window_slot=6)
    timers.send(b"other", 40_200)
    timers.send(b"a", 40_100)
    timers.send(b"twice", 40_300)
    await timers.save()
    stored_by_rocketmq(timers, TIMER_TOPIC, b"a", 40_100, 6_500, TIMER_ROLL_TIMES="1")
    if rolled == 2:
        stored_by_rocketmq(timers, TIMER_TOPIC, b"a", 40_100, 12_500, TIMER_ROLL_TIMES="2")
    stored_by_rocketmq(timers, TIMER_TOPIC, b"twice", 40_300, 6_500)  # sent so: another message
    timers.die()
    had_by_another(tmp_path)
    timers.begin()
    for _ in range(60):
        timers.clock.advance(1000)
    assert sorted(bodies(timers.store, "T")) == [b"a", b"other", b"twice", b"twice"]
    timers.stop()


async def test_a_second_start_compares_as_well(tmp_path: Path) -> None:
    """No note says that marks tell all before what RocketMQ delivered has been passed over."""
    timers = Timers(tmp_path)
    timers.send(b"a", 20_100)
    timers.send(b"b", 20_200)
    await timers.save()
    delivered_by_rocketmq(timers, b"a", 20_100)
    timers.die()
    had_by_another(tmp_path)
    timers.clock.wall_ms += 21_000
    timers.keys = timers.keys.model_copy(update={"timer_stop_dequeue": True})
    for end in (timers.die, timers.stop):
        timers.begin()
        timers.clock.advance(2000)
        timers.send(b"more", 60_000)
        await timers.save()
        end()
    timers.keys = timers.keys.model_copy(update={"timer_stop_dequeue": False})
    timers.begin()
    timers.clock.advance(5000)
    assert bodies(timers.store, "T") == [b"a", b"b"]
    await timers.save()
    timers.die()
    timers.begin()
    timers.clock.advance(5000)
    assert bodies(timers.store, "T") == [b"a", b"b"]
    timers.stop()


async def test_notes_are_written_again_after_a_while(tmp_path: Path) -> None:
    """Though nothing is delivered: memory has an end, and so has what a start reads."""
    timers = Timers(tmp_path)
    timers.send(b"a", 20_100)
    await timers.save()
    delivered_by_rocketmq(timers, b"a", 20_100)
    timers.die()
    had_by_another(tmp_path)
    timers.keys = timers.keys.model_copy(update={"timer_stop_dequeue": True})
    timers.begin()
    timers.send(b"b", 90_000)
    for _ in range(COMPARED_WAIT_NOTES):
        await timers.save()
    assert timers.service.index.unwritten_bytes
    await timers.save()
    assert not timers.service.index.unwritten_bytes
    timers.stop()


@pytest.mark.parametrize("wheel", [True, False])
@pytest.mark.parametrize(("of", "stays"), [("T", False), ("U", True)])
async def test_a_mark_that_another_broker_took_of_a_producer(
    tmp_path: Path, *, of: str, stays: bool, wheel: bool
) -> None:
    """RocketMQ stores ours as any property: it counts for a message that it is alike alone.

    With `timerWheelEnable=false` it leaves the check as it was, and our note looks true.
    """
    timers = Timers(tmp_path)
    timers.send(b"a", 20_100, topic=of)
    await timers.save()
    texts = {"UNIQ_KEY": "a", "REAL_TOPIC": "T", "AEROBEE_DELAYED": "timer-0"}
    store_as(timers, "T", b"a", texts, 20_300)
    timers.die()
    if wheel:
        had_by_another(tmp_path)
    timers.begin()
    timers.clock.advance(30_000)
    assert bodies(timers.store, "T") == [b"a"]
    assert bodies(timers.store, of)[-1:] == ([b"a"] if stays or of == "T" else [])
    timers.stop()


@pytest.mark.parametrize("other", ["body", "born_ms", "born"])
async def test_what_another_producer_sends_is_no_delivery(tmp_path: Path, other: str) -> None:
    """It may send all properties of one, and the message that waits comes nevertheless."""
    timers = Timers(tmp_path)
    timers.send(b"a", 20_100)
    await timers.save()
    texts = {
        "UNIQ_KEY": "a", "TIMER_DELAY_MS": "20100", "REAL_TOPIC": "T", "REAL_QID": "0",
        "TIMER_OUT_MS": str(NOW_MS + 20_000), "TIMER_DEQUEUE_MS": str(NOW_MS + 20_600),
    }  # fmt: skip
    body = b"forged" if other == "body" else b"a"
    born_ms = NOW_MS - 6 if other == "born_ms" else NOW_MS - 5
    born = (BORN[0], BORN[1] + 1) if other == "born" else BORN
    store_as(timers, "T", body, texts, 20_600, born_ms, born)
    timers.die()
    had_by_another(tmp_path)
    timers.begin()
    timers.clock.advance(30_000)
    assert bodies(timers.store, "T") == [body, b"a"]
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
