"""What the runs of the hand-over benchmark came to: bars, rows of a table, a file of results."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.handovers.handover_runs import JAVA, OURS, Run, Scenario
from benchmarks.handovers.handover_tally import Outcome
from benchmarks.reports import machine
from benchmarks.reports.figures import Verdict
from benchmarks.reports.report import print_table

AEROBEE: Final = "aerobee"
ROCKETMQ: Final = "rocketmq"
TWICE_MOST: Final = 0.1  # of what Java members have twice on RocketMQ
REST_MS_MAX: Final = 2_000  # at p99, after a Java member has joined
COLUMNS: Final = (
    "scenario", "members", "broker", "sent", "delivered", "twice", "lost", "moves of a queue",
    "pause p50 ms", "p99 ms", "max ms", "p99 ms of joins", "bar",
)  # fmt: skip

Results = dict[Run, Outcome]


def verdicts(run: Run, results: Results) -> list[Verdict]:
    """Hold a run against its bars; RocketMQ's own runs have none."""
    outcome = results[run]
    if run.server == ROCKETMQ:
        return []
    found = [Verdict(outcome.lost == 0, f"{outcome.lost} lost (0)")]
    if run.client is OURS:
        found.append(Verdict(outcome.twice == 0, f"{outcome.twice} twice (0)"))
    theirs = _beside(run.scenario, results)
    if run.client is JAVA and run.scenario.kind == "push":
        if run.scenario.prompt:
            found.append(Verdict(outcome.twice == 0, f"{outcome.twice} twice (0)"))
        rested, most_ms = outcome.joins.p99_ms, float(REST_MS_MAX)
        if not run.scenario.keeps_up:
            most_ms = theirs.joins.p99_ms if theirs is not None else math.inf
        text = f"rests {rested:,.0f} ms at p99 of joins (at most {most_ms:,.0f})"
        found.append(Verdict(rested <= most_ms, text))
    elif run.client is JAVA and theirs is not None:
        most = theirs.twice * TWICE_MOST
        text = f"{outcome.twice} twice (at most a tenth of {theirs.twice})"
        found.append(Verdict(outcome.twice <= most, text))
    return found


def title(run: Run) -> str:
    """Name a run: scenario, members, broker."""
    return f"{run.scenario.name}, {run.client} on {run.server}"


def summary(run: Run, outcome: Outcome) -> str:
    """Say in a line what a run came to."""
    return (
        f"{title(run)}: {outcome.delivered:,} delivered, {outcome.twice:,} twice, "
        f"{outcome.lost:,} lost"
    )


def show(results: Results, failures: Mapping[Run, str]) -> None:
    """Print the machine, a row for each run, and the runs that failed."""
    facts = ", ".join(f"{key} {value}" for key, value in machine.describe().items() if value != "")
    print(f"\nMachine: {facts}\n")
    print_table(COLUMNS, [_row(run, results) for run in results])
    for run, failure in failures.items():
        print(f"FAILED {title(run)}: {failure}")


def keep(folder: Path, results: Results, failures: Mapping[Run, str]) -> Path:
    """Write all runs as JSON; earlier ones of the day stay unless they were made again."""
    described = machine.describe()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{now[:10]}-handover-{machine.slug(described)}.json"
    again = {title(run) for run in (*results, *failures)}
    runs = [kept for kept in _kept(target) if kept["title"] not in again]
    runs += [_document(run, outcome, now) for run, outcome in results.items()]
    content = {
        "machine": described,
        "runs": runs,
        "failures": {title(run): failure for run, failure in failures.items()},
    }
    target.write_text(json.dumps(content, indent=1) + "\n")
    return target


def _kept(target: Path) -> Iterable[dict[str, Any]]:
    if not target.exists():
        return []
    runs: list[dict[str, Any]] = json.loads(target.read_text())["runs"]
    return [run for run in runs if "title" in run]  # files of earlier versions have none


def _document(run: Run, outcome: Outcome, date: str) -> dict[str, Any]:
    return {
        "title": title(run),
        "date": date,
        "scenario": asdict(run.scenario),
        "client": str(run.client),
        "server": run.server,
        "changes": run.changes,
        "gap_s": run.gap_s,
        "outcome": asdict(outcome),
    }


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
        f"{outcome.joins.p99_ms:,.0f}",
        "; ".join(f"{'met' if v.met else 'MISSED'}: {v.text}" for v in verdicts(run, results)),
    )
