"""Times as options give them."""

import time

import click
import pytest

from aerobee.cli.operate.moments import PointInTime

EVENING_MS = 1_795_285_800_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2026-11-21T18:30", EVENING_MS),
        ("2026-11-21T19:30+01:00", EVENING_MS),
        ("2026-11-21T18:30:00.001Z", EVENING_MS + 1),
        ("1970-01-01", 0),
        (str(EVENING_MS), EVENING_MS),
        ("999999999d", 0),
    ],
)
def test_times_are_read(text: str, expected_ms: int) -> None:
    """In UTC where nothing else is said; longer ago than there is time is the beginning."""
    assert PointInTime().convert(text, None, None) == expected_ms


def test_how_long_ago() -> None:
    """By the clock of this machine."""
    before_ms = int(time.time() * 1000)
    assert PointInTime().convert("15m", None, None) in range(before_ms - 900_000, before_ms)


@pytest.mark.parametrize(
    "text", ["1969-12-31T23:59:59.999", "0001-01-01", "1970-01-01T00:00+00:01", "noon", "", "-1"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    """So is one before 1970: brokers take -1 for the end of a queue."""
    with pytest.raises(click.BadParameter):
        PointInTime().convert(text, None, None)
