"""From one offset of a stream to the next: new queues, lost ones, limits, and what is read."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aerobee.spark.errors import DataLost
from aerobee.spark.feeds.feed import Missing
from aerobee.spark.offsets import EARLIEST, LATEST, BrokerQueue, Offsets, QueueRange
from aerobee.spark.records.layout import Ints
from aerobee.spark.streams.steps import Steps, TriggerLimits

A, B, C = (BrokerQueue("s", "orders", number) for number in range(3))
ALL = TriggerLimits()
NONE = Missing()


def sizes(_key: BrokerQueue, _start: int, count: int) -> Ints:
    """Records of 100 bytes."""
    return np.full(count, 100, np.int64)


def bounds(**queues: tuple[int, int]) -> dict[BrokerQueue, QueueRange]:
    """What there is of queues a, b and c."""
    keys = {"a": A, "b": B, "c": C}
    return {keys[name]: QueueRange(keys[name], *each) for name, each in queues.items()}


def test_first_offsets_are_what_is_asked_for() -> None:
    """Words for all queues, or a number each; the others from their earliest."""
    steps = Steps(fail_on_data_loss=True)
    there = bounds(a=(10, 20), b=(0, 0))
    assert steps.first(there, EARLIEST) == {A: 10, B: 0}
    assert steps.first(there, LATEST) == {A: 20, B: 0}
    assert steps.first(there, {A: 15}) == {A: 15, B: 0}
    assert steps.first(there, {A: LATEST, B: EARLIEST}) == {A: 20, B: 0}
    for wrong in ({A: 5}, {A: 21}, {C: 3}):
        with pytest.raises(DataLost):
            steps.first(there, wrong)
    lenient = Steps(fail_on_data_loss=False)
    assert lenient.first(there, {A: 5}) == {A: 10, B: 0}
    assert lenient.first(there, {A: 21}) == {A: 20, B: 0}


def test_new_queue_is_written_down_before_it_is_read() -> None:
    """So that a repeated micro-batch and the next one agree on where it starts."""
    steps = Steps(fail_on_data_loss=True)
    there = bounds(a=(0, 20), b=(7, 9))
    end = steps.next({A: 5}, there, NONE, ALL, sizes)
    assert end == {A: 20, B: 7}
    assert steps.ranges({A: 5}, end, there) == [QueueRange(A, 5, 20)]
    after = steps.next(end, there, NONE, ALL, sizes)
    assert steps.ranges(end, after, there) == [QueueRange(B, 7, 9)]
    assert steps.next(after, there, NONE, ALL, sizes) == after


def test_retention_that_overtakes_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It ends the query, or is skipped without a trigger for every thousand lost messages."""
    there = bounds(a=(50, 60), b=(30, 30))
    with pytest.raises(DataLost, match=r"orders s:0 \[5, 50\), orders s:1 \[10, 30\)"):
        Steps(fail_on_data_loss=True).next({A: 5, B: 10}, there, NONE, ALL, sizes)
    steps = Steps(fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        end = steps.next({A: 5, B: 10}, there, NONE, TriggerLimits(messages=4), sizes)
    assert end == {A: 54, B: 30}
    assert "[5, 50)" in caplog.text
    assert steps.ranges({A: 5, B: 10}, end, there) == [QueueRange(A, 50, 54)]


def test_offsets_that_went_back_are_told() -> None:
    """A queue made anew, or one that lost its last messages with the power, goes on at its end."""
    there = bounds(a=(0, 3))
    with pytest.raises(DataLost, match=r"\[3, 9\)"):
        Steps(fail_on_data_loss=True).next({A: 9}, there, NONE, ALL, sizes)
    steps = Steps(fail_on_data_loss=False)
    end = steps.next({A: 9}, there, NONE, ALL, sizes)
    assert end == {A: 3}
    assert steps.ranges({A: 9}, end, there) == []
    assert steps.next(end, bounds(a=(0, 5)), NONE, ALL, sizes) == {A: 5}


def test_missing_queues_end_the_query_or_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Deleted ones are forgotten, so that they may come back; others are remembered."""
    strict = Steps(fail_on_data_loss=True)
    for missing in (Missing(deleted=frozenset({B})), Missing(lost=frozenset({B}))):
        with pytest.raises(DataLost, match="orders s:1, read up to offset 4, is not there"):
            strict.next({A: 5, B: 4}, bounds(a=(0, 5)), missing, ALL, sizes)
    away = Missing(away=frozenset({B}))
    assert strict.next({A: 5, B: 4}, bounds(a=(0, 6)), away, ALL, sizes) == {A: 6, B: 4}

    steps = Steps(fail_on_data_loss=False)
    lost = Missing(deleted=frozenset({A}), lost=frozenset({B}))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert steps.next({A: 5, B: 4}, {}, lost, ALL, sizes) == {B: 4}
    assert caplog.text.count("orders s:1") == 1
    assert steps.next({B: 4}, bounds(a=(0, 2), b=(0, 6)), NONE, ALL, sizes) == {A: 0, B: 6}


def test_repeated_micro_batch_ignores_what_is_new_and_what_never_started() -> None:
    """A first micro-batch that is repeated starts later: it has read nothing, nor does it now."""
    steps = Steps(fail_on_data_loss=True)
    there = bounds(a=(0, 90), b=(0, 90))
    assert steps.ranges({A: 90, B: 90}, {A: 40}, there) == []
    assert steps.ranges({B: 3}, {A: 40, B: 5}, there) == [QueueRange(B, 3, 5)]


def test_planned_messages_that_are_gone_meanwhile_are_told() -> None:
    """Between the plan of a micro-batch and its reading, or while the query did not run."""
    with pytest.raises(DataLost, match=r"\[5, 8\)"):
        Steps(fail_on_data_loss=True).ranges({A: 5}, {A: 20}, bounds(a=(8, 30)))
    with pytest.raises(DataLost, match=r"\[5, 20\)"):
        Steps(fail_on_data_loss=True).ranges({A: 5}, {A: 20}, {})
    lenient = Steps(fail_on_data_loss=False)
    assert lenient.ranges({A: 5}, {A: 20}, bounds(a=(8, 30))) == [QueueRange(A, 8, 20)]


def test_queues_of_a_broker_that_is_away_are_left_to_the_tasks() -> None:
    """These wait for it; nothing is lost yet."""
    away = Missing(away=frozenset({B, C}))
    found = Steps(fail_on_data_loss=True).ranges({A: 1, B: 3}, {A: 2, B: 5}, bounds(a=(0, 9)), away)
    assert found == [QueueRange(A, 1, 2), QueueRange(B, 3, 5)]


@settings(max_examples=80, deadline=None)
@given(
    ends=st.lists(st.integers(0, 40), min_size=3, max_size=3),
    messages=st.none() | st.integers(1, 30),
    size=st.none() | st.integers(1, 3000),
    growth=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=20),
)
def test_every_message_is_read_once(
    ends: list[int],
    messages: int | None,
    size: int | None,
    growth: list[tuple[int, int]],
) -> None:
    """Whatever the limits, and while queues grow: the ranges follow each other without gaps."""
    steps, limits = Steps(fail_on_data_loss=True), TriggerLimits(messages, size)
    keys, reached = (A, B, C), dict.fromkeys((A, B, C), 0)
    grown = iter(growth)
    start: Offsets = {}
    while True:
        there = {key: QueueRange(key, 0, end) for key, end in zip(keys, ends, strict=True) if end}
        end = steps.next(start, there, NONE, limits, sizes)
        ranges = steps.ranges(start, end, there)
        count = sum(each.end - each.start for each in ranges)
        assert messages is None or count <= messages
        assert size is None or count * 100 <= size or count == 1
        for each in ranges:
            assert each.start == reached[each.key]
            reached[each.key] = each.end
        more = next(grown, None)
        if more is None and end == start:
            break
        if more is not None:
            ends[more[0]] += more[1]
        start = end
    assert reached == dict(zip(keys, ends, strict=True))
