"""Measures clients beside each other, each with its own server, in turns.

    PYTHONPATH=tests python -m benchmarks.clients [--only LOAD] [--client NAME] [--quick]

`make bench-clients` runs it. Exits with 1 when a bar is missed.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.clients.figures import Report, missed
from benchmarks.clients.report import document, draw, print_report, write
from benchmarks.clients.table import CLIENTS, LOADS, OURS, unobtainable
from benchmarks.clients.turns import Plan, measure_load, running
from benchmarks.reports import machine
from benchmarks.reports.memory import MIB, needed_bytes
from benchmarks.reports.progress import progress
from benchmarks.targets import compiling
from benchmarks.targets.target import Cpus

ROUNDS_LEAST: Final = 3  # of a comparison: one round has no spread
QUICK_SECONDS: Final = 0.4
DRAWING: Final = "comparison.svg"


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, keep; return the exit status."""
    parser = _parser()
    options = parser.parse_args(words)
    if not options.quick and options.rounds < ROUNDS_LEAST:
        parser.error(f"--rounds {options.rounds}: a comparison takes at least {ROUNDS_LEAST}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    report, described = Report(), machine.describe()
    loads = [load for load in LOADS if not options.only or load.name in options.only]
    cpus = Cpus.apart()
    try:
        compiling.sync_counter()
    except (compiling.ToolMissing, compiling.BuildFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    load_before, stolen_before = machine.load_average(), machine.stolen_seconds()
    with (
        tempfile.TemporaryDirectory(prefix="clients-", dir=options.dir) as folder,
        progress(len(loads) + 1) as (note, advance),
    ):
        note("fetching what is compared")
        wanted = [each for each in CLIENTS if not options.client or each.name in options.client]
        for client in wanted:
            if (why := unobtainable(client)) is not None:
                report.missing[client.name] = why
        plan = Plan(
            cpus,
            Path(folder),
            1 if options.quick else options.rounds,
            QUICK_SECONDS if options.quick else options.seconds,
            [each for each in wanted if each.name not in report.missing],
            0 if options.quick else _warm_bytes(options.warm_memory, options.seconds),
            options.quick,
        )
        with running(plan, report, note) as here:
            advance()
            for load in loads:
                measure_load(here, load, report, note)
                advance()
    noise = {
        "load_average_before": load_before,
        "stolen_cpu_seconds": machine.stolen_seconds() - stolen_before,
    }
    print_report(report, described)
    print(
        f"Noise: load average {load_before:.2f} before, {noise['stolen_cpu_seconds']:.1f} s stolen"
    )
    _keep(report, described, noise, keep=options.keep)
    for line in (found := missed(report)):
        print(f"MISSED {line}")
    return 1 if found else 0


def _keep(
    report: Report, described: dict[str, object], noise: dict[str, float], *, keep: bool
) -> None:
    content = document(report, described, noise)
    kept = write((compiling.BENCHMARKS if keep else compiling.BUILD) / "results", content)
    drawing = (compiling.BENCHMARKS / "clients" if keep else compiling.BUILD) / DRAWING
    drawing.write_text(draw(content))
    print(f"kept in {kept}, drawn in {drawing}")


def _warm_bytes(asked_mib: int | None, seconds: float) -> int:
    return needed_bytes(seconds) if asked_mib is None else asked_mib * MIB


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("--only", action="append", choices=[load.name for load in LOADS])
    parser.add_argument(
        "--client",
        action="append",
        choices=[each.name for each in CLIENTS],
        help=f"some of them alone; bars hold where {OURS} is among them",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS_LEAST, help="of each load")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each run that sends")
    parser.add_argument("--quick", action="store_true", help="one short round, nobody warm")
    parser.add_argument(
        "--warm-memory", type=int, metavar="MIB", help="freed at need in each round (0: none)"
    )
    parser.add_argument("--dir", type=Path, help="where the stores are while they are measured")
    parser.add_argument("--keep", action="store_true", help="the result goes to benchmarks/results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
