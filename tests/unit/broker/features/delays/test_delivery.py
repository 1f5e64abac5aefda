"""Delivery of delayed messages: when, in which shape, and what a clock or a log may do to it."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.disks.logs import NOW_MS, bodies, read_all
from support.features.delays import BORN, LEVELS_MS, Delays

from aerobee.broker.features.delays.delivery import SLICE_MESSAGES
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.tags import java_string_hash

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
async def delays(tmp_path: Path) -> AsyncIterator[Delays]:
    """A service over a fresh store."""
    made = Delays(tmp_path)
    yield made
    made.service.stop()
    made.store.close()


async def test_a_message_comes_back_at_its_time(delays: Delays) -> None:
    """Not a millisecond early, in its own topic and queue, as it was but for one property."""
    delays.delay(b"a", TAGS="TagA", queue_id=3)
    delays.clock.advance(LEVELS_MS[0] - 1)
    assert bodies(delays.store, "T", 3) == []
    delays.clock.advance(1)
    (record,) = read_all(delays.store, "T", 3)
    (waited,) = read_all(delays.store, SCHEDULE)
    assert (record.body, record.flag, record.reconsume_times) == (b"a", 7, 2)
    assert (record.born_host, record.born_timestamp) == (BORN, NOW_MS - 5)
    assert record.store_host == waited.store_host
    assert record.store_timestamp == NOW_MS + LEVELS_MS[0]
    assert parse_properties(record.properties) == {
        "UNIQ_KEY": "a", "DELAY": "1", "TAGS": "TagA", "REAL_TOPIC": "T", "REAL_QID": "3",
        "AEROBEE_DELAYED": "1-0",
    }  # fmt: skip
    assert record.properties.startswith(waited.properties)


async def test_entries_hold_due_times_and_then_tags(delays: Delays) -> None:
    """The tags code of a waiting message is its time, that of a delivered one its tag's hash."""
    delays.delay(b"a", level=2, TAGS="TagA")
    waiting = delays.store.find_queue(SCHEDULE, 1)
    assert waiting is not None and waiting.entry(0)[2] == NOW_MS + LEVELS_MS[1]
    delays.clock.advance(LEVELS_MS[1])
    delivered = delays.store.find_queue("T", 0)
    assert delivered is not None and delivered.entry(0)[2] == java_string_hash("TagA")


async def test_levels_do_not_wait_for_each_other(delays: Delays) -> None:
    """Each level is a queue of its own; within a level messages keep their order."""
    delays.delay(b"slow", level=2)
    delays.delay(b"quick")
    delays.clock.advance(500)
    delays.delay(b"later")
    delays.clock.advance(500)
    assert bodies(delays.store, "T") == [b"quick"]
    delays.clock.advance(500)
    assert bodies(delays.store, "T") == [b"quick", b"later"]
    delays.clock.advance(3500)
    assert bodies(delays.store, "T") == [b"quick", b"later", b"slow"]


async def test_a_level_beyond_the_last_is_the_last(delays: Delays) -> None:
    """And the message says so (HookUtils.transformDelayLevelMessage)."""
    delays.delay(b"a", level=99)
    (record,) = read_all(delays.store, SCHEDULE, len(LEVELS_MS) - 1)
    assert parse_properties(record.properties)["DELAY"] == str(len(LEVELS_MS))


async def test_there_is_no_timer_while_nothing_waits(delays: Delays) -> None:
    """Neither before the first message nor after the last; while some wait there is one."""
    assert not delays.clock.pending
    for number in range(50):
        delays.delay(b"%d" % number, level=1 + number % 3)
    assert len(delays.clock.pending) == 1
    delays.clock.advance(LEVELS_MS[-1])
    assert len(bodies(delays.store, "T")) == 50
    assert not delays.clock.pending


async def test_many_due_at_once_take_many_turns(delays: Delays) -> None:
    """One turn of the loop delivers a bounded slice, and every level has its turn."""
    count = 3 * SLICE_MESSAGES
    for number in range(count):
        delays.delay(b"%d" % number)
    delays.clock.advance(10)
    delays.delay(b"other", level=2, topic="Other")
    delays.clock.wall_ms += LEVELS_MS[1]
    call = delays.clock.pending[0]
    call.cancel()
    call.run()
    assert len(bodies(delays.store, "T")) == SLICE_MESSAGES
    call = delays.clock.pending[0]
    call.cancel()
    call.run()
    assert bodies(delays.store, "Other") == [b"other"], "not behind the long backlog"
    delays.clock.advance(0)
    assert bodies(delays.store, "T") == [b"%d" % number for number in range(count)]


async def test_a_clock_that_is_set_back_holds_nothing_back(delays: Delays) -> None:
    """Nothing waits longer than its level, whatever the time of day was when it was stored."""
    delays.delay(b"a", level=2)
    delays.clock.wall_ms -= 3_600_000
    delays.clock.advance(LEVELS_MS[1])
    assert bodies(delays.store, "T") == [b"a"]


async def test_a_clock_that_is_set_forward_is_noticed_within_a_second(delays: Delays) -> None:
    """A machine that slept delivers soon after it woke up."""
    delays.delay(b"a", level=3)
    delays.clock.advance(10)
    delays.clock.wall_ms += LEVELS_MS[2]
    delays.clock.advance(1000)
    assert bodies(delays.store, "T") == [b"a"]


async def test_what_cannot_be_delivered_is_passed_over(
    delays: Delays, caplog: pytest.LogCaptureFixture
) -> None:
    """A record that names no topic, an impossible one or another delay is logged, not retried."""
    bad: list[dict[str, Any]] = [
        {"topic": ""}, {"topic": "no such name"}, {"topic": SCHEDULE},
        {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, {"queue_id": 1 << 20},
    ]  # fmt: skip
    for more in bad:
        delays.delay(b"bad", **more)
    delays.delay(b"good")
    delays.clock.advance(LEVELS_MS[0])
    assert bodies(delays.store, "T") == [b"good"]
    dropped = [record for record in caplog.records if "dropped" in record.getMessage()]
    assert len(dropped) == len(bad)
    assert not delays.clock.pending


@pytest.mark.parametrize("size", [0, 7, 0x7FFF_FFFE, 100_000, -5])
async def test_a_wrong_size_in_a_levels_queue_loses_no_message(delays: Delays, size: int) -> None:
    """The entry leads to the message, and the message says that it is the one."""
    for number in range(3):
        delays.delay(b"%d" % number)
    waiting = delays.store.find_queue(SCHEDULE, 0)
    assert waiting is not None
    position, _, code = waiting.entry(1)
    waiting.put(1, position, size, code)
    delays.clock.advance(LEVELS_MS[0])
    assert bodies(delays.store, "T") == [b"0", b"1", b"2"]


async def test_a_wrong_position_in_a_levels_queue_delivers_nobody_elses_message(
    delays: Delays, caplog: pytest.LogCaptureFixture
) -> None:
    """An entry that leads to another message's record, which is sound, is told and passed over."""
    for number in range(3):
        delays.delay(b"%d" % number)
    waiting = delays.store.find_queue(SCHEDULE, 0)
    assert waiting is not None
    waiting.put(1, *waiting.entry(2))
    delays.clock.advance(LEVELS_MS[0])
    assert bodies(delays.store, "T") == [b"0", b"2"]
    assert any("delayed_message_dropped" in line for line in caplog.messages)


async def test_a_full_log_delays_and_loses_nothing(
    delays: Delays, caplog: pytest.LogCaptureFixture
) -> None:
    """While the disk is too full nothing is delivered, told once; afterwards everything, once."""
    for number in range(3):
        delays.delay(b"%d" % number)
    delays.store.commit_log.set_disk_full(True)
    with caplog.at_level(logging.ERROR):
        delays.clock.advance(10_000)
    assert bodies(delays.store, "T") == []
    assert sum("delayed_delivery_waits" in line for line in caplog.messages) == 1
    delays.store.commit_log.set_disk_full(False)
    delays.clock.advance(1000)
    assert bodies(delays.store, "T") == [b"0", b"1", b"2"]


async def test_a_fault_of_ours_repeats_nothing(
    delays: Delays, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was stored before it counts, and the rest follows a second later."""
    for number in range(4):
        delays.delay(b"%d" % number)
    append, calls = delays.appender.append, iter(range(100))

    def broken(*arguments: Any) -> list[int]:
        if next(calls) == 2:
            raise RuntimeError("a fault")
        return append(*arguments)

    monkeypatch.setattr(delays.appender, "append", broken)
    delays.clock.advance(LEVELS_MS[0])
    assert bodies(delays.store, "T") == [b"0", b"1"]
    assert any("delayed_delivery_failed level=1" in line for line in caplog.messages)
    delays.clock.advance(1000)
    assert bodies(delays.store, "T") == [b"0", b"1", b"2", b"3"]


async def test_messages_that_the_log_let_go_are_passed_over(
    delays: Delays, caplog: pytest.LogCaptureFixture
) -> None:
    """A log that is kept for a shorter time than a level lasts loses what waits, and says so."""
    for number in range(2):
        delays.delay(b"%d" % number)
    waiting = delays.store.find_queue(SCHEDULE, 0)
    assert waiting is not None
    waiting.trim(delays.delay(b"2"))
    delays.clock.advance(LEVELS_MS[0])
    assert bodies(delays.store, "T") == [b"2"]
    assert any("delayed_messages_lost level=1 from=0 to=2" in line for line in caplog.messages)


async def test_a_wait_before_the_last_store_leaves_no_trace(delays: Delays) -> None:
    """A message that RocketMQ copied with our mark of an earlier wait carries the new mark only."""
    delays.delay(b"a", AEROBEE_DELAYED="1-0")
    delays.delay(b"b")
    delays.clock.advance(LEVELS_MS[0])
    marks = [
        parse_properties(record.properties)["AEROBEE_DELAYED"]
        for record in read_all(delays.store, "T")
    ]
    assert marks == ["1-0", "1-1"]


async def test_fewer_levels_than_before_leave_messages_and_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages of a level that messageDelayLevel no longer has stay, as with RocketMQ."""
    delays = Delays(tmp_path)
    delays.delay(b"a", level=3)
    delays.store.close()
    with caplog.at_level(logging.WARNING):
        again = Delays(tmp_path, delay_levels_ms=LEVELS_MS[:2])
    assert any("delayed_messages_stay level=3 count=1" in line for line in caplog.messages)
    again.clock.advance(LEVELS_MS[2])
    assert bodies(again.store, "T") == []
    again.store.close()
