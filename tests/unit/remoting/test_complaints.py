"""Warnings about peers are bounded, and what was left out is counted."""

import logging

import pytest

from aerobee.remoting.complaints import PERIOD_MS, TOLD_MAX, Complaints


def test_what_is_left_out_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """After a period there is room again; the first line then says how many were not told."""
    now_ms = [0]
    complaints = Complaints(lambda: now_ms[0], logging.getLogger("aerobee.here"))
    for number in range(TOLD_MAX + 7):
        complaints.tell("wrong number=%d", number)
    assert len(caplog.messages) == TOLD_MAX
    assert {record.name for record in caplog.records} == {"aerobee.here"}
    now_ms[0] = PERIOD_MS
    complaints.tell("wrong again")
    assert caplog.messages[TOLD_MAX:] == ["complaints left out count=7", "wrong again"]
