"""Shows what cost grows with, and names the step where it grows faster than the work.

    PYTHONPATH=tests python -m benchmarks.growth [--only AXIS] [--quick | --full] [--peers] [--keep]

`make bench-growth` runs it. Exits with 1 when a line of Aerobee's grows faster, or
misses a bar of its own.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.growth.admin_axes import Administration
from benchmarks.growth.axis import Axis
from benchmarks.growth.client_axes import Groups, HeldPulls, Members
from benchmarks.growth.drawing import draw
from benchmarks.growth.found import Found, columns, document, keep, missed, refusals, rows
from benchmarks.growth.server import WARMUP_S, Bench
from benchmarks.growth.store_axes import Batches, Bodies, Log, Resting, Topics
from benchmarks.growth.wire import raise_files_limit
from benchmarks.reports import machine
from benchmarks.reports.memory import needed_bytes
from benchmarks.reports.progress import progress
from benchmarks.reports.report import print_table
from benchmarks.targets import compiling
from benchmarks.targets.brokers import HEAP, AerobeeTarget, BrokerTarget, RocketMQTarget
from benchmarks.targets.target import Cpus

AXES: Final[tuple[Axis, ...]] = (
    Topics(), Resting(), HeldPulls(), Members(), Groups(), Administration(),
    Log(), Batches(), Bodies(),
)  # fmt: skip
ROUNDS_LEAST: Final = 3  # two have no median
SECONDS: Final = 2.0
QUICK_SECONDS: Final = 0.3
REST_S: Final = 10.0
QUICK_REST_S: Final = 1.0


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, keep, draw; return the exit status."""
    parser = _parser()
    options = parser.parse_args(words)
    if options.rounds < ROUNDS_LEAST:
        parser.error(f"--rounds {options.rounds}: a verdict takes at least {ROUNDS_LEAST}")
    if options.size and len(options.only or ()) != 1:
        parser.error("--size: of which axis? say it by --only")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    cpus = Cpus.apart()
    raise_files_limit()
    kinds: list[type[BrokerTarget]] = [AerobeeTarget]
    try:
        compiling.load_generator()
        compiling.sync_counter()
        if options.peers:
            compiling.tool("java", "install a JDK 17 or later to compare with RocketMQ")
            compiling.tool("mvn", "install Maven, which downloads RocketMQ")
            kinds.append(RocketMQTarget.of(options.heap))
    except (compiling.ToolMissing, compiling.BuildFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    described, load_before = machine.describe(), machine.load_average()
    stolen_before, began = machine.stolen_seconds(), time.monotonic()
    found: list[Found] = []
    chosen = [axis for axis in AXES if not options.only or axis.name in options.only]
    with tempfile.TemporaryDirectory(prefix="growth-", dir=options.dir) as folder:
        rest_s = QUICK_REST_S if options.quick else REST_S
        seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
        with progress(len(chosen)) as (note, advance):
            warm_bytes = options.warm_memory << 20
            if options.warm_memory < 0:
                warm_bytes = 0 if options.quick else needed_bytes(WARMUP_S + seconds)
            bench = Bench(cpus, Path(folder), options.rounds, seconds, rest_s, warm_bytes, note)
            for axis in chosen:
                found.append(measure(bench, axis, kinds, sizes(axis, options)))
                _show(found[-1])
                advance()
    noise = {
        "load_average_before": load_before,
        "stolen_cpu_seconds": machine.stolen_seconds() - stolen_before,
    }
    print(f"Took {time.monotonic() - began:.0f} s, load average {load_before:.2f} before")
    content = document(found, described, noise)
    whole = not (options.only or options.quick)  # and --size asks for --only
    _keep(compiling.BENCHMARKS if options.keep or whole else compiling.BUILD, content)
    problems = [
        f"nothing is known of {each.axis.name}"
        for each in found
        if AerobeeTarget.name not in each.rounds
    ]
    problems += [f"missed: {each}" for axis in found for each in missed(axis)]
    print("\n".join(problems or ["no line grows faster than the work does"]))
    return 1 if problems else 0


def measure(
    bench: Bench, axis: Axis, kinds: Sequence[type[BrokerTarget]], steps: Sequence[int]
) -> Found:
    """Go along one axis as often as there are rounds, all servers in turn."""
    found = Found(axis)
    for _ in range(1 if axis.once else bench.rounds):
        for kind in kinds:
            refused = found.refused.get(kind.name, {})
            for reading in axis.measure(bench, kind, [at for at in steps if at not in refused]):
                found.add(kind.name, reading)
    return found


def sizes(axis: Axis, options: argparse.Namespace) -> tuple[int, ...]:
    """Return the sizes that are asked for."""
    if options.size:
        return tuple(sorted(set(options.size)))
    if options.quick:
        return axis.quick
    return axis.sizes + axis.more if options.full else axis.sizes


def _show(found: Found) -> None:
    print(f"\n{found.axis.title}\n")
    print_table(columns(found), list(rows(found)))
    for line in refusals(found):
        print(line)


def _keep(home: Path, content: dict[str, object]) -> None:
    path, kept = keep(home / "results", content)
    drawing = home / "growth" / "growth.svg"
    drawing.parent.mkdir(exist_ok=True)
    drawing.write_text(draw(kept))
    print(f"kept in {path}\ndrawn in {drawing}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--only", action="append", choices=[axis.name for axis in AXES])
    parser.add_argument("--size", type=int, action="append", help="of the one axis, for its own")
    much = parser.add_mutually_exclusive_group()
    much.add_argument("--quick", action="store_true", help="small sizes, some three minutes")
    much.add_argument("--full", action="store_true", help="a log of 32 GiB, too")
    parser.add_argument("--peers", action="store_true", help="RocketMQ 5.5.0 in turns with it")
    parser.add_argument("--heap", default=HEAP, help="of RocketMQ's JVM (2g)")
    warm = "given up while a load runs; 0: none (what its seconds may need)"
    parser.add_argument("--warm-memory", type=int, default=-1, metavar="MIB", help=warm)
    parser.add_argument("--rounds", type=int, default=ROUNDS_LEAST, help="of each axis (3)")
    parser.add_argument("--seconds", type=float, help="of each load (2; quick 0.3)")
    parser.add_argument("--dir", type=Path, help="where the stores are while they are measured")
    parser.add_argument("--keep", action="store_true", help="the result goes to benchmarks/results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
