"""Prints the comparison, keeps it as JSON, and draws it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.clients.figures import Measured, Report, verdicts
from benchmarks.clients.table import CLIENTS, LOADS, OURS, SERVERS, Load
from benchmarks.clients.turns import warm_lines
from benchmarks.reports import machine
from benchmarks.reports.charts import Group, picture
from benchmarks.reports.figures import middle, ratio, spread
from benchmarks.reports.report import Row, print_table

COLUMNS: Final = (
    "client", "server", "msg/s", "spread", "CPU us/msg", "server us/msg", "ours / its", "bar",
)  # fmt: skip
LONE_COLUMNS: Final = (
    "client", "server", "p50 us", "spread", "p99 us", "CPU us/msg", "ours / its", "bar",
)  # fmt: skip
AHEAD_COLUMNS: Final = ("client", "server", "messages", "bytes each", "above a body", "bar")
BODY_BYTES: Final = 1024
_SERVER_OF: Final = {client.name: SERVERS[client.server] for client in CLIENTS}


def print_report(report: Report, described: Mapping[str, Any]) -> None:
    """Print the machine, a table for each load, how everybody is set up, and what was left out."""
    facts = ", ".join(f"{key} {value}" for key, value in described.items() if value != "")
    print(f"\nMachine: {facts}")
    for name, version in report.versions.items():
        print(f"{name}: {version}")
    for load in LOADS:
        if load.name not in report.cells:
            continue
        print(f"\n{load.title}:\n")
        print_table(columns(load), list(rows(load, report)))
        for client in CLIENTS:
            if client.name in report.cells[load.name]:
                print(f"{client.name} {client.version}".strip() + f": {client.settings[load.name]}")
    print()
    for line in warm_lines(report):
        print(line)
    for failure in report.failures:
        print(f"FAILED {failure}")
    for name, why in report.missing.items():
        print(f"{name} is missing: {why}")


def columns(load: Load) -> Row:
    """Return the columns of a load's table."""
    return {"p50_us": LONE_COLUMNS, "bytes_each": AHEAD_COLUMNS}.get(load.figure, COLUMNS)


def rows(load: Load, report: Report) -> Iterator[Row]:
    """Yield one row for each client."""
    cell = report.cells[load.name]
    for name, runs in cell.items():
        server = _SERVER_OF[name]
        marks = "; ".join(
            f"{'met' if each.met else 'MISSED'}: {each.text}"
            for each in verdicts(load.name, report)
        )
        bar = marks if name == OURS else ""
        if load.figure == "bytes_each":
            each = middle(runs, "bytes_each")
            count = f"{middle(runs, 'messages'):,.0f}"
            yield (name, server, count, f"{each:,.0f}", f"{each / BODY_BYTES - 1:.0%}", bar)
            continue
        times = ""
        if name != OURS and OURS in cell:
            times = f"{ratio(cell[OURS], runs, load.figure):.2f}x"
        scatter = f"{spread(runs, load.figure):.0%}"
        cpu = f"{middle(runs, 'cpu_us'):.2f}"
        if load.figure == "p50_us":
            p50, p99 = (f"{middle(runs, word):,.0f}" for word in ("p50_us", "p99_us"))
            yield (name, server, p50, scatter, p99, cpu, times, bar)
        else:
            rate, spent = f"{middle(runs, 'per_second'):,.0f}", f"{middle(runs, 'server_us'):.2f}"
            yield (name, server, rate, scatter, cpu, spent, times, bar)


def document(
    report: Report, described: Mapping[str, Any], noise: Mapping[str, float]
) -> dict[str, Any]:
    """Return everything as JSON takes it."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": dict(described),
        "noise": dict(noise),
        "versions": report.versions,
        "missing": report.missing,
        "failures": report.failures,
        "clients": {
            client.name: {
                "version": client.version,
                "server": SERVERS[client.server],
                "settings": dict(client.settings),
            }
            for client in CLIENTS
        },
        "loads": {
            load: {name: [asdict(run) for run in runs] for name, runs in cell.items()}
            for load, cell in report.cells.items()
        },
        "warm_up": [
            {
                "load": load,
                "client": name,
                "flat": report.flat.get((load, name), False),
                "cpu_us": [each.cpu_us for each in windows],
                "server_us": [each.server_us for each in windows],
            }
            for (load, name), windows in report.warmups.items()
        ],
    }


def write(folder: Path, content: Mapping[str, Any]) -> Path:
    """Write `<date>-clients-<machine>.json`; a second run of the day replaces it."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{content['date'][:10]}-clients-{machine.slug(content['machine'])}.json"
    target.write_text(json.dumps(content, indent=1) + "\n")
    return target


def draw(content: Mapping[str, Any]) -> str:
    """Return the drawing of a result, one group of bars for each load."""
    groups = []
    for load in LOADS:
        found = content["loads"].get(load.name, {})
        if len(found) < 2:
            continue
        runs = {name: [Measured(**run) for run in each] for name, each in found.items()}
        groups.append(
            Group(
                title=_TITLES.get(load.figure, "{}").format(load.title),
                values={
                    name: [float(getattr(run, load.figure)) for run in each]
                    for name, each in runs.items()
                },
                texts={name: _text(load, each) for name, each in runs.items()},
            )
        )
    facts = content["machine"]
    caption = f"{facts.get('cpu', '')}, {facts.get('cpus', '?')} CPUs, {content['date'][:10]}"
    return picture(groups, caption, "What clients reach, each with its own server", ours=_OURS)


_TITLES: Final = {
    "p50_us": "{}: median, us (less is better)",
    "bytes_each": "{}: bytes a message of 1 KiB (less is better)",
}
_OURS: Final = tuple(client.name for client in CLIENTS if client.name.startswith(OURS))


def _text(load: Load, runs: list[Measured]) -> str:
    if load.figure == "p50_us":
        return f"{middle(runs, 'p50_us'):,.0f} us, p99 {middle(runs, 'p99_us'):,.0f}"
    if load.figure == "bytes_each":
        return f"{middle(runs, 'bytes_each'):,.0f} bytes"
    return f"{middle(runs, 'per_second'):,.0f} msg/s, {middle(runs, 'cpu_us'):.1f} us of CPU each"
