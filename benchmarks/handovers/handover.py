"""Measures hand-overs: groups grow and shrink under load, and what is delivered twice is counted.

    PYTHONPATH=tests python -m benchmarks.handovers.handover [--quick] [--only WORD] [--keep]

`make bench-handover` runs it. Exits with 1 when a bar is missed.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from support.interop.peers import PeerFailed
from support.interop.processes import ServerFailed
from support.interop.toolchain import BuildFailed, ToolMissing

from benchmarks.handovers.handover_report import (
    AEROBEE,
    ROCKETMQ,
    Results,
    keep,
    show,
    summary,
    title,
    verdicts,
)
from benchmarks.handovers.handover_runs import (
    CHANGES,
    FIVE,
    GO,
    GROUPS,
    JAVA,
    LITE,
    OURS,
    PUSH,
    SECOND,
    SLOW,
    Run,
    measure,
)
from benchmarks.reports import machine
from benchmarks.reports.progress import progress
from benchmarks.targets import compiling

QUICK_CHANGES: Final = 4
QUICK_GAP_S: Final = 1.5
ATTEMPTS: Final = 2  # on a busy machine a program may be too slow to start, or to answer

Note = Callable[[str], None]


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, keep; return the exit status."""
    options = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    runs = [run for run in plan(quick=options.quick) if _chosen(run, options.only)]
    began, load_before = time.monotonic(), machine.load_average()
    home = compiling.BENCHMARKS if options.keep else compiling.BUILD
    results: Results = {}
    failures: dict[Run, str] = {}
    try:
        with progress(len(runs)) as (note, advance):
            for run in runs:
                _attempt(run, results, failures, note)
                keep(home / "results", results, failures)
                advance()
    finally:  # what was measured is shown, whatever ended it
        show(results, failures)
        print(f"Took {time.monotonic() - began:.0f} s, load average {load_before:.2f} before")
        print(f"kept in {keep(home / 'results', results, failures)}")
    missed = any(not verdict.met for run in results for verdict in verdicts(run, results))
    return 1 if missed or failures else 0


def plan(*, quick: bool) -> list[Run]:
    """Return what is measured; Java's members meet both brokers one after the other."""
    changes = QUICK_CHANGES if quick else CHANGES
    runs = []
    for scenario in (PUSH,) if quick else (PUSH, SECOND, FIVE, SLOW, GROUPS, LITE):
        for client, server in ((OURS, AEROBEE), (JAVA, AEROBEE), (JAVA, ROCKETMQ), (GO, AEROBEE)):
            if client is GO and scenario in (LITE, SECOND, FIVE):
                continue  # it has no lite pull consumer, and waits for no handler when it leaves
            gap_s = QUICK_GAP_S if quick else scenario.gap_s
            runs.append(Run(scenario, client, server, changes, gap_s))
    return runs


def _attempt(run: Run, results: Results, failures: dict[Run, str], note: Note) -> None:
    """Measure one run, once more where a program failed; what fails does not end the others."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            results[run] = measure(run, note)
        except (ToolMissing, BuildFailed) as error:
            failures[run] = str(error)
            break
        except (PeerFailed, ServerFailed, OSError) as error:
            failures[run] = str(error)
            note(f"{title(run)} failed, attempt {attempt} of {ATTEMPTS}: {error}")
        else:
            failures.pop(run, None)
            note(summary(run, results[run]))
            break


def _chosen(run: Run, words: Sequence[str] | None) -> bool:
    return not words or any(word in title(run) for word in words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.handovers.handover", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="one scenario, few changes, a minute")
    parser.add_argument("--only", action="append", metavar="WORD", help="runs whose title holds it")
    parser.add_argument("--keep", action="store_true", help="the result goes to benchmarks/results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
