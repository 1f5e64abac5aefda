"""The arithmetic of a report: medians, ratios of pairs, spread, and whether a bar is met."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.generator import Measurement
from benchmarks.loads import ANONYMOUS_BYTES_MOST, START_SECONDS_MOST, Bar

BESIDE_CPU_MOST: Final = 1.02
SIGNED_RATE_LEAST: Final = 0.95


def values(runs: Sequence[object], name: str) -> list[float]:
    """Return one figure of every round."""
    return [float(getattr(run, name)) for run in runs]


def middle(runs: Sequence[object], name: str) -> float:
    """Return the median of one figure over the rounds."""
    return median(values(runs, name))


def spread(runs: Sequence[object], name: str) -> float:
    """Return (largest - smallest) / median of one figure: what the machine's noise made of it."""
    found = values(runs, name)
    return (max(found) - min(found)) / median(found)


def ratio(ours: Sequence[object], theirs: Sequence[object], name: str) -> float:
    """Return the median, over the rounds, of our figure divided by theirs of the same round."""
    pairs = zip(values(ours, name), values(theirs, name), strict=True)
    return median(one / other for one, other in pairs)


def syncs_per_second(runs: Sequence[Measurement]) -> float | None:
    """Return how often the files were synced; None where that cannot be counted."""
    counted = [(run.syncs, run.seconds) for run in runs if run.syncs is not None]
    return sum(n for n, _ in counted) / sum(s for _, s in counted) if counted else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one bar is met, and what was compared."""

    met: bool
    text: str


def verdicts(bar: Bar, ours: Sequence[Measurement], theirs: Sequence[Measurement]) -> list[Verdict]:
    """Hold the ratios of a load against its bar."""
    found = []
    if bar.rate_least is not None:
        value = ratio(ours, theirs, "per_second")
        met = value >= bar.rate_least
        found.append(Verdict(met, f"{value:.1f}x msg/s (at least {bar.rate_least:g}x)"))
    for name, most, unit in (
        ("cpu_us", bar.cpu_most, "CPU"),
        ("p50_us", bar.p50_most, "p50"),
    ):
        if most is not None:
            value = ratio(ours, theirs, name)
            found.append(Verdict(value <= most, f"{value:.2f}x {unit} (at most {most:.2f}x)"))
    return found


def own_verdicts(bar: Bar, ours: Sequence[Measurement]) -> list[Verdict]:
    """Hold our own figures against what a load asks for, whatever others reach."""
    found = []
    if bar.per_second_least is not None:
        value = middle(ours, "per_second")
        met = value >= bar.per_second_least
        found.append(Verdict(met, f"{value:,.0f} msg/s (at least {bar.per_second_least:,.0f})"))
    if bar.p99_us_most is not None:
        value = middle(ours, "p99_us")
        found.append(
            Verdict(
                value <= bar.p99_us_most, f"p99 {value:,.0f} us (at most {bar.p99_us_most:,.0f})"
            )
        )
    return found


def beside_verdict(ours: Sequence[Measurement], others: Sequence[Measurement]) -> Verdict:
    """Hold our CPU per message against that of another checkout; rates are noisier."""
    value = ratio(ours, others, "cpu_us")
    return Verdict(value <= BESIDE_CPU_MOST, f"{value:.3f}x CPU (at most {BESIDE_CPU_MOST:g}x)")


def signed_verdict(ours: Sequence[Measurement], signed: Sequence[Measurement]) -> Verdict:
    """Hold the rate of clients that sign against that of clients whom nobody asks."""
    value = 1 / ratio(ours, signed, "per_second")
    text = f"{value:.3f} of the rate (at least {SIGNED_RATE_LEAST:g})"
    return Verdict(value >= SIGNED_RATE_LEAST, text)


def start_verdicts(starts: Sequence[float], anonymous_bytes: int) -> list[Verdict]:
    """Hold our start and our memory at rest against what they may be."""
    seconds = median(starts)
    return [
        Verdict(
            seconds < START_SECONDS_MOST,
            f"serves after {seconds:.2f} s (under {START_SECONDS_MOST} s)",
        ),
        Verdict(
            anonymous_bytes < ANONYMOUS_BYTES_MOST,
            f"{anonymous_bytes / 1e6:.0f} MB (under {ANONYMOUS_BYTES_MOST / 1e6:.0f} MB)",
        ),
    ]
