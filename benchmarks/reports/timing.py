"""How micro-benchmarks are timed: all cases in turn, and the smallest CPU time of each counts.

Other work on the machine can only add to a pass, so the smallest pass is nearest to what the code
costs; taking turns lets a slow minute meet every case.
"""

import sys
import time
from collections.abc import Callable, Mapping

Case = Callable[[], int]
"""Does some work and returns of how many items it was."""


def best(cases: Mapping[str, Case], passes: int = 20) -> dict[str, float]:
    """Return the CPU microseconds per item of each case."""
    smallest = dict.fromkeys(cases, float("inf"))
    for _ in range(passes):
        for name, case in cases.items():
            smallest[name] = min(smallest[name], once(case))
    return smallest


def once(case: Case) -> float:
    """Return the CPU microseconds per item of one pass."""
    began = time.process_time_ns()
    items = case()
    return (time.process_time_ns() - began) / items / 1000


def print_best(title: str, found: Mapping[str, float]) -> None:
    """Print one line per case."""
    print(title)
    for name, microseconds in found.items():
        print(f"  {name:44} {microseconds:8.3f} us")
    sys.stdout.flush()
