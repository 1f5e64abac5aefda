"""The arithmetic of the comparison: what was measured, and whether our client's bars are met."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.clients.table import CONFLUENT, OURS, RIVALS
from benchmarks.generator import Sample
from benchmarks.reports.figures import Verdict, middle, ratio

RATES_LEAST: Final = {
    "send": 300_000.0,
    "send-64": 180_000.0,
    "batches": 450_000.0,
    "singles": 280_000.0,
}
LONE_P50_US_MOST: Final = 100.0
TRIP_P50_US_MOST: Final = 1_000.0
POLL_LEAST: Final = 0.95  # of the rate of a handler of batches, which noise alone may take
AHEAD_OF_ALL: Final = ("send", "send-64")
LEVEL_WITH_CONFLUENT: Final = ("batches", "singles")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one client; CPU in microseconds a message."""

    messages: int
    seconds: float
    per_second: float
    cpu_us: float
    server_us: float
    p50_us: float | None = None
    p99_us: float | None = None
    bytes_each: float | None = None  # of memory, a message that is fetched ahead

    @classmethod
    def read(cls, answer: Mapping[str, Any], before: Sample, after: Sample) -> "Measured":
        """Return what a program says, and what the server spent meanwhile."""
        messages, seconds = int(answer["messages"]), float(answer["seconds"])
        return cls(
            messages=messages,
            seconds=seconds,
            per_second=messages / seconds,
            cpu_us=1e6 * answer["cpu_s"] / messages,
            server_us=1e6 * (after.cpu_s - before.cpu_s) / messages,
            p50_us=answer.get("p50_us"),
            p99_us=answer.get("p99_us"),
            bytes_each=answer.get("bytes_each"),
        )


Cell = dict[str, list[Measured]]
"""By client, one run for each round."""


@dataclass(slots=True)
class Report:
    """Everything that was measured."""

    cells: dict[str, Cell] = field(default_factory=dict)  # by load
    warmups: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)
    """By load and client, the windows until it was warm."""
    flat: dict[tuple[str, str], bool] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  # by server
    missing: dict[str, str] = field(default_factory=dict)  # why a client was left out
    failures: list[str] = field(default_factory=list)


def verdicts(load: str, report: Report) -> Iterator[Verdict]:
    """Hold our client against the bars of a load."""
    cell = report.cells.get(load, {})
    ours = cell.get(OURS)
    if not ours:
        return
    if load in RATES_LEAST:
        found = middle(ours, "per_second")
        least = RATES_LEAST[load]
        yield Verdict(found >= least, f"{found:,.0f} msg/s (at least {least:,.0f})")
    if load == "lone":
        found = middle(ours, "p50_us")
        yield Verdict(
            found <= LONE_P50_US_MOST, f"p50 {found:,.0f} us (at most {LONE_P50_US_MOST:,.0f})"
        )
    if load == "trip":
        found = middle(ours, "p50_us")
        yield Verdict(found <= TRIP_P50_US_MOST, f"p50 {found:,.0f} us (under 1 ms)")
    if load == "polled" and (batches := report.cells.get("batches", {}).get(OURS)):
        found = middle(ours, "per_second") / middle(batches, "per_second")
        yield Verdict(
            found >= POLL_LEAST, f"{found:.2f}x a handler of batches (at least {POLL_LEAST:g}x)"
        )
    rivals: Sequence[str] = ()
    if load in AHEAD_OF_ALL:
        rivals = RIVALS
    elif load in LEVEL_WITH_CONFLUENT:
        rivals = (CONFLUENT,)
    for name in rivals:
        if runs := cell.get(name):
            found = ratio(ours, runs, "per_second")
            met = found > 1 if load in AHEAD_OF_ALL else found >= 1
            yield Verdict(met, f"{found:.2f}x {name}")


def missed(report: Report) -> list[str]:
    """Return every bar that was not met, and every failure."""
    found = [
        f"{load}: {verdict.text}"
        for load in report.cells
        for verdict in verdicts(load, report)
        if not verdict.met
    ]
    return found + report.failures
