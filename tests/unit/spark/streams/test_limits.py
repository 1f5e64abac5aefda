"""Limits of a trigger: never exceeded, exact where they can be, and fair to every queue."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aerobee.spark.offsets import BrokerQueue
from aerobee.spark.records.layout import Ints
from aerobee.spark.streams.limits import Counts, Turns, share_bytes, share_messages

BACKLOGS = st.dictionaries(
    st.builds(BrokerQueue, st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 9)),
    st.integers(1, 10_000),
    min_size=1,
    max_size=30,
)
RECORDS = st.dictionaries(
    st.builds(BrokerQueue, st.just("a"), st.just("x"), st.integers(0, 9)),
    st.lists(st.integers(91, 3000), min_size=1, max_size=60),
    min_size=1,
    max_size=8,
)


def sizes_of(records: dict[BrokerQueue, list[int]], taken: Counts) -> Any:
    """The sizes behind what has been taken of each queue."""

    def sizes(key: BrokerQueue, skip: int, count: int) -> Ints:
        at = taken.get(key, 0) + skip
        return np.array(records[key][at : at + count], np.int64)

    return sizes


@settings(max_examples=100, deadline=None)
@given(waiting=BACKLOGS, limit=st.integers(1, 200_000))
def test_messages_are_shared_exactly(waiting: Counts, limit: int) -> None:
    """The sum is the limit or all there is, and no queue gives more than it has."""
    taken = share_messages(waiting, sorted(waiting), limit)
    assert sum(taken.values()) == min(limit, sum(waiting.values()))
    assert all(0 < count <= waiting[key] for key, count in taken.items())
    if limit >= len(waiting):
        assert taken.keys() == waiting.keys(), "no queue goes without"
    total = sum(waiting.values())
    if len(waiting) <= limit < total:
        for key, count in taken.items():
            assert abs(count - limit * waiting[key] / total) < len(waiting) + 1, "in proportion"


@settings(max_examples=50, deadline=None)
@given(waiting=BACKLOGS, limit=st.integers(1, 40), grown=st.data())
def test_no_queue_starves_while_others_grow(
    waiting: Counts, limit: int, grown: st.DataObject
) -> None:
    """However much comes for others, each waiting queue is served within a round of all."""
    turns = Turns()
    since = dict.fromkeys(waiting, 0)
    for _ in range(3 * len(waiting)):
        order = turns.order(waiting)
        taken = share_messages(waiting, order, limit)
        turns.took(order, taken)
        for key in waiting:
            since[key] = 0 if taken.get(key) else since[key] + 1
            assert since[key] <= -(-len(waiting) // limit)
            waiting[key] += grown.draw(st.integers(0, 50)) + 1 - min(taken.get(key, 0), 1)


@settings(max_examples=80, deadline=None)
@given(records=RECORDS, limit=st.integers(1, 20_000), messages=st.integers(1, 200))
def test_bytes_are_never_exceeded_and_everything_comes(
    records: dict[BrokerQueue, list[int]], limit: int, messages: int
) -> None:
    """Trigger after trigger within both limits; only a single message may be longer than one."""
    turns, done = Turns(), dict.fromkeys(records, 0)
    while waiting := {key: len(all_) - done[key] for key, all_ in records.items()}:
        waiting = {key: count for key, count in waiting.items() if count}
        if not waiting:
            break
        order = turns.order(waiting)
        allowed = share_messages(waiting, order, messages)
        served = [key for key in order if key in allowed]
        taken = share_bytes(allowed, served, limit, sizes_of(records, done))
        turns.took(order, taken)
        assert taken, "each trigger takes something"
        assert all(count <= allowed[key] for key, count in taken.items())
        size = sum(sum(records[key][done[key] : done[key] + count]) for key, count in taken.items())
        assert size <= limit or sum(taken.values()) == 1
        for key, count in taken.items():
            done[key] += count
    assert done == {key: len(all_) for key, all_ in records.items()}


def test_large_message_does_not_wait_for_ever_beside_small_ones() -> None:
    """A queue whose next record never fits its own share has its turn all the same."""
    small, large = BrokerQueue("a", "x", 0), BrokerQueue("a", "x", 1)
    records = {small: [100] * 10_000, large: [900] * 3}
    turns, done = Turns(), {small: 0, large: 0}
    for _ in range(6):
        waiting = {
            key: len(all_) - done[key] for key, all_ in records.items() if done[key] < len(all_)
        }
        order = turns.order(waiting)
        taken = share_bytes(waiting, order, 1000, sizes_of(records, done))
        turns.took(order, taken)
        for key, count in taken.items():
            done[key] += count
    assert done[large] == 3
    assert done[small] > 20


def test_bytes_are_shared_in_proportion() -> None:
    """Two queues alike get alike, and what is read of the sizes is bounded by the limit."""
    keys = [BrokerQueue("a", "x", number) for number in range(2)]
    asked = 0

    def sizes(_key: BrokerQueue, _skip: int, count: int) -> Ints:
        nonlocal asked
        asked += count
        return np.full(count, 200, np.int64)

    taken = share_bytes(dict.fromkeys(keys, 10**9), keys, 1_000_000, sizes)
    assert sum(taken.values()) == 5000
    assert abs(taken[keys[0]] - taken[keys[1]]) <= 2
    assert asked < 30_000


def test_entries_that_are_gone_are_left_to_who_reads_them() -> None:
    """Sizes that cannot be told any more do not stop a stream before it says what is lost."""
    key = BrokerQueue("a", "x", 0)
    taken = share_bytes({key: 7}, [key], 1000, lambda *_: np.empty(0, np.int64))
    assert taken == {key: 7}
