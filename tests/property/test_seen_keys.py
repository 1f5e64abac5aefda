"""The table of unique keys: compiled and in Python, both held to a plain list that forgets."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.examples import examples

from aerobee.broker.compiled.choice import seen_keys
from aerobee.broker.features.dedup.seen_keys import PythonSeenKeys
from aerobee.broker.writing.firsts import SeenKeys
from aerobee.storage.features.dedup.snapshot import ROW

WINDOW_MS = 100
KEYS = [random.Random(number).randbytes(16) for number in range(12)]
"""Few, so that they come again."""


class Model:
    """What a table is: a list in the order of the log, searched from end to end."""

    def __init__(self, entries_max: int) -> None:
        self.entries_max = entries_max
        self.clock_ms = 0
        self.windows: list[int] = []
        self.evicted: list[int] = []
        self.entries: list[tuple[int, bytes, int, int]] = []  # topic, key, position, seen

    def is_fresh(self, entry: tuple[int, bytes, int, int]) -> bool:
        """Whether its window has not passed."""
        return self.clock_ms - entry[3] <= self.windows[entry[0] - 1]

    def find(self, topic: int, key: bytes) -> int:
        """Return the position."""
        found = [each for each in self.entries if each[:2] == (topic, key) and self.is_fresh(each)]
        return found[0][2] if found else -1

    def put(self, topic: int, key: bytes, position: int) -> None:
        """Note a key."""
        self.forget(topic, key)
        for _ in range(2):
            of = [each for each in self.entries if each[0] == topic]
            if of and not self.is_fresh(of[0]):
                self.entries.remove(of[0])
        if len(self.entries) == self.entries_max:
            oldest = self.entries.pop(0)
            if self.is_fresh(oldest):
                self.evicted[oldest[0] - 1] = oldest[3]
        self.entries.append((topic, key, position, self.clock_ms))

    def forget(self, topic: int, key: bytes) -> None:
        """Drop a key."""
        self.entries = [each for each in self.entries if each[:2] != (topic, key)]


class Tables(RuleBasedStateMachine):
    """All that can be done to a table, done to three."""

    @initialize(entries_max=st.integers(1, 9))
    def begin(self, entries_max: int) -> None:
        """Make them, with a topic."""
        compiled = seen_keys(entries_max, wanted=True)
        self.tables: list[SeenKeys] = [PythonSeenKeys(entries_max)]
        if compiled is not None:
            self.tables.append(compiled)
        self.model = Model(entries_max)
        self.position = self.now_ms = 1000
        self.add_topic()

    @rule()
    def add_topic(self) -> None:
        """One more topic."""
        self.model.windows.append(WINDOW_MS)
        self.model.evicted.append(-1)
        for table in self.tables:
            assert table.add_topic(WINDOW_MS) == len(self.model.windows)

    def _topic(self, data: Any) -> int:
        return int(data.draw(st.integers(1, len(self.model.windows))))

    def _see(self, now_ms: int) -> None:
        self.model.clock_ms = max(self.model.clock_ms, now_ms)

    @rule(step_ms=st.integers(-300, 130))
    def later(self, step_ms: int) -> None:
        """Time goes by, and sometimes back."""
        self.now_ms += step_ms

    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def put(self, data: Any, key: bytes) -> None:
        """A message comes."""
        topic = self._topic(data)
        self.position += 100
        self._see(self.now_ms)
        self.model.put(topic, key, self.position)
        for table in self.tables:
            table.put(topic, key, self.position, self.now_ms)

    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def find(self, data: Any, key: bytes) -> None:
        """It is asked for."""
        topic = self._topic(data)
        self._see(self.now_ms)
        for table in self.tables:
            assert table.find(topic, key, self.now_ms) == self.model.find(topic, key)

    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def forget(self, data: Any, key: bytes) -> None:
        """It is void."""
        topic = self._topic(data)
        self.model.forget(topic, key)
        for table in self.tables:
            table.forget(topic, key)

    @rule(data=st.data(), window_ms=st.sampled_from([-1, 0, 20, 1000]))
    def set_window(self, data: Any, window_ms: int) -> None:
        """An attribute changes."""
        topic = self._topic(data)
        self.model.windows[topic - 1] = window_ms
        for table in self.tables:
            table.set_window(topic, window_ms)

    @rule(back=st.integers(0, 5))
    def take_back(self, back: int) -> None:
        """The last ones are not in the log after all."""
        from_position = self.position - 100 * back
        while self.model.entries and self.model.entries[-1][2] >= from_position:
            self.model.entries.pop()
        for table in self.tables:
            table.take_back(from_position)

    @rule(data=st.data(), count=st.integers(0, 3))
    def expire(self, data: Any, count: int) -> None:
        """What is too old goes."""
        topic, gone = self._topic(data), 0
        self._see(self.now_ms)
        while gone < count:
            of = [each for each in self.model.entries if each[0] == topic]
            if not of or self.model.is_fresh(of[0]):
                break
            self.model.entries.remove(of[0])
            gone += 1
        for table in self.tables:
            assert table.expire(topic, self.now_ms, count) == gone

    @rule(count=st.integers(0, 3), back=st.integers(0, 8))
    def trim(self, count: int, back: int) -> None:
        """The begin of the log goes."""
        begin, gone = self.position - 100 * back, 0
        while gone < count and self.model.entries and self.model.entries[0][2] < begin:
            self.model.entries.pop(0)
            gone += 1
        for table in self.tables:
            assert table.trim(begin, count) == gone

    @rule()
    def exchange(self) -> None:
        """Each is made anew of what another has written."""
        entries_max, topics = self.model.entries_max, range(1, len(self.model.windows) + 1)
        fresh: list[SeenKeys] = []
        for table in self.tables:
            table.rewind()
            rows = b""
            while some := table.rows(2):
                rows += some
            made = seen_keys(entries_max, wanted=not fresh) or PythonSeenKeys(entries_max)
            for topic in topics:
                assert made.add_topic(1 << 40) == topic  # nothing expires on the way
            made.load(rows, 0, len(rows), {topic: topic for topic in topics})
            for topic in topics:
                made.set_window(topic, self.model.windows[topic - 1])
            made.find(1, KEYS[0], self.model.clock_ms)
            fresh.append(made)
        self.tables = fresh
        self.model.evicted = [-1 for _ in topics]

    @invariant()
    def alike(self) -> None:
        """The same entries, in the same order; the same state of each topic."""
        rows = [
            ROW.pack(key, position, seen_ms, topic)
            for topic, key, position, seen_ms in self.model.entries
        ]
        for table in self.tables:
            table.rewind()
            assert table.rows(100) == b"".join(rows)
            assert table.count == len(rows)
            for topic in range(1, len(self.model.windows) + 1):
                of = [each for each in self.model.entries if each[0] == topic]
                expected = (len(of), of[0][3] if of else -1, self.model.evicted[topic - 1])
                assert table.state(topic) == expected


TestTables = Tables.TestCase
TestTables.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def tables(entries_max: int) -> list[SeenKeys]:
    """Return one of each kind that there is."""
    compiled = seen_keys(entries_max, wanted=True)
    return [PythonSeenKeys(entries_max), *([] if compiled is None else [compiled])]


def test_thousands_of_keys_find_their_own() -> None:
    """Through growth and eviction; keys that follow each other, as a client makes them."""
    for table in tables(3000):
        topic = table.add_topic(1 << 40)
        for number in range(5000):
            table.put(topic, number.to_bytes(16, "big"), number, 0)
        for number in range(5000):
            expected = number if number >= 2000 else -1
            assert table.find(topic, number.to_bytes(16, "big"), 0) == expected


def test_rows_go_on_while_keys_come_and_go() -> None:
    """What is there from first to last is in them once, in order."""
    for table in tables(100):
        topic = table.add_topic(1 << 40)
        for number in range(100):
            table.put(topic, number.to_bytes(16, "big"), number, 0)
        table.rewind()
        found, number = b"", 100
        while rows := table.rows(7):
            found += rows
            for _ in range(3):
                table.put(topic, number.to_bytes(16, "big"), number, 0)
                number += 1
        positions = [position for _, position, _, _ in ROW.iter_unpack(found)]
        assert positions == sorted(set(positions))
        assert set(positions) >= set(range(number - 100, 100))


@given(st.binary(max_size=40), st.integers(-5, 5))
@settings(max_examples=examples(100), deadline=None)
def test_what_makes_no_sense_is_refused(key: bytes, topic: int) -> None:
    """Keys of another length, topics that nobody added."""
    for table in tables(5):
        table.add_topic(10)
        if len(key) == 16 and topic == 1:
            continue
        with pytest.raises(ValueError):
            table.put(topic, key, 0, 0)
        with pytest.raises(ValueError):
            table.find(topic, key, 0)
        with pytest.raises(ValueError):
            table.load(bytes(35), 0, 35, {})
    for entries_max in (0, -1, 1 << 29):
        with pytest.raises(ValueError):
            tables(entries_max)
