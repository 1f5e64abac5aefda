"""Measures hand-overs: groups grow and shrink under load, and what is delivered twice is counted.

    PYTHONPATH=tests python -m benchmarks.handover [--quick] [--only WORD] [--keep]

`make bench-handover` runs it. Exits with 1 when a bar is missed.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from support.interop.peers import PeerFailed
from support.interop.processes import ServerFailed
from support.interop.toolchain import BuildFailed, ToolMissing

from benchmarks import compiling, machine
from benchmarks.figures import Verdict
from benchmarks.handover_runs import (
    CHANGES,
    GO,
    GROUPS,
    JAVA,
    LITE,
    OURS,
    PUSH,
    SLOW,
    Run,
    Scenario,
    measure,
)
from benchmarks.handover_tally import Outcome
from benchmarks.progress import progress
from benchmarks.report import print_table

AEROBEE: Final = "aerobee"
ROCKETMQ: Final = "rocketmq"
TWICE_MOST: Final = 0.1  # of what Java members have twice on RocketMQ
QUICK_CHANGES: Final = 4
QUICK_GAP_S: Final = 1.5
COLUMNS: Final = (
    "scenario", "members", "broker", "sent", "delivered", "twice", "lost", "moves of a queue",
    "pause p50 ms", "p99 ms", "max ms", "bar",
)  # fmt: skip

Results = dict[Run, Outcome]


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, keep; return the exit status."""
    options = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    runs = [run for run in plan(quick=options.quick) if _chosen(run, options.only)]
    began, load_before = time.monotonic(), machine.load_average()
    results: Results = {}
    failures: dict[Run, str] = {}
    with progress(len(runs)) as (note, advance):
        for run in runs:
            try:
                results[run] = measure(run, note)
            except (PeerFailed, ServerFailed, ToolMissing, BuildFailed) as error:
                failures[run] = str(error)
                note(f"{_title(run)} failed: {error}")
            advance()
    described = machine.describe()
    facts = ", ".join(f"{key} {value}" for key, value in described.items() if value != "")
    print(f"\nMachine: {facts}\n")
    print_table(COLUMNS, [_row(run, results) for run in results])
    for run, failure in failures.items():
        print(f"FAILED {_title(run)}: {failure}")
    print(f"Took {time.monotonic() - began:.0f} s, load average {load_before:.2f} before")
    home = compiling.BENCHMARKS if options.keep else compiling.BUILD
    print(f"kept in {_keep(home / 'results', described, results, failures)}")
    missed = any(not verdict.met for run in results for verdict in verdicts(run, results))
    return 1 if missed or failures else 0


def plan(*, quick: bool) -> list[Run]:
    """Return what is measured; Java's members meet both brokers one after the other."""
    changes = QUICK_CHANGES if quick else CHANGES
    runs = []
    for scenario in (PUSH,) if quick else (PUSH, SLOW, GROUPS, LITE):
        for client, server in ((OURS, AEROBEE), (JAVA, AEROBEE), (JAVA, ROCKETMQ), (GO, AEROBEE)):
            if client is GO and scenario is LITE:
                continue  # it has no lite pull consumer
            gap_s = QUICK_GAP_S if quick else scenario.gap_s
            runs.append(Run(scenario, client, server, changes, gap_s))
    return runs


def verdicts(run: Run, results: Results) -> list[Verdict]:
    """Hold a run against its bars; RocketMQ's own runs have none."""
    outcome = results[run]
    if run.server == ROCKETMQ:
        return []
    found = [Verdict(outcome.lost == 0, f"{outcome.lost} lost (0)")]
    if run.client is OURS:
        found.append(Verdict(outcome.twice == 0, f"{outcome.twice} twice (0)"))
    theirs = _beside(run.scenario, results)
    if run.client is JAVA and theirs is not None:
        most = theirs.twice * TWICE_MOST
        text = f"{outcome.twice} twice (at most a tenth of {theirs.twice})"
        found.append(Verdict(outcome.twice <= most, text))
    return found


def _beside(scenario: Scenario, results: Results) -> Outcome | None:
    """Return what Java's members had on RocketMQ."""
    for run, outcome in results.items():
        if run.scenario is scenario and run.client is JAVA and run.server == ROCKETMQ:
            return outcome
    return None


def _row(run: Run, results: Results) -> tuple[str, ...]:
    outcome = results[run]
    pauses = outcome.pauses
    return (
        run.scenario.name,
        str(run.client),
        run.server,
        *(f"{n:,}" for n in (outcome.sent, outcome.delivered, outcome.twice, outcome.lost)),
        f"{pauses.moves}",
        *(f"{ms:,.0f}" for ms in (pauses.p50_ms, pauses.p99_ms, pauses.max_ms)),
        "; ".join(f"{'met' if v.met else 'MISSED'}: {v.text}" for v in verdicts(run, results)),
    )


def _title(run: Run) -> str:
    return f"{run.scenario.name}, {run.client} on {run.server}"


def _keep(
    folder: Path, described: dict[str, Any], results: Results, failures: dict[Run, str]
) -> Path:
    """Write everything as JSON; a second run of the day replaces it."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    content = {
        "date": date,
        "machine": described,
        "runs": [
            {
                "scenario": asdict(run.scenario),
                "client": str(run.client),
                "server": run.server,
                "changes": run.changes,
                "gap_s": run.gap_s,
                "outcome": asdict(outcome),
            }
            for run, outcome in results.items()
        ],
        "failures": {_title(run): failure for run, failure in failures.items()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{date[:10]}-handover-{machine.slug(described)}.json"
    target.write_text(json.dumps(content, indent=1) + "\n")
    return target


def _chosen(run: Run, words: Sequence[str] | None) -> bool:
    return not words or any(word in _title(run) for word in words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.handover", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one scenario, few changes, a minute")
    parser.add_argument("--only", action="append", metavar="WORD", help="runs whose title holds it")
    parser.add_argument("--keep", action="store_true", help="the result goes to benchmarks/results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
