"""Which offsets are read where some are named, and what is said of those that are gone."""

from __future__ import annotations

import logging

import pytest

from aerobee.spark.errors import DataLost
from aerobee.spark.offsets import EARLIEST, LATEST, BrokerQueue, QueueRange
from aerobee.spark.planning.ranges import resolve_ranges

A = BrokerQueue("s", "orders", 0)
THERE = {A: QueueRange(A, 10, 20)}


def test_ranges_default_to_everything_and_take_what_is_asked() -> None:
    """Numbers, earliest, latest, for all queues or each."""
    assert resolve_ranges(THERE) == [QueueRange(A, 10, 20)]
    assert resolve_ranges(THERE, {A: 12}, {A: 15}) == [QueueRange(A, 12, 15)]
    assert resolve_ranges(THERE, {A: EARLIEST}, {A: LATEST}) == [QueueRange(A, 10, 20)]
    assert resolve_ranges(THERE, LATEST) == []
    assert resolve_ranges(THERE, {A: 20}) == []


@pytest.mark.parametrize(
    ("starting", "ending", "lost", "kept"),
    [
        (5, LATEST, "5 messages .* orders s:0 .5, 10.", [QueueRange(A, 10, 20)]),
        (EARLIEST, 23, "3 messages .* orders s:0 .20, 23.", [QueueRange(A, 10, 20)]),
        (2, 8, "6 messages .* orders s:0 .2, 8.", []),
        (25, LATEST, "5 messages .* orders s:0 .20, 25.", []),
    ],
)
def test_lost_messages_fail_or_are_warned_of(
    starting: int,
    ending: int,
    lost: str,
    kept: list[QueueRange],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Both name the ranges."""
    with pytest.raises(DataLost, match=lost):
        resolve_ranges(THERE, {A: starting}, {A: ending})
    with caplog.at_level(logging.WARNING):
        found = resolve_ranges(THERE, {A: starting}, {A: ending}, fail_on_data_loss=False)
    assert found == kept
    assert "messages that were asked for are not in the store" in caplog.text


def test_queue_that_is_gone_is_lost() -> None:
    """A deleted topic's checkpointed offsets do not vanish without a word."""
    other = BrokerQueue("s", "deleted", 1)
    with pytest.raises(DataLost, match=r"deleted s:1 \[0, 7\)"):
        resolve_ranges(THERE, {other: 7})
