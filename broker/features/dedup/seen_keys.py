"""Which unique keys came within the windows of their topics, and where their messages are.

`compiled/seen_keys.pxi` does the same over C structs, and serves where it was built.
"""

from array import array
from collections.abc import Mapping
from typing import Final

from aerobee.broker.writing.firsts import KEY_BYTES, TopicState
from aerobee.storage.features.dedup.snapshot import ROW, ROW_BYTES

LEFT_EACH_TIME: Final = 2
"""Entries of a topic that go when one comes, if their time is over."""
ENTRIES_MAX: Final = 1 << 28


class _Topic:
    __slots__ = ("count", "evicted_ms", "newest", "oldest", "window_ms")

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self.evicted_ms = -1
        self.oldest = self.newest = self.count = 0


class PythonSeenKeys:
    """Unique keys of topics with the positions of their messages, the newest `entries_max`.

    All that is known of one is an entry of flat arrays, 52 bytes, which grow with their number, and
    a cell of 4 to 8 in an open-addressed table of entries' numbers that is at most half full. An
    entry is in two lists in the order of the log: that of all, whose oldest goes when there is no
    more room, and that of its topic, from whose begin those go whose time is over. Keys are
    compared in full. Times are milliseconds, and the clock is the latest that was ever told: where
    the real one is set back, keys are known for longer.
    """

    def __init__(self, entries_max: int) -> None:
        if not 0 < entries_max <= ENTRIES_MAX:
            raise ValueError(f"{entries_max} entries, allowed: 1 to {ENTRIES_MAX}")
        self.entries_max: Final = entries_max
        self.clock_ms = self.count = self.put_count = self.evicted = 0
        self._topics = [_Topic(-1)]
        self._keys = bytearray(KEY_BYTES)  # entry 0 is none
        self._positions, self._seen_ms = array("q", (0,)), array("q", (0,))
        self._topic = array("I", (0,))  # 0: nothing is here
        self._older, self._newer = array("I", (0,)), array("I", (0,))
        self._topic_older, self._topic_newer = array("I", (0,)), array("I", (0,))
        self._cells = array("I", bytes(4 * 16))
        self._oldest = self._newest = self._free = self._cursor = 0

    def add_topic(self, window_ms: int) -> int:
        """Return the number of one more topic."""
        self._topics.append(_Topic(window_ms))
        return len(self._topics) - 1

    def set_window(self, topic: int, window_ms: int) -> None:
        """Let a topic's keys be known for so long (ms) from now on; negative: not at all."""
        self._topic_at(topic).window_ms = window_ms

    def find(self, topic: int, key: bytes, now_ms: int) -> int:
        """Return the position of the message that has a key, -1 where none had it in time."""
        self._check(topic, key)
        self._see(now_ms)
        number = self._cells[self._cell_of(topic, key)]
        return self._positions[number] if number and self._is_fresh(number) else -1

    def put(self, topic: int, key: bytes, position: int, now_ms: int) -> None:
        """Note the key of a message; `position` lies behind all others."""
        self._check(topic, key)
        self._see(now_ms)
        self._add(topic, key, position, self.clock_ms)

    def forget(self, topic: int, key: bytes) -> None:
        """Drop a key."""
        self._check(topic, key)
        if number := self._cells[self._cell_of(topic, key)]:
            self._drop(number)

    def take_back(self, position: int) -> None:
        """Drop all keys of messages from a position on."""
        while self._newest and self._positions[self._newest] >= position:
            self._drop(self._newest)

    def expire(self, topic: int, now_ms: int, count_max: int) -> int:
        """Drop up to so many keys of a topic whose time is over; return how many went."""
        of, gone = self._topic_at(topic), 0
        self._see(now_ms)
        while gone < count_max and of.oldest and not self._is_fresh(of.oldest):
            self._drop(of.oldest)
            gone += 1
        return gone

    def trim(self, begin: int, count_max: int) -> int:
        """Drop up to so many keys of messages before a position; return how many went."""
        gone = 0
        while gone < count_max and self._oldest and self._positions[self._oldest] < begin:
            self._drop(self._oldest)
            gone += 1
        return gone

    def state(self, topic: int) -> TopicState:
        """Return of a topic how many keys it has, when (ms) its oldest came, and the last that
        went before its time; -1 for none."""
        of = self._topic_at(topic)
        return of.count, self._seen_ms[of.oldest] if of.oldest else -1, of.evicted_ms

    def rewind(self) -> None:
        """Let `rows` begin with the oldest key."""
        self._cursor = self._oldest

    def rows(self, count_max: int) -> bytes:
        """Return up to so many keys more as the snapshot has them, b"" behind the last one."""
        found: list[bytes] = []
        while (at := self._cursor) and len(found) < count_max:
            found.append(
                ROW.pack(self._key(at), self._positions[at], self._seen_ms[at], self._topic[at])
            )
            self._cursor = self._newer[at]
        return b"".join(found)

    def load(self, rows: bytes, begin: int, end: int, topics: Mapping[int, int]) -> None:
        """Take rows from one byte to another; `topics` has the numbers here by those there."""
        if not 0 <= begin <= end <= len(rows) or (end - begin) % ROW_BYTES:
            raise ValueError("outside of the rows")
        for key, position, seen_ms, there in ROW.iter_unpack(memoryview(rows)[begin:end]):
            if here := topics.get(there, 0):
                self._check(here, key)
                self._see(seen_ms)
                self._add(here, key, position, seen_ms)

    def _topic_at(self, topic: int) -> _Topic:
        if not 0 < topic < len(self._topics):
            raise ValueError(f"no topic has the number {topic}")
        return self._topics[topic]

    def _check(self, topic: int, key: bytes) -> None:
        self._topic_at(topic)
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")

    def _see(self, now_ms: int) -> None:
        self.clock_ms = max(self.clock_ms, now_ms)

    def _key(self, number: int) -> bytes:
        return bytes(self._keys[number * KEY_BYTES : (number + 1) * KEY_BYTES])

    def _is_fresh(self, number: int) -> bool:
        window_ms = self._topics[self._topic[number]].window_ms
        return self.clock_ms - self._seen_ms[number] <= window_ms

    def _cell_of(self, topic: int, key: bytes) -> int:
        """Return the cell that a key has, or would get."""
        mask = len(self._cells) - 1
        at = hash((topic, key)) & mask
        while number := self._cells[at]:
            if self._topic[number] == topic and self._key(number) == key:
                break
            at = (at + 1) & mask
        return at

    def _add(self, topic: int, key: bytes, position: int, seen_ms: int) -> None:
        """Note a key behind all others; what had it goes."""
        of = self._topics[topic]
        if number := self._cells[self._cell_of(topic, key)]:
            self._drop(number)
        for _ in range(LEFT_EACH_TIME):
            if of.oldest and not self._is_fresh(of.oldest):
                self._drop(of.oldest)
        if self.count == self.entries_max:
            if self._is_fresh(self._oldest):
                evicted = self._topics[self._topic[self._oldest]]
                evicted.evicted_ms = self._seen_ms[self._oldest]
                self.evicted += 1
            self._drop(self._oldest)
        if 2 * (self.count + 1) > len(self._cells):
            self._grow_cells()
        number = self._take(key, position, seen_ms, topic)
        self._older[number], self._newer[number] = self._newest, 0
        self._topic_older[number], self._topic_newer[number] = of.newest, 0
        if self._newest:
            self._newer[self._newest] = number
        else:
            self._oldest = number
        if of.newest:
            self._topic_newer[of.newest] = number
        else:
            of.oldest = number
        self._newest = of.newest = number
        self.count += 1
        of.count += 1
        self.put_count += 1
        self._cells[self._cell_of(topic, key)] = number

    def _take(self, key: bytes, position: int, seen_ms: int, topic: int) -> int:
        """Return the number of an entry that nothing else has, filled."""
        number = self._free
        if not number:
            number = len(self._positions)
            self._keys += bytes(KEY_BYTES)
            for column in (self._positions, self._seen_ms, self._topic, self._older, self._newer,
                           self._topic_older, self._topic_newer):  # fmt: skip
                column.append(0)
        else:
            self._free = self._newer[number]
        self._keys[number * KEY_BYTES : (number + 1) * KEY_BYTES] = key
        self._positions[number], self._seen_ms[number] = position, seen_ms
        self._topic[number] = topic
        return number

    def _grow_cells(self) -> None:
        self._cells = array("I", bytes(8 * len(self._cells)))
        number = self._oldest
        while number:
            self._cells[self._cell_of(self._topic[number], self._key(number))] = number
            number = self._newer[number]

    def _drop(self, number: int) -> None:
        """Let an entry go."""
        of = self._topics[self._topic[number]]
        self._drop_cell(number)
        older, newer = self._older[number], self._newer[number]
        if older:
            self._newer[older] = newer
        else:
            self._oldest = newer
        if newer:
            self._older[newer] = older
        else:
            self._newest = older
        topic_older, topic_newer = self._topic_older[number], self._topic_newer[number]
        if topic_older:
            self._topic_newer[topic_older] = topic_newer
        else:
            of.oldest = topic_newer
        if topic_newer:
            self._topic_older[topic_newer] = topic_older
        else:
            of.newest = topic_older
        if self._cursor == number:
            self._cursor = newer
        self.count -= 1
        of.count -= 1
        self._topic[number], self._newer[number] = 0, self._free
        self._free = number

    def _drop_cell(self, number: int) -> None:
        """Empty an entry's cell; those behind it move up, where that is nearer to their place."""
        cells, mask = self._cells, len(self._cells) - 1
        hole = at = self._cell_of(self._topic[number], self._key(number))
        while moved := cells[at := (at + 1) & mask]:
            home = hash((self._topic[moved], self._key(moved))) & mask
            if (at - home) & mask >= (at - hole) & mask:
                cells[hole], hole = moved, at
        cells[hole] = 0
