"""CPU time of a process and of everything that descends from it, those that have ended included.

Spark's Python processes come and go: planners live for one query, idle workers are stopped. What
an ended process has used is in its parent's account once the parent has waited for it.
"""

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from benchmarks.targets.processes import family

_TICKS = os.sysconf("SC_CLK_TCK")
TRIES = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """What some work took: CPU seconds of all processes together, and of the clock."""

    cpu_s: float
    wall_s: float


def cost(work: Callable[[], object], apart: Collection[int] = ()) -> Cost:
    """What the work takes, of this process and its descendants without those `apart`.

    Where a worker vanished meanwhile without its parent having waited for it, its account is
    lost; then the work is done again.
    """
    for _ in range(TRIES):
        before, began = _accounts(apart), time.monotonic()
        work()
        wall_s, after = time.monotonic() - began, _accounts(apart)
        if not _orphaned(before, after):
            break
    return Cost(sum(after.values()) - sum(before.values()), wall_s)


def _accounts(apart: Collection[int]) -> dict[int, float]:
    """CPU seconds of each living process of the family, its ended children's included."""
    ours = (pid for pid in family(os.getpid()) if pid not in apart)
    return {pid: spent for pid in ours if (spent := _account(pid)) is not None}


def _account(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11:15])) / _TICKS


def _orphaned(before: dict[int, float], after: dict[int, float]) -> bool:
    """Whether processes are gone whose time is in nobody's account."""
    gone = sum(spent for pid, spent in before.items() if pid not in after)
    there = sum(spent - before.get(pid, 0.0) for pid, spent in after.items())
    return there < gone
