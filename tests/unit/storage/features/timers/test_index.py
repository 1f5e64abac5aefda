"""Wheel and timer log against a model of what waits, over notes, kills and files that are lost."""

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.disks.logs import opened, send, small

from aerobee.remoting.words import TIMER_TOPIC
from aerobee.storage.features.timers.codecs import DELETE, ROLL, SLOTS, WHEEL_BYTES
from aerobee.storage.features.timers.index import TimerIndex, Waiting
from aerobee.storage.features.timers.recovery import TimerRecovery
from aerobee.storage.features.timers.timer_log import TimerLog
from aerobee.storage.layout import TIMER_CHECK, TIMER_LOG, TIMER_WHEEL, TIMERS
from aerobee.storage.store import MessageStore

NOW_S = 1_700_000_000
LOG_BYTES = 4096


class Model:
    """An index over a store, with what it should hold."""

    def __init__(self, root: Path) -> None:
        self.settings = small(root, segment_bytes=1 << 20, window_bytes=1 << 16)
        self.waits: dict[int, list[int]] = defaultdict(list)  # positions by second
        self.begin()

    def begin(self) -> None:
        """Open the store and recover."""
        self.store: MessageStore = opened(self.settings)
        self.index = TimerIndex(self.store, LOG_BYTES, 172_800)
        TimerRecovery(self.store, self.index).run(NOW_S)
        while self.index.behind:
            self.add()

    def add(self, out_s: int | None = None, *, is_delete: bool = False) -> int | None:
        """Have the next message of the queue wait, which is sent if a second is said."""
        if out_s is not None:
            self.index.begin(NOW_S)
            send(self.store, TIMER_TOPIC, body=b"%d %d" % (out_s, is_delete))
        queue = self.store.find_queue(TIMER_TOPIC, 0)
        assert queue is not None
        offset = self.index.next_offset
        position, size, _ = queue.entry(offset)
        data = self.store.record_at(position)
        assert data is not None
        text = data[88:].split(b"\x13")[0].decode()
        out, flag = text.split(" ")
        message = Waiting(offset, position, size, int(out), int(out) * 1000 + 1, flag == "1")
        time_s = self.index.add(message, NOW_S)
        if out_s is not None and time_s is not None:
            self.waits[time_s].append(position)
        return time_s

    def note(self) -> None:
        """Write what there is."""
        shot = self.index.snapshot(b"{}", 1)
        self.index.write(shot)
        self.index.wrote(shot)

    def check(self) -> None:
        """Compare every second from the first one that is not done."""
        seen = self.index.read_s
        found: dict[int, list[int]] = {}
        while (time_s := self.index.wheel.next_used(seen)) is not None and time_s >= seen:
            found[time_s] = [unit.position for unit in self.index.chain(time_s)][::-1]
            seen = time_s + 1
        expected = {
            time_s: positions
            for time_s, positions in self.waits.items()
            if time_s >= self.index.read_s
        }
        assert found == expected

    def end(self) -> None:
        """End as a killed process does."""
        self.index.close()
        self.store.abandon()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 40)),
        st.tuples(st.sampled_from(["note", "kill", "lose wheel", "advance"]), st.integers(1, 9)),
    ),
    max_size=60,
)


@settings(max_examples=12, deadline=None)
@given(steps=STEPS)
def test_what_waits_is_what_was_put_there(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Seconds, order of arrival; the files of what a killed process noted, and all of it after it.

    The wheel's file may be gone when only it is: a note writes it once more from the timer log.
    """
    model = Model(tmp_path_factory.mktemp("store"))
    for step, number in steps:
        if step == "add":
            model.add(NOW_S + number)
        elif step == "note":
            model.note()
        elif step == "advance" and model.index.used:
            first = model.index.wheel.next_used(model.index.read_s)
            if first is not None:
                model.index.advance(first + 1)
                model.note()
        elif step in ("kill", "lose wheel"):
            model.end()
            if step == "lose wheel":
                for name in (TIMER_WHEEL, TIMERS):
                    (model.settings.root / name).unlink(missing_ok=True)
            model.begin()
        model.check()
    model.end()


def test_nothing_is_made_before_something_waits(tmp_path: Path) -> None:
    """Neither a file nor the memory of a wheel."""
    model = Model(tmp_path)
    assert not model.index.used and not model.index.changed
    model.end()
    names = (TIMER_WHEEL, TIMER_LOG, TIMER_CHECK, TIMERS)
    assert not any((tmp_path / name).exists() for name in names)


def test_the_files_have_rocketmqs_sizes(tmp_path: Path) -> None:
    """A wheel of all seconds, which is sparse; files of the timer log of one size each."""
    model = Model(tmp_path)
    for number in range(100):
        model.add(NOW_S + number)
    model.note()
    wheel = tmp_path / TIMER_WHEEL
    assert wheel.stat().st_size == WHEEL_BYTES
    assert wheel.stat().st_blocks * 512 < 1 << 20
    sizes = {path.stat().st_size for path in (tmp_path / TIMER_LOG).iterdir()}
    assert sizes == {LOG_BYTES}
    assert (tmp_path / TIMER_CHECK).stat().st_size == 4096
    model.check()
    model.end()


def test_what_is_far_away_is_rolled(tmp_path: Path) -> None:
    """A day if the rest is short, else two days, as RocketMQ does; a delete, too."""
    model = Model(tmp_path)
    assert model.add(NOW_S + 172_799) == NOW_S + 172_799
    assert model.add(NOW_S + 172_800) == NOW_S + 86_400
    assert model.add(NOW_S + 172_800 + 57_600, is_delete=True) == NOW_S + 172_800
    (unit,) = model.index.chain(NOW_S + 86_400)
    assert unit.magic == 1 | ROLL
    (unit,) = model.index.chain(NOW_S + 172_800)
    assert unit.magic == 1 | ROLL | DELETE
    model.end()


def test_a_slot_of_two_weeks_ago_is_not_taken_over(tmp_path: Path) -> None:
    """What waits there comes first: RocketMQ forgets it."""
    model = Model(tmp_path)
    model.add(NOW_S)
    send(model.store, TIMER_TOPIC, body=b"x")
    late = Waiting(1, 1, 1, NOW_S + SLOTS, 1)
    with pytest.raises(LookupError):
        model.index.add(late, NOW_S + SLOTS - 10)
    model.index.advance(NOW_S + 1)
    assert model.index.add(late, NOW_S + SLOTS - 10) == NOW_S + SLOTS
    model.end()


def test_units_that_are_taken_out_count_to_the_second_before(tmp_path: Path) -> None:
    """Where RocketMQ does not look any more, whichever of them are left."""
    model = Model(tmp_path)
    for _ in range(6):
        model.add(NOW_S)
    positions = model.waits[NOW_S]
    left = {positions[1], positions[2], positions[5]}
    model.note()
    model.index.relink(NOW_S, lambda unit: unit.position in left)
    assert [unit.position for unit in model.index.chain(NOW_S)] == sorted(left, reverse=True)
    slot = model.index.wheel.slot(NOW_S)
    assert slot is not None and slot.count == 3
    assert model.index.waiting == 3
    log = TimerLog(model.store.files, tmp_path / TIMER_LOG, LOG_BYTES)
    times = {unit.position: unit.time_s for _, unit in log.units()}
    assert {position for position, time_s in times.items() if time_s == NOW_S} == left
    assert set(times.values()) == {NOW_S, NOW_S - 1}
    model.end()
