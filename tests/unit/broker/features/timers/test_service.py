"""Messages with a time of their own: when they come, in which shape, and once, whatever happens."""

import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, bodies, read_all
from support.features.delays import BORN
from support.features.timers import Timers

from aerobee.broker.features.timers.outgoing import DueMessages
from aerobee.broker.features.timers.reading import LEAD_MS
from aerobee.broker.features.timers.service import SLICE_MESSAGES
from aerobee.broker.features.timers.waiting import WaitingRecord
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.recall_handle import decode_recall_handle
from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.errors import LogFull

HOUR_MS = 3_600_000


@pytest.fixture
async def timers(tmp_path: Path) -> AsyncIterator[Timers]:
    """A service over a fresh store."""
    made = Timers(tmp_path)
    yield made
    made.stop()


@pytest.mark.parametrize("after_ms", [1, 499, 1000, 1001, 5000, 70_123])
async def test_a_message_comes_at_its_millisecond(timers: Timers, after_ms: int) -> None:
    """Not one early, in its own topic and queue, with RocketMQ's properties and ours."""
    timers.send(b"a", after_ms, TAGS="TagA", queue_id=3)
    timers.clock.advance(after_ms - 1)
    assert bodies(timers.store, "T", 3) == []
    timers.clock.advance(1)
    (record,) = read_all(timers.store, "T", 3)
    (waited,) = read_all(timers.store, TIMER_TOPIC)
    assert (record.body, record.flag, record.reconsume_times) == (b"a", 7, 2)
    assert (record.born_host, record.born_timestamp) == (BORN, NOW_MS - 5)
    assert record.store_timestamp == NOW_MS + after_ms
    assert parse_properties(record.properties) == {
        "UNIQ_KEY": "a", "TAGS": "TagA", "REAL_TOPIC": "T", "REAL_QID": "3",
        "TIMER_DELAY_MS": str(after_ms),
        "TIMER_OUT_MS": str(NOW_MS + (after_ms - 1) // 1000 * 1000),
        "TIMER_ENQUEUE_MS": str(NOW_MS), "TIMER_DEQUEUE_MS": str(NOW_MS + after_ms),
        "AEROBEE_DELAYED": "timer-0",
    }  # fmt: skip
    assert record.properties.startswith(waited.properties)


async def test_seconds_and_times_are_told_apart(timers: Timers) -> None:
    """TIMER_DELAY_SEC before TIMER_DELAY_MS before TIMER_DELIVER_MS; a level before all."""
    timers.send(b"s", TIMER_DELAY_SEC="2", TIMER_DELAY_MS="1", TIMER_DELIVER_MS="1")
    timers.send(b"m", TIMER_DELAY_MS="500", TIMER_DELIVER_MS="1")
    timers.send(b"t", TIMER_DELIVER_MS=str(NOW_MS + 1234))
    timers.clock.advance(500)
    assert bodies(timers.store, "T") == [b"m"]
    timers.clock.advance(734)
    assert bodies(timers.store, "T") == [b"m", b"t"]
    timers.clock.advance(766)
    assert bodies(timers.store, "T") == [b"m", b"t", b"s"]


@pytest.mark.parametrize("value", ["-5", "0"])
async def test_what_is_due_is_stored_at_once(timers: Timers, value: str) -> None:
    """Without waiting, and without TIMER_OUT_MS."""
    timers.send(b"a", TIMER_DELAY_MS=value)
    (record,) = read_all(timers.store, "T")
    assert b"TIMER_OUT_MS" not in record.properties
    assert not timers.clock.pending and not timers.service.index.used


@pytest.mark.parametrize(
    "pairs",
    [
        {"TIMER_DELAY_MS": "soon"},
        {"TIMER_DELAY_MS": "259200001"},
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_SEC": "99999999999999999999"},
        {"TIMER_DELIVER_MS": str(NOW_MS), "TIMER_DEL_UNIQKEY": "a"},
    ],
)
async def test_a_time_that_cannot_be_is_refused(timers: Timers, pairs: dict[str, str]) -> None:
    """In RocketMQ's words."""
    with pytest.raises(
        RequestError, match="should not be bigger than the max delay 2592000"
    ) as why:
        timers.send(b"a", 0, "T", 0, **pairs)
    assert why.value.code == ResponseCode.MESSAGE_ILLEGAL


async def test_the_order_of_arrival_is_kept_within_a_millisecond(timers: Timers) -> None:
    """Also of a slot that is read in several steps, and of more than a slice."""
    due = NOW_MS + 10_000
    count = 12 * SLICE_MESSAGES
    for number in range(count):
        if number == count // 2:
            timers.clock.advance(due - LEAD_MS - NOW_MS)
        timers.send(b"%d" % number, TIMER_DELIVER_MS=str(due))
    timers.send(b"earlier", TIMER_DELIVER_MS=str(due - 1))
    timers.clock.advance(20_000)
    assert bodies(timers.store, "T") == [b"earlier", *(b"%d" % each for each in range(count))]
    stamps = [record.store_timestamp for record in read_all(timers.store, "T")]
    assert set(stamps[1:]) == {due}


async def test_there_is_no_timer_while_nothing_waits(timers: Timers) -> None:
    """Neither before the first message nor after the last; while some wait there is one."""
    assert not timers.clock.pending
    for number in range(50):
        timers.send(b"%d" % number, 1000 + 100 * number)
    assert len(timers.clock.pending) == 1
    timers.clock.advance(8000)
    assert len(bodies(timers.store, "T")) == 50
    assert not timers.clock.pending
    assert timers.service.index.waiting == 0 and timers.service.counts.current() == {"T": 0}


@pytest.mark.parametrize("early_ms", [30_000, 700])
async def test_a_message_is_taken_back(timers: Timers, early_ms: int) -> None:
    """By its key, as long as it is not due; others of its second come."""
    timers.send(b"a", 60_500)
    timers.send(b"b", 60_600)
    timers.clock.advance(60_500 - early_ms)
    out = (NOW_MS + 60_499) // 1000 * 1000
    timers.send(b"a", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY="a")
    timers.clock.advance(70_000)
    assert bodies(timers.store, "T") == [b"b"]
    assert not timers.clock.pending


async def test_a_reply_has_the_handle(timers: Timers) -> None:
    """Its time is the slot's, and a millisecond; what goes to a group's retries has none."""
    pairs = {"UNIQ_KEY": "K", "TIMER_DELAY_MS": "1500"}
    place = timers.placer.elsewhere(dict(pairs), "T", 0, NOW_MS)
    assert place is not None
    handle = decode_recall_handle(place.reply["recall_handle"])
    assert (handle.topic, handle.broker_name, handle.key) == ("T", "b", "K")
    assert handle.time_ms == str(NOW_MS + 1001)
    place = timers.placer.elsewhere(dict(pairs), "%RETRY%g", 0, NOW_MS)
    assert place is not None and not place.reply


async def test_what_waits_long_is_rolled(tmp_path: Path) -> None:
    """It is stored once more after a day or two, and comes at its millisecond all the same."""
    timers = Timers(tmp_path, timer_roll_window_slot=6)
    timers.send(b"a", 20_345)
    timers.send(b"b", 20_345, TIMER_DELIVER_MS=str(NOW_MS + 20_345))
    timers.clock.advance(12_000)
    timers.die()
    timers.begin()
    timers.clock.advance(20_345 - 12_000 - 1)
    assert bodies(timers.store, "T") == []
    timers.clock.advance(1)
    assert sorted(bodies(timers.store, "T")) == [b"a", b"b"]
    for record in read_all(timers.store, "T"):
        assert int(parse_properties(record.properties)["TIMER_ROLL_TIMES"]) >= 2
    timers.clock.advance(30_000)
    assert len(bodies(timers.store, "T")) == 2
    timers.stop()


async def test_a_full_disk_drops_nothing(timers: Timers, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due waits, in its order, until the log takes it: RocketMQ drops it after 1.5 s."""
    for number in range(5):
        timers.send(b"%d" % number, 1000 + number)

    def full(*_: object) -> list[int]:
        raise LogFull("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(timers.appender, "append", full)
        timers.clock.advance(30_000)
    assert bodies(timers.store, "T") == []
    timers.clock.advance(2000)
    assert bodies(timers.store, "T") == [b"%d" % number for number in range(5)]


async def test_what_came_before_a_fault_does_not_come_again(
    timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No memory for one message: those before it are in the log, it follows when there is some."""
    deliver, faults = DueMessages.deliver, [MemoryError("for one message")]

    def fails_once(self: DueMessages, record: WaitingRecord) -> str:
        if record.body == b"2" and faults:
            raise faults.pop()
        return deliver(self, record)

    monkeypatch.setattr(DueMessages, "deliver", fails_once)
    for number in range(4):
        timers.send(b"%d" % number, 1500)
    timers.clock.advance(5000)
    assert bodies(timers.store, "T") == [b"0", b"1", b"2", b"3"]
    assert timers.service.counts.current() == {"T": 0} and not faults


async def test_a_clock_that_is_set(timers: Timers) -> None:
    """Back: what comes is due by the new time, and nothing twice; forward: all that is due."""
    timers.send(b"a", 2000)
    timers.clock.advance(3000)
    timers.clock.wall_ms -= HOUR_MS
    timers.send(b"b", 2000)
    timers.clock.advance(1999)
    assert bodies(timers.store, "T") == [b"a"]
    timers.clock.advance(1)
    assert bodies(timers.store, "T") == [b"a", b"b"]
    timers.send(b"c", 5 * HOUR_MS)
    timers.clock.wall_ms += 6 * HOUR_MS
    timers.clock.advance(1000)
    assert bodies(timers.store, "T") == [b"a", b"b", b"c"]


@pytest.mark.parametrize("seed", range(3))
async def test_each_comes_once_whatever_ends_the_process(tmp_path: Path, seed: int) -> None:
    """Killed, stopped, away for weeks, with notes and without; in time while it runs."""
    dice = random.Random(seed)
    timers, due = Timers(tmp_path), {}
    for life in range(6):
        for number in range(100):
            body, after_ms = b"%d-%d" % (life, number), dice.randrange(1, 8000)
            due[body] = timers.clock.wall_ms + after_ms
            timers.send(body, after_ms)
            if not number % 10:
                timers.clock.advance(dice.randrange(50))
            if dice.random() < 0.03:
                await timers.save()
        timers.clock.advance(dice.randrange(3000))
        if dice.random() < 0.4:
            timers.stop()
        else:
            timers.die()
        if dice.random() < 0.3:
            timers.clock.wall_ms += 20 * 24 * HOUR_MS
        timers.begin()
    timers.clock.advance(10_000)
    found = Counter(bodies(timers.store, "T"))
    assert set(found.values()) == {1} and found.keys() == due.keys()
    early = [r for r in read_all(timers.store, "T") if r.store_timestamp < due[r.body]]
    assert not early
    assert timers.service.counts.current() == {"T": 0} and not timers.clock.pending
    timers.stop()


async def test_a_recall_far_behind_its_message_counts_after_a_kill(timers: Timers) -> None:
    """A start that finds both overdue takes in all that waits before it delivers anything."""
    timers.send(b"taken back", 1500)
    for number in range(4 * SLICE_MESSAGES):
        timers.send(b"%d" % number, 3000)
    out = NOW_MS + 1000
    timers.send(b"0", TIMER_DELIVER_MS=str(out + 1), TIMER_DEL_UNIQKEY="taken back")
    timers.die()
    timers.clock.wall_ms += 10_000
    timers.begin()
    timers.clock.advance(2000)
    assert sorted(bodies(timers.store, "T")) == sorted(b"%d" % n for n in range(4 * SLICE_MESSAGES))
