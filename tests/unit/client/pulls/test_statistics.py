"""Counters grow, rates forget."""

from aerobee.client.pulls.statistics import SAMPLE_INTERVAL_MS, ConsumeStatistics
from aerobee.remoting.bodies import ConsumeStatus


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def run(statistics: ConsumeStatistics, clock: Clock, seconds: float) -> None:
    """Let time pass, with a sample every ten seconds."""
    for _ in range(int(seconds * 1000) // SAMPLE_INTERVAL_MS):
        clock.now += SAMPLE_INTERVAL_MS / 1000
        statistics.sample()


def test_rates_are_those_of_the_last_minute() -> None:
    """Times are means in ms; failures are counted for an hour."""
    clock = Clock()
    statistics = ConsumeStatistics(clock)
    run(statistics, clock, 600)
    counters = statistics.of("t")
    counters.pulls, counters.pulled, counters.pull_s = 10, 300, 0.5
    counters.calls, counters.call_s = 100, 2.0
    counters.succeeded, counters.failed = 240, 60
    run(statistics, clock, 50)
    status = statistics.status("t")
    assert (status.pull_rt, status.consume_rt) == (50.0, 20.0)
    assert (status.pull_tps, status.consume_ok_tps, status.consume_failed_tps) == (6.0, 4.8, 1.2)
    assert status.consume_failed_msgs == 60
    run(statistics, clock, 60)
    later = statistics.status("t")
    assert (later.pull_tps, later.consume_ok_tps, later.pull_rt) == (0.0, 0.0, 0.0)
    assert (later.consume_rt, later.consume_failed_msgs) == (20.0, 60)
    run(statistics, clock, 3600)
    assert statistics.status("t") == ConsumeStatus()
    assert statistics.read()["t"].failed == 60


def test_there_are_rates_from_the_first_second() -> None:
    """Long before a minute of samples is there; an unknown topic has none."""
    clock = Clock()
    statistics = ConsumeStatistics(clock)
    statistics.of("t").succeeded = 50
    clock.now += 2
    assert statistics.status("t").consume_ok_tps == 25.0
    assert statistics.status("other") == ConsumeStatus()
