"""What is said of things that fail: when it begins, a count, and when it is over."""

import logging

import pytest

from aerobee.client.cluster.outages import THINGS_MAX, Outages

WHAT = "connecting to broker-a"


class Clock:
    """Stands still until it is set."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """One that stands still."""
    return Clock()


@pytest.fixture
def outages(clock: Clock, caplog: pytest.LogCaptureFixture) -> Outages:
    """Nothing fails yet."""
    caplog.set_level(logging.INFO)
    return Outages(logging.getLogger("test"), clock)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the levels and texts of what was logged since the last call."""
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return lines


def test_it_is_told_when_it_begins_each_half_minute_and_when_it_ends(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A minute of failures is three lines, and one more when it is over."""
    for _ in range(61):
        outages.failed(WHAT, "Connection refused")
        clock.now_s += 1
    assert told(caplog) == [
        ("WARNING", "connecting to broker-a fails: Connection refused"),
        ("WARNING", "connecting to broker-a still fails, 31 times in 30 s: Connection refused"),
        ("WARNING", "connecting to broker-a still fails, 61 times in 60 s: Connection refused"),
    ]
    assert outages.lasting == {WHAT}
    outages.over(WHAT)
    outages.over(WHAT)
    line = "connecting to broker-a works again, after 61.0 s and 61 failures"
    assert told(caplog) == [("INFO", line)]
    assert not outages.lasting


def test_what_does_not_fail_is_not_mentioned(
    outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    """A success alone is no news."""
    outages.over(WHAT)
    assert told(caplog) == []


def test_each_thing_has_its_own_lines(outages: Outages, caplog: pytest.LogCaptureFixture) -> None:
    """Two brokers that fail do not hide each other."""
    outages.failed(WHAT, "x")
    outages.failed("connecting to broker-b", "y")
    outages.over(WHAT)
    assert [line.split(" ")[2] for _, line in told(caplog)] == ["broker-a", "broker-b", "broker-a"]
    assert outages.lasting == {"connecting to broker-b"}


def test_what_comes_and_goes_is_told_twice_in_half_a_minute(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A peer that accepts and closes all the time fills no log."""
    for _ in range(290):  # 29 s
        outages.failed(WHAT, "closed by the peer")
        clock.now_s += 0.1
        outages.over(WHAT)
    assert [level for level, _ in told(caplog)] == ["WARNING", "INFO"]


def test_one_that_begins_again_soon_and_lasts_is_told_later(
    outages: Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """After the half minute, and its end as well."""
    outages.failed(WHAT, "x")
    outages.over(WHAT)
    told(caplog)
    for _ in range(32):
        clock.now_s += 1
        outages.failed(WHAT, "x")
    assert [level for level, _ in told(caplog)] == ["WARNING"]
    outages.over(WHAT)
    assert [level for level, _ in told(caplog)] == ["INFO"]


def test_what_nobody_tries_any_longer_is_forgotten(
    outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not said to work again."""
    outages.failed(WHAT, "x")
    outages.forget(WHAT)
    told(caplog)
    outages.over(WHAT)
    assert not outages.lasting
    assert told(caplog) == []


def test_names_that_come_and_go_take_no_memory(outages: Outages) -> None:
    """What began first is forgotten."""
    for number in range(3 * THINGS_MAX):
        outages.failed(f"connecting to broker-{number}", "x")
    assert len(outages.lasting) == THINGS_MAX
    assert f"connecting to broker-{3 * THINGS_MAX - 1}" in outages.lasting
    for number in range(3 * THINGS_MAX):
        outages.over(f"connecting to broker-{number}")
        outages.failed("another", "x")
    assert outages.lasting == {"another"}


def test_the_last_reason_of_what_lasts_is_known(outages: Outages) -> None:
    """And of nothing else."""
    outages.failed(WHAT, "refused")
    outages.failed(WHAT, "silent")
    outages.failed("another", "gone")
    outages.over("another")
    assert outages.reasons() == {WHAT: "silent"}
    outages.over(WHAT)
    assert outages.reasons() == {}
