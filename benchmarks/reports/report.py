"""Prints what was measured: rich tables in a terminal, Markdown into a pipe or a file."""

import sys
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, Final

from benchmarks.generator import Measurement
from benchmarks.loads import LOADS, NATS, REDIS, Load
from benchmarks.reports.figures import (
    Verdict,
    beside_verdict,
    middle,
    own_verdicts,
    ratio,
    signed_verdict,
    spread,
    start_verdicts,
    syncs_per_second,
    verdicts,
)
from benchmarks.reports.rounds import Cell, Report, is_flat
from benchmarks.targets.brokers import (
    AerobeeSignedTarget,
    AerobeeTarget,
    BesideTarget,
    RocketMQTarget,
)

OURS: Final = AerobeeTarget.name
THEIRS: Final = RocketMQTarget.name

COLUMNS: Final = (
    "load", "queues, tags", "server", "msg/s", "spread", "CPU us/msg", "p50 us", "p99 us",
    "p99.9 us", "syncs/s", "ours / theirs", "bar",
)  # fmt: skip
FLOOR_COLUMNS: Final = (
    "load", "generator alone, msg/s", "times Aerobee's", "generator us/msg", "Aerobee's CPU, times",
)  # fmt: skip

Row = tuple[str, ...]


def print_report(report: Report, machine: dict[str, Any]) -> None:
    """Print the machine, the table, the floor, the starts, and what was left out."""
    facts = ", ".join(f"{key} {value}" for key, value in machine.items() if value != "")
    print(f"\nMachine: {facts}")
    for name, version in report.versions.items():
        print(f"{name}: {version}")
    print()
    print_table(COLUMNS, [row for load in LOADS for row in load_rows(load, report)])
    print_table(FLOOR_COLUMNS, list(floor_rows(report)))
    for line in (*start_lines(report), *warmup_lines(report)):
        print(line)
    for failure in report.failures:
        print(f"FAILED {failure}")
    for name, why in report.missing.items():
        print(f"{name} is missing: {why}")


def load_rows(load: Load, report: Report) -> Iterator[Row]:
    """Yield one row for each variant and server."""
    for variant in load.variants:
        cell = report.cells.get((load.name, variant.label), {})
        for name, runs in cell.items():
            yield (load.title, variant.label, name, *_figures(runs), *_comparison(load, cell, name))


def _figures(runs: Sequence[Measurement]) -> Row:
    syncs = syncs_per_second(runs)
    return (
        f"{middle(runs, 'per_second'):,.0f}",
        f"{spread(runs, 'per_second') * 100:.0f} %",
        f"{middle(runs, 'cpu_us'):.1f}",
        *(f"{middle(runs, name):,.0f}" for name in ("p50_us", "p99_us", "p999_us")),
        "?" if syncs is None else f"{syncs:.1f}",
    )


def _comparison(load: Load, cell: Cell, name: str) -> Row:
    """Our figures divided by this server's, in the row of the server."""
    if name == OURS:
        return ("", _mark(own_verdicts(load.bar, cell[OURS])))
    if OURS not in cell:
        return ("", "")
    ours, theirs = cell[OURS], cell[name]
    rate, cpu, p50 = (ratio(ours, theirs, key) for key in ("per_second", "cpu_us", "p50_us"))
    text = f"{rate:.1f}x msg/s, {cpu:.2f}x CPU, {p50:.2f}x p50"
    if name == BesideTarget.name:
        return (text, _mark([beside_verdict(ours, theirs)]))
    if name == AerobeeSignedTarget.name:
        return (text, _mark([signed_verdict(ours, theirs)]))
    if name in (REDIS, NATS):
        wanted = load.outstanding == 64
        return (text, _mark([Verdict(rate > 1, "more msg/s")]) if wanted else "")
    if name != THEIRS:
        return (text, "")
    return (text, _mark(verdicts(load.bar, ours, theirs)))


def _mark(found: Sequence[Verdict]) -> str:
    return "; ".join(f"{'met' if verdict.met else 'MISSED'}: {verdict.text}" for verdict in found)


def floor_rows(report: Report) -> Iterator[Row]:
    """Yield how much faster the generator is than what it measures, by rate and by CPU."""
    for load in LOADS:
        floor = report.floors.get(load.name)
        cell = report.cells.get((load.name, load.variants[0].label), {})
        if floor is None or OURS not in cell:
            continue
        runs = cell[OURS]
        yield (
            load.title,
            f"{floor.per_second:,.0f}",
            f"{floor.per_second / middle(runs, 'per_second'):.1f}",
            f"{middle(runs, 'generator_us'):.2f}",
            f"{middle(runs, 'cpu_us') / middle(runs, 'generator_us'):.1f}",
        )


def start_lines(report: Report) -> Iterator[str]:
    """Yield a sentence for each broker that was started."""
    for name, starts in report.starts.items():
        memory = report.anonymous_bytes[name]
        yield f"{name} serves {median(starts):.2f} s after its start, RssAnon {memory / 1e6:.0f} MB"
    if OURS in report.starts:
        found = start_verdicts(report.starts[OURS], report.anonymous_bytes[OURS])
        yield f"{OURS}: {_mark(found)}"


def warmup_lines(report: Report) -> Iterator[str]:
    """Yield how long each server that warms up took until its CPU per message was flat."""
    for (load, name), cpu_us in report.warmups.items():
        state = "flat" if is_flat(cpu_us) else "NOT FLAT"
        shown = " ".join(f"{each:.1f}" for each in cpu_us)
        yield f"{load}: {name} {state} after {len(cpu_us)} windows, CPU us/msg {shown}"


def missed(report: Report) -> list[str]:
    """Return every bar that was not met."""
    found = [
        f"{row[0]}, {row[1]}, against {row[2]}: {row[-1]}"
        for load in LOADS
        for row in load_rows(load, report)
        if "MISSED" in row[-1]
    ]
    found += report.failures
    return found + [line for line in start_lines(report) if "MISSED" in line]


def print_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print a table as whoever reads stdout can use it."""
    if not rows:
        return
    if sys.stdout.isatty():
        _print_rich(columns, rows)
    else:
        print("\n".join(markdown(columns, rows)))
    print()


def markdown(columns: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table whose columns stand under each other."""
    widths = [max(len(row[at]) for row in (tuple(columns), *rows)) for at in range(len(columns))]
    for row in (tuple(columns), tuple("-" * width for width in widths), *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"| {' | '.join(cells)} |"


def _print_rich(columns: Sequence[str], rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for row in rows:
        colour = "red" if "MISSED" in row[-1] else None
        table.add_row(*row, style=colour)
    Console().print(table)
