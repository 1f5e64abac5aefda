"""The arithmetic of growth: what a unit costs at each size, and the step at which that rises.

A step between neighbouring sizes is named where the medians rise by more than the line's factor,
and no round of the larger size was as cheap as the dearest of the smaller one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import inf
from statistics import median
from typing import Final

from benchmarks.reports.figures import Verdict

RISE_MOST: Final = 1.5
"""What one step may add to the cost of a unit.

The narrowest step is 2.5 times the size. A cost that grows with the square of the size rises by
that much and more in each step; n log n by 1.1 to 1.5; caches that no longer hold everything cost
1.2 to 1.4 at 40,000 queues. So 1.5 lies above what has to be and below what is to be found.
"""
P99_RISE_MOST: Final = 3.0  # one of a hundred meets whatever else the machine does


class Kind(StrEnum):
    """What is asked of a line."""

    EACH = "each"  # of one message, one commit: may not rise with the size
    TOTAL = "total"  # of all: what each further unit of the size adds may not rise
    SHOWN = "shown"  # nothing: a rate, or a view of another line


@dataclass(frozen=True, slots=True)
class Line:
    """One cost; `resolution` is what two equal measurements may differ by, whatever the rounds say.

    A total names what a further unit costs: `further`, which is the total's unit times `scale`.
    `most` is a bar of the figure itself, at every size; `span_most` one of what the largest size
    has of the smallest.
    """

    key: str
    title: str
    kind: Kind = Kind.EACH
    resolution: float = 0.0
    rise_most: float = RISE_MOST
    further: str = ""
    scale: float = 1.0
    most: float = inf
    span_most: float = inf


Rounds = Mapping[int, Sequence[float]]
"""By size, what each round measured."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a unit costs at `size`, or from the size before up to it; `low` and `high` by noise."""

    size: int
    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class Step:
    """How the cost of a unit changed from the cost at one size to that at the next."""

    before: Cost
    after: Cost
    rise: float  # of the medians
    noise: bool  # whether the rounds of both overlap


def costs(line: Line, rounds: Rounds) -> list[Cost]:
    """Return the cost of a unit by size; of a total, what each unit beyond the size before adds."""
    found = [_measured(line, size, rounds[size]) for size in sorted(rounds) if rounds[size]]
    if line.kind is not Kind.TOTAL:
        return found
    return [_further(one, other) for one, other in pairwise(found)]


def steps(line: Line, rounds: Rounds) -> list[Step]:
    """Return all steps whose rise can be told: where a cost is nothing there is no ratio."""
    return [
        Step(one, other, other.middle / reference, noise=other.low <= one.high)
        for one, other in pairwise(costs(line, rounds))
        if (reference := one.middle if one.middle > 0 else one.high) > 0
    ]


def verdict(line: Line, rounds: Rounds) -> Verdict | None:
    """Say whether a line keeps its bars; None where nothing is asked or known.

    It is to grow no faster than the work does, and to keep what else is asked of it.
    """
    looks = (_steepest, _spanned, _highest)
    said = [found for look in looks if (found := look(line, rounds)) is not None]
    if not said:
        return None
    missed = [each for each in said if not each.met]
    return Verdict(not missed, "; ".join(each.text for each in missed or said))


def _steepest(line: Line, rounds: Rounds) -> Verdict | None:
    """Hold the steps between neighbouring sizes against what one may add."""
    found = steps(line, rounds) if line.kind is not Kind.SHOWN else []
    if not found:
        return None
    named = [step for step in found if step.rise > line.rise_most and not step.noise]
    worst = max(named or found, key=lambda step: step.rise)
    text = f"{worst.rise:.1f}x from {worst.before.size:,} to {worst.after.size:,}"
    if named:
        return Verdict(False, f"{text} (at most {line.rise_most:g}x)")
    if worst.rise > line.rise_most:
        return Verdict(True, f"{text}, within the noise")
    return Verdict(True, f"no step above {max(worst.rise, 1.0):.1f}x")


def _spanned(line: Line, rounds: Rounds) -> Verdict | None:
    """Hold the largest size against the smallest."""
    found = [size for size in sorted(rounds) if rounds[size]]
    if line.span_most == inf or len(found) < 2:
        return None
    first, last = found[0], found[-1]
    rise = median(rounds[last]) / median(rounds[first])
    text = f"{rise:.2f}x from {first:,} to {last:,} (at most {line.span_most:g}x)"
    return Verdict(rise <= line.span_most, text)


def _highest(line: Line, rounds: Rounds) -> Verdict | None:
    """Hold the largest median against the bar of the figure itself."""
    found = {size: median(values) for size, values in rounds.items() if values}
    if line.most == inf or not found:
        return None
    size = max(found, key=lambda each: found[each])
    text = f"{found[size]:.3g} at {size:,} (at most {line.most:g})"
    return Verdict(found[size] <= line.most, text)


def _measured(line: Line, size: int, values: Sequence[float]) -> Cost:
    margin = line.resolution / 2
    return Cost(size, min(values) - margin, median(values), max(values) + margin)


def _further(one: Cost, other: Cost) -> Cost:
    more = other.size - one.size
    return Cost(
        other.size,
        (other.low - one.high) / more,
        (other.middle - one.middle) / more,
        (other.high - one.low) / more,
    )
